"""Small tokenizers of every kind, built on the spot."""

import json
from pathlib import Path

import pytest
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from checkpoint.find import DEFAULT_MODEL, find_model


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
