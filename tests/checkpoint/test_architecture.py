from collections.abc import Mapping
from typing import Any

import pytest
from checkpoint_files import (
    BERT,
    CROSS_ENCODER,
    RERANKER,
    TRANSFORMER,
    Read,
    own_config,
)

from checkpoint.architecture import why_refused
from checkpoint.errors import UnsupportedCheckpoint
from checkpoint.families import FAMILIES, Family

QWEN3 = own_config(FAMILIES["llama"], "Qwen3ForCausalLM")
QWEN_TOKENIZER = {"model": {"vocab": {"yes": 7, "no": 9}}}
CAUSAL_LM = {"config.json": QWEN3, "modules.json": None, "tokenizer.json": QWEN_TOKENIZER}
REMOTE = {"AutoConfig": "org/code--configuration.Config"}


def own_families(*names: str) -> list[tuple[Family, str]]:
    """Each architecture with the family that it is of when its config.json says no more."""
    found: dict[str, Family] = {}
    for family in FAMILIES.values():
        for name in names:
            for architecture in getattr(family, name):
                found.setdefault(architecture, family)
    return [(family, architecture) for architecture, family in found.items()]


@pytest.mark.parametrize(("family", "architecture"), own_families("pooled"))
def test_encoder_with_pooling_embeds(read: Read, family: Family, architecture: str) -> None:
    for model_type in (None, *family.model_types):
        config = {**own_config(family, architecture), "model_type": model_type}
        spec, _ = read({"config.json": config})
        assert (spec.task, spec.family, spec.dim) == ("embed", family.name, 32)


@pytest.mark.parametrize(("family", "architecture"), own_families("score"))
@pytest.mark.parametrize("modules", [None, [TRANSFORMER]])
def test_classifier_without_pooling_scores(
    read: Read, family: Family, architecture: str, modules: Any
) -> None:
    config = {**own_config(family, architecture), "id2label": {"0": "LABEL_0"}}
    spec, files = read({"config.json": config, "modules.json": modules}, RERANKER)
    assert (spec.task, spec.family, spec.dim, spec.pooling) == ("score", family.name, 1, None)
    assert (spec.normalizes, spec.template, spec.score_tokens) == (False, None, None)
    assert [m.kind for m in files.modules] == ["Transformer"]


def test_family_is_found_under_its_name() -> None:
    assert all(name == family.name for name, family in FAMILIES.items())


@pytest.mark.parametrize("architectures", [["XLNetModel"], ["GPT2Model"], [], None, "Bert"])
def test_unknown_architecture_is_refused_by_name(read: Read, architectures: Any) -> None:
    name = architectures[0] if isinstance(architectures, list) and architectures else ""
    with pytest.raises(UnsupportedCheckpoint, match=f"architecture.*{name}"):
        read({"config.json": {**BERT, "architectures": architectures}})


def test_bare_encoder_without_modules_is_refused_rather_than_guessed(read: Read) -> None:
    for architecture in ("BertModel", "BertForMaskedLM"):
        with pytest.raises(UnsupportedCheckpoint, match=f"{architecture}.*not guessed"):
            read({"config.json": {**BERT, "architectures": [architecture]}, "modules.json": None})


def test_pooled_classifier_is_refused_as_ambiguous(read: Read) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="a model of scores"):
        read({"config.json": CROSS_ENCODER})


@pytest.mark.parametrize(
    "labels", [{"num_labels": 3}, {"id2label": {"0": "a", "1": "b"}}, {"id2label": None}]
)
def test_reranker_of_more_than_one_label_is_refused(read: Read, labels: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=r"[23] labels"):
        read({"config.json": {**CROSS_ENCODER, **labels}}, RERANKER)


def test_architecture_of_another_model_type_is_refused(read: Read) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="'BertModel' with model_type 'xlnet'"):
        read({"config.json": {**BERT, "model_type": "xlnet"}})


# Code of a checkpoint's own


@pytest.mark.parametrize(
    ("says", "named"),
    [
        ({"auto_map": {"AutoModel": "jinaai/jina-bert--modeling_bert.JinaBertModel"}}, "JinaBert"),
        ({"_name_or_path": "jinaai/jina-bert-implementation"}, "JinaBertModel"),
        ({"auto_map": {"AutoModel": "modeling_nvembed.NVEmbedModel"}}, "NVEmbedModel"),
    ],
)
def test_architecture_that_is_another_by_its_own_code_is_refused_by_name(
    read: Read, says: Mapping[str, Any], named: str
) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=f"BertModel is in fact {named}.*never run"):
        read({"config.json": {**BERT, "model_type": "bert", **says}})


def test_own_code_of_a_score_is_looked_at_too(read: Read) -> None:
    auto_map = {"AutoModelForSequenceClassification": "modeling.JinaBertForSequenceClassification"}
    with pytest.raises(UnsupportedCheckpoint, match="JinaBertForSequenceClassification"):
        read({"config.json": {**CROSS_ENCODER, "auto_map": auto_map}}, RERANKER)


