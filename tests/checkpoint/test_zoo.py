"""Every checkpoint of the zoo is read as what it is, and its ids are those of the reference."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from reference import sharp_inputs
from reference.archive import Reference
from reference.zoo import checkpoint as zoo
from reference.zoo import values
from reference.zoo.modules import normalize
from reference.zoo.registry import GROUPS

from checkpoint.find import FoundModel
from checkpoint.prompts import PromptChoice, prompt_of, templated_query
from checkpoint.read import ReadOptions, read_model, read_tokenizer
from checkpoint.spec import ModelFiles, ModelSpec
from checkpoint.tokenizer import Encoded, TextTokenizer

ALL = [(group, name) for group, checkpoints in GROUPS.items() for name in checkpoints]

# Family and pooling of each; None: a score by the head of its architecture.
EXPECTED = {
    "distilbert-mean": ("distilbert", "mean"),
    "distilbert-scores": ("distilbert", None),
    "camembert-mean": ("roberta", "mean"),
    "camembert-scores": ("roberta", None),
    "bert-legacy-cls": ("bert", "cls"),
    "pplx-mean": ("llama_bidirectional", "mean"),
    "llama-bidirectional-mean": ("llama_bidirectional", "mean"),
    "gte-qwen2-last": ("llama_bidirectional", "last_token"),
    "qwen3-yes-no": ("llama", None),
    "qwen3-logit-score": ("llama", None),
    "bert-module-scores": ("bert", None),
    "bert-pooled-scores": ("bert", "cls"),
    "gemma3-mean-dense": ("gemma3", "mean"),
    "gemma3-last": ("gemma3", "last_token"),
    "qwen3-last": ("llama", "last_token"),
    "qwen3-scores": ("llama", None),
    "qwen2-last": ("llama", "last_token"),
    "qwen2-scores": ("llama", None),
    "mistral-last": ("llama", "last_token"),
    "llama-last": ("llama", "last_token"),
    "modernbert-cls": ("modernbert", "cls"),
    "modernbert-mean": ("modernbert", "mean"),
    "modernbert-scores-mean": ("modernbert", None),
    "modernbert-scores-cls": ("modernbert", None),
    "mpnet-mean": ("mpnet", "mean"),
    "mpnet-cls": ("mpnet", "cls"),
    "bert-max": ("bert", "max"),
    "bert-weighted-mean": ("bert", "weighted_mean"),
    "bert-mean-sqrt-length": ("bert", "mean_sqrt_len"),
    "bert-max-6": ("bert", "max"),
    "bert-weighted-mean-6": ("bert", "weighted_mean"),
    "bert-mean-sqrt-length-6": ("bert", "mean_sqrt_len"),
    "bert-mean-without-prompt": ("bert", "mean"),
    "bert-dense-dense": ("bert", "mean"),
    "bert-norm-dense-6": ("bert", "cls"),
    "nomic-mean": ("nomic_bert", "mean"),
    "nomic-native-cls": ("nomic_bert", "cls"),
    "new-cls": ("new", "cls"),
    "new-untyped-cls": ("new", "cls"),
    "new-scores": ("new", None),
    "gte-native-cls": ("new", "cls"),
    "colbert": ("bert", "tokens"),
    "colbert-6": ("bert", "tokens"),
    "splade": ("bert", "sparse"),
    "splade-sum-6": ("bert", "sparse"),
    "bge-m3-lexical": ("roberta", "cls"),
    "bge-m3-multi-vectors": ("roberta", "cls"),
    "pplx-spans": ("llama_bidirectional", "mean"),
}


@pytest.fixture(scope="module")
def references() -> dict[str, Reference]:
    return {group: values.read(group) for group in GROUPS}


def read(name: str, group: str, directory: Path) -> tuple[ModelSpec, ModelFiles]:
    checkpoint = GROUPS[group][name]
    zoo.write(name, checkpoint, directory / name)
    options = ReadOptions()
    if checkpoint.answer == "yes_no":  # its files do not say so, and ask for a shorter limit
        options = ReadOptions(task="score", max_input_tokens=checkpoint.max_tokens)
    return read_model(FoundModel(name, directory / name, "", ()), options)


@pytest.mark.parametrize(("group", "name"), ALL)
def test_checkpoint_is_read_as_what_it_is(group: str, name: str, tmp_path: Path) -> None:
    checkpoint = GROUPS[group][name]
    spec, files = read(name, group, tmp_path)
    assert (spec.family, spec.pooling) == EXPECTED[name]
    assert spec.task == ("score" if checkpoint.asks_pairs else "embed")
    assert spec.normalizes == (normalize in checkpoint.modules or checkpoint.answer == "tokens")
    assert spec.quantizer == ("tanh_int8" if name.startswith("pplx") else None)
    assert spec.include_prompt == (checkpoint.excludes_prompt is None)
    assert (spec.score_tokens is not None) == (checkpoint.answer in ("yes_no", "logit_score"))
    assert (spec.template is not None) == (checkpoint.answer == "yes_no")
    assert spec.prompts == checkpoint.prompts
    assert len(files.weights) == checkpoint.shards


@pytest.mark.parametrize(("group", "name"), ALL)
def test_ids_are_those_of_the_reference(
    group: str, name: str, tmp_path: Path, references: dict[str, Reference]
) -> None:
    arrays = references[group].arrays
    spec, files = read(name, group, tmp_path)
    tokenizer = TextTokenizer(read_tokenizer(files.directory), spec.max_tokens, spec.vocab_size)
    key = "pairs" if GROUPS[group][name].asks_pairs else "texts"
    if f"{name}/{key}/input_ids" not in arrays:
        assert name == "qwen3-logit-score"
        return
    parts = list(pairs(tokenizer, spec) if key == "pairs" else texts(tokenizer, spec, name, group))
    ids = np.concatenate([part.input_ids for part in parts])
    types = [np.zeros(p.input_ids.size) if p.type_ids is None else p.type_ids for p in parts]
    assert (
        np.concatenate([p.lengths for p in parts]).tolist()
        == arrays[f"{name}/{key}/lengths"].tolist()
    )
    assert ids.tolist() == arrays[f"{name}/{key}/input_ids"].tolist()
    assert np.concatenate(types).tolist() == arrays[f"{name}/{key}/type_ids"].tolist()


def pairs(tokenizer: TextTokenizer, spec: ModelSpec) -> Iterator[Encoded]:
    for asked in sharp_inputs.pairs():
        if spec.template:
            yield tokenizer.encode_template(templated_query(spec, asked.query), asked.documents)
        else:
            yield tokenizer.encode_pairs(asked.query, asked.documents)


def texts(tokenizer: TextTokenizer, spec: ModelSpec, name: str, group: str) -> Iterator[Encoded]:
    asked = GROUPS[group][name].excludes_prompt
    prompt = prompt_of(spec, PromptChoice(prompt_name=asked)) if asked else ""
    special = tokenizer.encode(["a"]).lengths[0] > 1
    encoded = [text for text in sharp_inputs.texts() if text or prompt or special]
    every = 4 if GROUPS[group][name].answer in ("tokens", "multi_vectors") else 1
    yield tokenizer.encode(encoded[::every], prompt=prompt, truncate=True)


def test_prompt_is_counted_as_the_reference_counts_it(
    tmp_path: Path, references: dict[str, Reference]
) -> None:
    name = "bert-mean-without-prompt"
    spec, files = read(name, "poolings", tmp_path)
    tokenizer = TextTokenizer(read_tokenizer(files.directory), spec.max_tokens, spec.vocab_size)
    counted = references["poolings"].arrays[f"{name}/texts/prompt_tokens"]
    prompt = prompt_of(spec, PromptChoice(use="search_query"))
    assert set(counted.tolist()) == {tokenizer.prompt_tokens(prompt)}
    assert tokenizer.prompt_tokens("") == 0
