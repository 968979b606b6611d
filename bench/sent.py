"""What a run sends, as the command line and the server's own description decide it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.inputs import Encode, InputSource, InputsUnreadable, as_text, read_corpus, read_encoder
from bench.options import InputOptions
from checkpoint.errors import CheckpointError
from checkpoint.find import DEFAULT_ALIAS, DEFAULT_MODEL, find_model

_UNTOLD_LIMIT = 512  # of most encoders; a server that takes less refuses, and says so
# Ours takes OpenAI's ids otherwise; others have no such field, and take their model's.
_OWN_IDS = {"token_input": "native"}
_LIMITS = ("max_model_len", "max_input_length")  # ours and vLLM's; TEI's


@dataclass(frozen=True)
class Sent:
    """`fields`: of every embeddings request besides. `about`: "" for texts of the bench's own."""

    limit: int  # tokens an input
    source: InputSource
    fields: Mapping[str, object] = field(default_factory=dict)
    about: str = ""


def choose_inputs(options: InputOptions, server: Mapping[str, Any]) -> Sent:
    """`server`: what /v1/models says of the model. Raises InputsUnreadable."""
    told = next((server[name] for name in _LIMITS if isinstance(server.get(name), int)), None)
    limit = options.max_tokens or told or _UNTOLD_LIMIT
    fields: dict[str, object] = {}
    about = []
    corpus: list[str] = []
    encode: Encode = as_text
    if options.corpus is not None:
        corpus = read_corpus(options.corpus)
        about.append(f"{len(corpus)} lines of {options.corpus.name}, each again once all were sent")
    if options.kind == "tokens":
        encode = read_encoder(options.tokenizer or _packaged_tokenizer(str(server["id"])))
        fields |= _OWN_IDS
        about.append("token arrays of the model's own ids, special tokens among them")
    if options.truncate:
        fields["truncate"] = True
        about.append("the server is asked to cut what is too long")
    return Sent(limit, InputSource(limit, corpus, encode), fields, "; ".join(about))


def _packaged_tokenizer(model: str) -> Path:
    if model not in (DEFAULT_MODEL, DEFAULT_ALIAS):
        raise InputsUnreadable(f"--input tokens needs --tokenizer FILE, {model}'s tokenizer.json")
    try:
        return find_model(model).directory / "tokenizer.json"
    except CheckpointError as error:
        raise InputsUnreadable(str(error)) from error
