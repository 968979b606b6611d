"""tokenizer.json as it is served: with the special tokens that files beside it ask for."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from checkpoint.errors import CheckpointNotFound, UnsupportedCheckpoint
from checkpoint.json_file import read_object
from checkpoint.layout import read_layout
from checkpoint.modules import transformer_settings

# What a tokenizer is kept in where there is no tokenizer.json.
_SLOW_FILES = (
    "vocab.txt",
    "vocab.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.model",
)

# Of transformers: classes that build their normalizer from tokenizer_config.json alone. The first
# is what a WordPiece tokenizer without a class is.
_REBUILT = (
    "BertTokenizer",
    "BertTokenizerFast",
    "DistilBertTokenizer",
    "DistilBertTokenizerFast",
    "MPNetTokenizer",
    "MPNetTokenizerFast",
)


def read_tokenizer(directory: Path) -> bytes:
    """tokenizer.json of a `ModelFiles.directory`; what its SHA-256 is of.

    gte-Qwen2's does not end a text with the token that is pooled: there, tokenizer_config.json says
    add_eos_token, and code of the checkpoint's own appends it. Here it becomes part of the file.
    Without such code the entry changes nothing: transformers drops it where there is a
    tokenizer.json.
    """
    path = directory / "tokenizer.json"
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise CheckpointNotFound(_missing(directory)) from error
    _check_case(directory)
    end = _end_token(directory)
    return data if end is None else _with_end(path, data, end)


def token_id(directory: Path, token: str) -> int:
    """The id of a token of the vocabulary, not of the pieces of a text."""
    path = directory / "tokenizer.json"
    model = read_object(path).get("model")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    found = vocab.get(token) if isinstance(vocab, dict) else None
    if type(found) is not int:
        raise UnsupportedCheckpoint(f"{path}: {token!r} is no token, and the scores are read of it")
    return found


def _missing(directory: Path) -> str:
    slow = [name for name in _SLOW_FILES if (directory / name).is_file()]
    beside = f" ({', '.join(slow)} alone will not do)" if slow else ""
    return (
        f"{directory / 'tokenizer.json'} is missing{beside}: transformers' "
        "AutoTokenizer.from_pretrained(...).save_pretrained(...) writes it"
    )


def _check_case(directory: Path) -> None:
    """Files beside tokenizer.json may contradict it. Its lower case comes before either's."""
    tokenizer = read_object(directory / "tokenizer.json")
    normalizer = tokenizer.get("normalizer") or {}
    steps = [normalizer, *normalizer.get("normalizers", ())]
    lowers = any(step.get("lowercase") or step.get("type") == "Lowercase" for step in steps)
    if transformer_settings(directory).get("do_lower_case") and not lowers:
        raise UnsupportedCheckpoint(
            f"{directory}: do_lower_case, but tokenizer.json keeps the case"
        )
    path = directory / "tokenizer_config.json"
    config = read_object(path) if path.is_file() else {}
    asked = config.get("do_lower_case")
    rebuilt = (
        config.get("tokenizer_class", _REBUILT[0]) in _REBUILT
        and (tokenizer.get("model") or {}).get("type") == "WordPiece"
    )
    if rebuilt and isinstance(asked, bool) and asked is not lowers:
        does = "lowers" if lowers else "keeps"
        raise UnsupportedCheckpoint(
            f"{path}: do_lower_case is {str(asked).lower()}, but tokenizer.json {does} the case"
        )


def _end_token(directory: Path) -> str | None:
    """The token that tokenizer_config.json wants at the end of every text."""
    path = directory / "tokenizer_config.json"
    if not path.is_file():
        return None
    config = read_object(path)
    if config.get("add_eos_token") is not True or not _has_own_tokenizer(directory, config):
        return None
    token = config.get("eos_token")
    content = token.get("content") if isinstance(token, dict) else token
    if not isinstance(content, str):
        raise UnsupportedCheckpoint(f"{path}: add_eos_token, but eos_token is {token!r}")
    return content


def _has_own_tokenizer(directory: Path, tokenizer_config: Mapping[str, Any]) -> bool:
    """Whether code of the checkpoint's own tokenizes, which add_eos_token is addressed to.

    gte-Qwen2's model code is never without it, also where tokenizer_config.json was saved anew.
    """
    own = tokenizer_config.get("auto_map") or {}
    if not isinstance(own, dict) or own.get("AutoTokenizer"):
        return True  # a list is the older form of the same
    path = directory / "config.json"
    models = (read_object(path).get("auto_map") or {}) if path.is_file() else {}
    return bool(models.get("AutoModel") == "modeling_qwen.Qwen2Model")


def _with_end(path: Path, data: bytes, end: str) -> bytes:
    """The same file with `end` behind every text, unless it stands there already."""
    try:
        tokenizer = Tokenizer.from_buffer(data)
        end_id = tokenizer.token_to_id(end)
    except Exception as error:  # tokenizers raises no other
        raise UnsupportedCheckpoint(f"{path} is of no use: {error}") from error
    if end_id is None:
        raise UnsupportedCheckpoint(f"{path}: eos_token {end!r} is not in it")
    before, after = read_layout(tokenizer, texts=1).gaps
    if end_id in after.ids:
        return data
    parsed = json.loads(data)
    run = (*after.ids, end_id)
    first = [*_tokens(tokenizer, before.ids, 0), _text("A", 0), *_tokens(tokenizer, run, 0)]
    parsed["post_processor"] = {
        "type": "TemplateProcessing",
        "single": first,
        "pair": [*first, _text("B", 1), *_tokens(tokenizer, run, 1)],
        "special_tokens": {
            name: {"id": name, "ids": [token], "tokens": [name]}
            for token in {*before.ids, *run}
            for name in (tokenizer.id_to_token(token),)
        },
    }
    return json.dumps(parsed, ensure_ascii=False).encode()


def _tokens(tokenizer: Tokenizer, ids: Sequence[int], token_type: int) -> list[dict[str, Any]]:
    return [
        {"SpecialToken": {"id": tokenizer.id_to_token(token), "type_id": token_type}}
        for token in ids
    ]


def _text(name: str, token_type: int) -> dict[str, Any]:
    return {"Sequence": {"id": name, "type_id": token_type}}
