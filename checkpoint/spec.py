"""What is known of a model: `ModelSpec` travels to gateways, `ModelFiles` stays with the worker."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

Task = Literal["embed", "score"]
Pooling = Literal[
    "cls", "mean", "max", "mean_sqrt_len", "weighted_mean", "last_token", "tokens", "sparse"
]
Quantizer = Literal["tanh_int8"]
TokenInput = Literal["cl100k_decode", "native", "reject"]


@dataclass(frozen=True)
class ModelSpec:
    """All that a gateway knows of a model; announced by workers and shown by `/v1/models`."""

    id: str
    task: Task
    family: str  # key of checkpoint/families.py and engine/families/
    dim: int  # width of a row before the gateway truncates it; 1 for scores
    max_tokens: int  # limit of one sequence, special tokens included
    max_tokens_source: str  # the file or flag that set it
    vocab_size: int  # rows of the embedding table: native ids are checked against it
    tokenizer_sha256: str
    revision: str
    aliases: tuple[str, ...] = ()
    matryoshka: tuple[int, ...] = ()  # sizes the model was trained to be cut to
    pooling: Pooling | None = None  # None: a score, by the head that the architecture has
    normalizes: bool = False  # the modules end in Normalize
    include_prompt: bool = True  # False: the prompt's tokens are left out of the pooling
    quantizer: Quantizer | None = None  # the model's own final quantizer
    calibration: tuple[tuple[float, float], ...] | None = None  # (low, high) per dimension
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None  # a name in prompts
    template: str | None = None  # of an LLM reranker: {instruction}, {query}, {document}
    instruction: str | None = None  # what the template says where the request says nothing
    score_tokens: tuple[int, int] | None = None  # ids whose logits' difference is the score
    token_input: TokenInput = "cl100k_decode"  # noqa: S105  tokens, not a secret
    dtype: str = "float32"  # what the engine computes in
    shard_tokens: int = 2048  # the most tokens a job may hold
    runtime: Mapping[str, Any] = field(default_factory=dict)  # device, kernels, self-test

    @property
    def gives_vectors(self) -> bool:
        """Whether it gives one dense vector a text."""
        return self.task == "embed" and self.pooling not in ("sparse", "tokens")

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "ModelSpec":
        """Read an announcement. Unknown fields of a newer worker are left out."""
        known = {f.name for f in fields(cls)}
        values = {k: v for k, v in json.loads(data).items() if k in known}
        for name in ("aliases", "matryoshka"):
            values[name] = tuple(values.get(name, ()))
        if values.get("score_tokens") is not None:
            values["score_tokens"] = tuple(values["score_tokens"])
        if values.get("calibration") is not None:
            values["calibration"] = tuple((low, high) for low, high in values["calibration"])
        return cls(**values)


@dataclass(frozen=True)
class Module:
    """One entry of modules.json: what runs after what."""

    kind: str  # last part of the class path: Transformer, Pooling, Dense, Normalize
    directory: Path
    config: Mapping[str, Any]  # its config.json; empty where there is none


@dataclass(frozen=True)
class ModelFiles:
    """The checkpoint on disk. Never leaves the worker."""

    directory: Path
    config: Mapping[str, Any]  # config.json
    modules: tuple[Module, ...]  # in order; a cross-encoder has the Transformer alone
    weights: tuple[Path, ...]  # the Transformer's safetensors files
