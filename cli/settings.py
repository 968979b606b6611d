"""Every setting, once: its flag, its FLORILEGE_ variable, its default and its help.

A flag wins over the environment, the environment over the default. Nothing else in the product
reads the environment.
"""

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from api.watch import ReadyWhen
from auth.database import sqlite_url
from checkpoint.find import DEFAULT_MODEL
from checkpoint.spec import Task, TokenInput
from cli.urls import (
    check_database_url,
    check_http_url,
    check_redis_url,
    shown_database_url,
    shown_redis_url,
)

PREFIX = "FLORILEGE_"

_LONGEST_S = 600.0  # of a request: a lease on one of its key's slots lasts longer


class SettingsError(Exception):
    """A flag or variable that cannot be; the message names it."""


class Settings(BaseModel):
    """All settings. A command takes those it needs."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    model: tuple[str, ...] = Field(
        (DEFAULT_MODEL,), description="DIR_OR_HUB_ID[=ALIAS]; may be given several times"
    )
    host: str = Field("127.0.0.1", description="Address of the public API")
    port: int = Field(8000, ge=0, le=65535, description="Its port; 0: a free one")
    admin_host: str = Field("127.0.0.1", description="Address of health and metrics")
    reuse_port: bool = Field(
        False, description="Share the port with other gateways of this host that say so (Linux)"
    )
    admin_port: int = Field(
        8001, ge=0, le=65535, description="Their port, a worker's 8002 by default; 0: a free one"
    )
    no_auth: bool = Field(False, description="Serve beyond loopback without keys")

    device: str = Field("auto", description="auto | cpu | cuda | cuda:N")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto",
        description="auto | float32 | bfloat16 | float16; auto: what the device is native in",
    )
    kernels: Literal["auto", "cpu", "onednn", "fused", "plain"] = Field(
        "auto",
        description="auto | cpu | onednn (both CPU) | fused (GPU) | plain: how layers are computed",
    )
    cpu_kernels: Literal["auto", "off"] = Field(
        "auto", description="auto | off: kernels in C++ where the processor has AVX-512"
    )
    attention_backend: Literal[
        "auto", "triton", "fa4", "flashinfer-fa3", "flashinfer-fa2", "varlen"
    ] = Field(
        "auto",
        description="auto | triton | fa4 | flashinfer-fa3 | flashinfer-fa2 | varlen: on a GPU",
    )
    graphs: Literal["on", "off"] = Field(
        "on", description="on | off: replay what a GPU runs often as a CUDA graph"
    )
    self_test: Literal["on", "off"] = Field(
        "on", description="on | off: compare packed with alone before serving"
    )
    max_batch_tokens: int | None = Field(
        None, ge=1, description="Tokens a batch; default 2,048 on a CPU, 32,768 on a GPU"
    )
    max_batch_sequences: int = Field(512, ge=1, description="Sequences a batch")
    watchdog_s: float = Field(60.0, gt=0, description="A step longer than this ends the process")

    max_input_tokens: int | None = Field(
        None, ge=1, description="Limit of one input; default the model's, never above its positions"
    )
    matryoshka: tuple[str, ...] = Field(
        (), description="ID=SIZE,SIZE…: sizes that `dimensions` may ask of a model"
    )
    task: tuple[str, ...] = Field(
        (), description="ID=score: serve a causal language model as a yes/no reranker"
    )
    calibration: tuple[str, ...] = Field(
        (), description="ID=FILE: ranges for int8 vectors; default the file beside the model"
    )
    token_input: TokenInput = Field(
        "cl100k_decode", description="cl100k_decode | native | reject: what token arrays mean"
    )
    max_inputs: int = Field(2_048, ge=1, description="Inputs a request")
    max_request_tokens: int = Field(1_048_576, ge=1, description="Tokens a request")
    max_body_bytes: int = Field(26_214_400, ge=1, description="Bytes a request body")
    max_queue_s: float = Field(10.0, gt=0, description="Longest wait that is admitted")
    bulk_tokens: int = Field(
        32_768, ge=1, description="A larger request that asks for no lane is bulk"
    )
    timeout_s: float = Field(
        60.0, gt=0, le=_LONGEST_S, description="Deadline of a request that names none"
    )
    max_timeout_s: float = Field(
        600.0, gt=0, le=_LONGEST_S, description="Longest deadline a request may name, up to 600"
    )
    tokenizer_threads: int = Field(2, ge=1, description="Threads that tokenize")
    drain_s: float = Field(25.0, ge=0, description="Time to finish requests after SIGTERM")

    ready_when: ReadyWhen = Field(
        "any",
        description="any | every | redis: a gateway is ready when any model, or every known one, "
        "has a live worker, or as soon as Redis answers",
    )
    # With an underscore, since pydantic keeps the name for itself.
    model_config_: Path | None = Field(
        None, description="TOML file of a gateway: prompts, aliases and limits of models by id"
    )

    redis_url: SecretStr | None = Field(
        None,
        description="redis:// | rediss:// | unix:// | redis+sentinel://HOST:PORT,HOST:PORT/NAME/DB"
        " | rediss+sentinel://: where gateways and workers meet",
    )
    redis_username: str | None = Field(None, description="Default the URL's")
    redis_password: SecretStr | None = Field(None, description="Default the URL's")
    redis_sentinel_username: str | None = Field(None, description="Of the Sentinels themselves")
    redis_sentinel_password: SecretStr | None = Field(None, description="Of the Sentinels")
    redis_tls_ca_file: Path | None = Field(
        None, description="Who signs Redis' certificate; default whom the host trusts"
    )
    redis_tls_cert_file: Path | None = Field(
        None, description="Our own certificate, where Redis asks for one"
    )
    redis_tls_key_file: Path | None = Field(None, description="Its private key")

    database_url: SecretStr | None = Field(
        None, description="Store of the keys; default SQLite in the data directory"
    )
    pepper: SecretStr | None = Field(
        None, description="Peppers of the keys as VERSION:BASE64; default a file beside the store"
    )
    data_dir: Path = Field(
        Path("~/.local/share/florilege"), description="Default $XDG_DATA_HOME/florilege"
    )
    cache_dir: Path = Field(
        Path("~/.cache/florilege"), description="Default $XDG_CACHE_HOME/florilege"
    )
    trace_endpoint: str | None = Field(
        None,
        description="OTLP/HTTP collector of traces, such as http://localhost:4318; default none. "
        "Needs the extra `otel`",
    )
    trace_ratio: float = Field(
        0.01, ge=0, le=1, description="Share of the requests traced whose caller decides nothing"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug | info | warning | error"
    )

    @field_validator(
        *("data_dir", "cache_dir", "model_config_"),
        *("redis_tls_ca_file", "redis_tls_cert_file", "redis_tls_key_file"),
    )
    @classmethod
    def _expand(cls, path: Path | None) -> Path | None:
        return path and path.expanduser()

    @field_validator("reuse_port")
    @classmethod
    def _check_reuse_port(cls, value: bool) -> bool:
        if value and sys.platform != "linux":
            raise ValueError("only Linux divides a port's connections among processes")
        return value

    @field_validator("matryoshka")
    @classmethod
    def _check_matryoshka(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        parse_matryoshka(value)
        return value

    @field_validator("model")
    @classmethod
    def _check_models(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or any(not item.rpartition("=")[0 if "=" in item else 2] for item in value):
            raise ValueError("expected DIR_OR_HUB_ID[=ALIAS]")
        return value

    @field_validator("task", "calibration")
    @classmethod
    def _check_of_models(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any("" in item.rpartition("=") for item in value):
            raise ValueError("expected ID=VALUE")
        return value

    @field_validator("task")
    @classmethod
    def _check_tasks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(task not in get_args(Task) for task in _by_model(value).values()):
            raise ValueError(f"expected ID={'|'.join(get_args(Task))}")
        return value

    @field_validator("database_url")
    @classmethod
    def _check_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            check_database_url(value.get_secret_value())
        return value

    @field_validator("redis_url")
    @classmethod
    def _check_redis_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            check_redis_url(value.get_secret_value())
        return value

    @field_validator("trace_endpoint")
    @classmethod
    def _check_trace_endpoint(cls, value: str | None) -> str | None:
        if value is not None:
            check_http_url(value)
        return value

    @property
    def database(self) -> str:
        """The URL of the store of the keys."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return sqlite_url(self.data_dir / "florilege.db")

    @property
    def pepper_path(self) -> Path:
        return self.data_dir / "pepper"

    def of_model(self, names: Collection[str]) -> "ModelSettings":
        """What is set for the model of these names: its id and aliases."""
        sizes = parse_matryoshka(self.matryoshka)
        tasks, files = _by_model(self.task), _by_model(self.calibration)
        path = next((files[name] for name in names if name in files), None)
        return ModelSettings(
            matryoshka=next((sizes[name] for name in names if name in sizes), ()),
            task=next((cast(Task, tasks[name]) for name in names if name in tasks), None),
            calibration=None if path is None else Path(path).expanduser(),
        )

    def check_models(self, names: Collection[str]) -> None:
        """Raises SettingsError for what is set of a model that is not among the served names."""
        for flag, items in (
            ("--matryoshka", parse_matryoshka(self.matryoshka)),
            ("--task", _by_model(self.task)),
            ("--calibration", _by_model(self.calibration)),
        ):
            for name in items:
                if name not in names:
                    raise SettingsError(f"{flag}: no model {name!r} is served")

    def redacted(self) -> dict[str, Any]:
        """Every effective value as JSON can hold it, secrets hidden."""
        values = self.model_dump(mode="json")
        values["database_url"] = shown_database_url(self.database)
        if self.redis_url is not None:
            values["redis_url"] = shown_redis_url(self.redis_url.get_secret_value())
        return values