def test_own_code_that_a_family_stands_for_is_only_evidence(read: Read) -> None:
    nomic = own_config(FAMILIES["nomic_bert"], "NomicBertModel")
    auto_map = {**REMOTE, "AutoModel": "nomic-ai/nomic-bert-2048--modeling.NomicBertModel"}
    assert read({"config.json": {**nomic, "auto_map": auto_map}})[0].family == "nomic_bert"


@pytest.mark.parametrize(
    ("says", "family"),
    [
        ({}, "llama"),
        ({"is_causal": True}, "llama"),
        ({"is_causal": False}, "llama_bidirectional"),
        ({"use_bidirectional_attention": True}, "llama_bidirectional"),
        ({"use_bidirectional_attention": False}, "llama"),
        ({"is_causal": True, "use_bidirectional_attention": True}, "llama"),
    ],
)
@pytest.mark.parametrize("architecture", ["Qwen2ForCausalLM", "Qwen3Model", "MistralModel"])
def test_decoder_sees_both_ways_where_its_config_says_so(
    read: Read, says: Mapping[str, Any], family: str, architecture: str
) -> None:
    config = {**own_config(FAMILIES["llama"], architecture), **says}
    assert read({"config.json": config})[0].family == family


def test_decoder_of_own_code_must_say_whether_it_is_causal(read: Read) -> None:
    """Unless it is a model that is known."""
    qwen2 = own_config(FAMILIES["llama"], "Qwen2ForCausalLM")
    config = {**qwen2, "auto_map": {"AutoModel": "modeling_qwen.Qwen2Model"}}
    with pytest.raises(UnsupportedCheckpoint, match="is_causal"):
        read({"config.json": config})
    spec, _ = read({"config.json": config}, model_id="Alibaba-NLP/gte-Qwen2-7B-instruct")
    assert spec.family == "llama_bidirectional"
    assert read({"config.json": {**config, "is_causal": True}})[0].family == "llama"


# Rerankers that are causal language models


@pytest.mark.parametrize(
    ("model_id", "options"),
    [
        ("Qwen/Qwen3-Reranker-0.6B", {}),
        ("someone/qwen3-reranker-4b-tuned", {}),
        ("org/ours", {"task": "score"}),
    ],
)
def test_causal_reranker_has_its_template_and_two_tokens(
    read: Read, model_id: str, options: dict[str, Any]
) -> None:
    spec, _ = read(CAUSAL_LM, model_id=model_id, **options)
    assert (spec.task, spec.dim, spec.pooling, spec.family) == ("score", 1, None, "llama")
    assert spec.score_tokens == (7, 9)
    assert spec.template is not None
    assert spec.template.endswith("<think>\n\n</think>\n\n")
    assert spec.instruction is not None
    assert spec.instruction.startswith("Given a web search query")


def test_causal_model_is_no_reranker_of_its_own_accord(read: Read) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=r"not guessed.*score"):
        read(CAUSAL_LM)


def test_causal_reranker_without_a_known_template_is_refused(read: Read) -> None:
    config = own_config(FAMILIES["llama"], "MistralForCausalLM")
    with pytest.raises(UnsupportedCheckpoint, match="no template"):
        read({**CAUSAL_LM, "config.json": config}, task="score")


@pytest.mark.parametrize("vocab", [{"yes": 1}, {}, [["yes", 0.0]]])
def test_causal_reranker_needs_both_words_as_tokens(read: Read, vocab: Any) -> None:
    files = {**CAUSAL_LM, "tokenizer.json": {"model": {"vocab": vocab}}}
    with pytest.raises(UnsupportedCheckpoint, match="is no token"):
        read(files, task="score")


def test_classifier_made_of_a_causal_reranker_keeps_the_template(read: Read) -> None:
    qwen3 = own_config(FAMILIES["llama"], "Qwen3ForSequenceClassification")
    config = {**qwen3, "id2label": {"0": "LABEL_0"}}
    spec, _ = read(
        {"config.json": config}, RERANKER, model_id="tomaarsen/Qwen3-Reranker-0.6B-seq-cls"
    )
    assert spec.template is not None
    assert spec.score_tokens is None
    assert read({"config.json": config}, RERANKER)[0].template is None


def test_operator_cannot_make_another_task_of_a_model(read: Read) -> None:
    assert read(task="embed")[0].task == "embed"
    with pytest.raises(UnsupportedCheckpoint, match="cannot score"):
        read(task="score")


def test_operator_cannot_embed_with_a_reranker(read: Read) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="cannot embed"):
        read(base=RERANKER, task="embed")


# Dtypes


@pytest.mark.parametrize(
    ("family", "model_type", "refused"),
    [
        ("gemma3", "gemma3_text", {"float16"}),
        ("llama_bidirectional", "bidirectional_pplx_qwen3", {"float16"}),
        ("llama_bidirectional", "llama_bidirec", set()),
        ("llama", "qwen3", set()),
        ("bert", None, set()),
    ],
)
def test_dtype_that_breaks_a_model_is_known(
    family: str, model_type: str | None, refused: set[str]
) -> None:
    dtypes = ("float32", "bfloat16", "float16")
    config = {"model_type": model_type}
    assert {dtype for dtype in dtypes if why_refused(family, config, dtype)} == refused
