"""Small tokenizers of every kind, built on the spot."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import EMBEDDER, Read, write_files
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from checkpoint.find import DEFAULT_MODEL, FoundModel, find_model
from checkpoint.read import ReadOptions, read_model
from checkpoint.spec import ModelFiles, ModelSpec


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """read_model on an embedder (or another base) with some files replaced or left out."""

    def read(
        changes: Mapping[str, Any] | None = None,
        base: Mapping[str, Any] = EMBEDDER,
        model_id: str = "org/tiny",
        **options: Any,
    ) -> tuple[ModelSpec, ModelFiles]:
        write_files(tmp_path, {**base, **(changes or {})})
        return read_model(
            FoundModel(model_id, tmp_path, "commit", ("tiny",)), ReadOptions(**options)
        )

    return read


@pytest.fixture(scope="session")
def default_directory() -> Path:
    return find_model(DEFAULT_MODEL).directory


@pytest.fixture(scope="session")
def wordpiece_json(default_directory: Path) -> bytes:
    """The default model's own: BERT, with token types, and with truncation and padding left in."""
    return (default_directory / "tokenizer.json").read_bytes()


@pytest.fixture(scope="session")
def bpe_json() -> bytes:
    """Byte-level BPE between RoBERTa's special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the quick brown fox jumps over the lazy dog"] * 2, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer.to_str().encode()


@pytest.fixture(scope="session")
def unigram_json() -> bytes:
    """Unigram as in XLM-RoBERTa: special tokens are pieces, a pair has two separators."""
    specials = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    letters = [(chr(letter), -9.0) for letter in range(33, 127)]
    words = [("▁", -4.0), ("▁the", -5.0), ("▁quick", -6.0), ("fox", -6.5), ("é", -9.0)]
    tokenizer = Tokenizer(models.Unigram([*specials, *letters, *words, ("<mask>", 0.0)], unk_id=3))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return tokenizer.to_str().encode()


@pytest.fixture(scope="session")
def bare_json(bpe_json: bytes) -> bytes:
    """A tokenizer without special tokens around its texts, as GPT-2's."""
    parsed = json.loads(bpe_json)
    parsed["post_processor"] = None
    return json.dumps(parsed).encode()


@pytest.fixture(scope="session")
def tokenizer_jsons(
    wordpiece_json: bytes, bpe_json: bytes, unigram_json: bytes, bare_json: bytes
) -> dict[str, bytes]:
    return {
        "wordpiece": wordpiece_json,
        "bpe": bpe_json,
        "unigram": unigram_json,
        "bare": bare_json,
    }


@pytest.fixture(scope="session")
def chat_json() -> bytes:
    """Byte-level BPE of Qwen's kind: nothing around a text, chat tokens that are special or not."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["user system <Query>: the quick brown fox 日本"] * 2, trainer)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens(["<think>", "</think>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer.to_str().encode()


@pytest.fixture(scope="session")
def byte_fallback_json() -> bytes:
    """SentencePiece BPE of Gemma's kind: bytes for characters that are in no piece."""
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", *"abcdefghijklmnopqrstuvwxyz"]
    ids = {piece: i for i, piece in enumerate(pieces)}
    bpe = models.BPE(ids, [], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(bpe)
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>", special_tokens=[("<bos>", 2), ("<eos>", 1)]
    )
    tokenizer.add_special_tokens(pieces[:4])
    return tokenizer.to_str().encode()
