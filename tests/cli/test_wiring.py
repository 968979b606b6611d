"""Loading a model by its settings; where Redis is."""

import json
from pathlib import Path
from typing import get_args

import pytest
from reference.sharp import write_checkpoint
from simulated_device import SimulatedDevice, simulate

from api.model_config import ModelConfigError
from checkpoint.errors import CheckpointError
from cli.loading import load_model
from cli.settings import SettingsError, load_settings
from cli.wiring import build_access, build_embedded, build_observers, count_event, redis_config
from engine.errors import EngineError
from observability.metrics import Metrics
from transport.redis.events import TransportEvent


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_attention_heads", 0),
        ("num_attention_heads", "4"),
        ("num_hidden_layers", "2"),
        ("id2label", 5),
        ("layer_norm_eps", "x"),
        ("hidden_act", 3),
        ("architectures", "BertModel"),
    ],
)
def test_config_that_makes_no_sense_is_an_error_of_the_checkpoint(
    tmp_path: Path, key: str, value: object
) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    write_checkpoint("bert-scores", directory)
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises((CheckpointError, EngineError)):
        load_model(load_settings({"dtype": "float32"}, {}), str(directory))


def test_truncated_weights_are_an_error_of_the_checkpoint(tmp_path: Path) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    write_checkpoint("bert-cls", directory)
    weights = directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(EngineError, match=r"model\.safetensors"):
        load_model(load_settings({}, {}), str(directory))


def test_reranker_without_room_for_a_pair_says_so(tmp_path: Path) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    write_checkpoint("bert-scores", directory)
    settings = load_settings({"dtype": "float32", "max_input_tokens": 8}, {})
    with pytest.raises(CheckpointError, match="too few"):
        load_model(settings, str(directory))


def test_device_of_the_settings_is_the_one_that_the_engine_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(monkeypatch)
    opened = []

    def open_device(name: str) -> SimulatedDevice:
        opened.append(name)
        return SimulatedDevice()

    monkeypatch.setattr("engine.runtime._open", open_device)
    directory = tmp_path / "model"
    directory.mkdir()
    write_checkpoint("bert-cls", directory)
    settings = load_settings({"device": "cuda:1", "dtype": "float32", "kernels": "plain"}, {})
    model = load_model(settings, str(directory))
    assert opened == ["cuda:1"]
    assert model.spec.runtime["device"] == "simulated:0"
    model.engine.close()


class TestRedisConfig:
    def test_settings_say_where_redis_is_and_how_it_is_entered(self, tmp_path: Path) -> None:
        password = tmp_path / "password"
        password.write_text("hunter2\n")
        settings = load_settings(
            {"redis_url": "rediss://redis:6380/1", "redis_tls_ca_file": "~/ca.pem"},
            {
                "FLORILEGE_REDIS_USERNAME": "gateway",
                "FLORILEGE_REDIS_PASSWORD_FILE": str(password),
                "FLORILEGE_REDIS_SENTINEL_PASSWORD": "hunter3",
            },
        )
        config = redis_config(settings)
        assert (config.url, config.username) == ("rediss://redis:6380/1", "gateway")
        assert (config.password, config.sentinel_password) == ("hunter2", "hunter3")
        assert config.tls_ca_file == Path("~/ca.pem").expanduser()

    def test_no_redis_is_a_setting_that_is_missing(self) -> None:
        with pytest.raises(SettingsError, match=r"--redis-url \(FLORILEGE_REDIS_URL\)"):
            redis_config(load_settings({}, {}))


def test_every_event_of_the_transport_moves_a_counter_of_its_own() -> None:
    moved = set()
    for event in get_args(TransportEvent):
        metrics = Metrics()
        count_event(metrics, event, "" if event in ("reconnected", "duplicate_reply") else "m")
        samples = [s for metric in metrics.registry.collect() for s in metric.samples if s.value]
        (name,) = {
            s.name for s in samples if s.name.endswith("_total") and s.name.startswith("flor")
        }
        moved.add(name)
    assert len(moved) == len(get_args(TransportEvent))


async def test_server_refuses_a_model_config_of_models_that_it_does_not_serve(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    write_checkpoint("bert-cls", directory)
    path = tmp_path / "models.toml"
    path.write_text("[other]\naliases = ['a']\n")
    flags = {"model": (str(directory),), "model_config_": path, "self_test": "off"}
    settings = load_settings(flags, {})
    observers = build_observers()
    access = build_access(settings, observers, shared=False)
    with pytest.raises(ModelConfigError, match="'other'"):
        await build_embedded(settings, access, observers)
    await access.close()