@dataclass(frozen=True)
class ModelSettings:
    """The settings that name a model."""

    matryoshka: tuple[int, ...]
    task: Task | None
    calibration: Path | None


SECRETS = tuple(
    name for name, f in Settings.model_fields.items() if f.annotation == SecretStr | None
)


def load_settings(
    flags: Mapping[str, Any],
    environ: Mapping[str, str] = os.environ,
    defaults: Mapping[str, Any] | None = None,
) -> Settings:
    """The effective settings. `flags` holds None for a flag that was not given.

    `defaults`: of a command, where they differ. Raises SettingsError for an unknown variable, an
    unreadable file or an impossible value.
    """
    values = dict(defaults or {}) | _defaults(environ) | _from_environment(environ)
    values |= {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**values)
    except ValidationError as error:
        # Without the input: it may be a secret.
        first = error.errors(include_input=False, include_url=False)[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        raise SettingsError(f"{flag_of(name)} ({variable_of(name)}): {first['msg']}") from None


def share_the_cores() -> None:
    """Let OpenMP's threads spin but briefly while they wait, unless the operator says otherwise.

    By default they spin for milliseconds behind each product, on the cores that the event loop, the
    tokenizers and the clients of the same host need. Measured for 16 tokens over HTTP on two cores:
    2.5 to 2.9 ms with 3,000 rounds, 2.8 by default, 4.2 asleep (OMP_WAIT_POLICY=PASSIVE); beside
    another busy process 11, 340 and 5 to 6. Call before torch is loaded, which reads it.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")


def malloc_is_set() -> bool:
    """Whether the operator says what becomes of freed memory, by glibc's own variables."""
    names = [name for name in os.environ if name.startswith("MALLOC_") and name.endswith("_")]
    return bool(names) or "GLIBC_TUNABLES" in os.environ


def flag_of(name: str) -> str:
    return "--" + name.rstrip("_").replace("_", "-")


def variable_of(name: str) -> str:
    return PREFIX + name.rstrip("_").upper()


def parse_matryoshka(items: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """`ID=64,128` by model. In a variable a comma separates models too: sizes follow their id."""
    sizes: dict[str, tuple[int, ...]] = {}
    model = ""
    for part in ",".join(items).split(",") if items else []:
        name, equals, size = part.strip().rpartition("=")
        model = name if equals else model
        if not model or not size.isdecimal() or int(size) < 1:
            raise ValueError("expected ID=SIZE,SIZE…")
        sizes[model] = (*sizes.get(model, ()), int(size))
    return sizes


def _by_model(items: tuple[str, ...]) -> dict[str, str]:
    """`ID=VALUE` by id, the last one given."""
    return {name: value for name, _, value in (item.rpartition("=") for item in items)}


def _defaults(environ: Mapping[str, str]) -> dict[str, Any]:
    homes = {"data_dir": "XDG_DATA_HOME", "cache_dir": "XDG_CACHE_HOME"}
    return {
        name: Path(home) / "florilege"
        for name, variable in homes.items()
        if (home := environ.get(variable))
    }


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    by_variable = {variable_of(name): name for name in Settings.model_fields}
    files = {f"{variable_of(name)}_FILE": name for name in SECRETS}
    values: dict[str, Any] = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX):
            continue
        if variable in by_variable:
            name = by_variable[variable]
            values[name] = _split(text) if _is_list(name) else text
        elif variable in files:
            values.setdefault(files[variable], _read_secret(variable, text))
        else:
            raise SettingsError(f"{variable} is not a setting: see `florilege serve --help`")
    return values


def _is_list(name: str) -> bool:
    return Settings.model_fields[name].annotation == tuple[str, ...]


def _split(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _read_secret(variable: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{variable}: cannot read the file: {type(error).__name__}") from None
