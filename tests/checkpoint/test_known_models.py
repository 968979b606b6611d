from typing import Any

import pytest
from checkpoint_files import BERT, XLM_ROBERTA, Read, own_config
from reference.sharp import CHECKPOINTS as SHARP
from reference.zoo.registry import GROUPS

from checkpoint.errors import UnsupportedCheckpoint
from checkpoint.families import FAMILIES
from checkpoint.known_models import KNOWN_MODELS, WEIGHTS, KnownModel, known_model


def test_prompts_of_the_checkpoint_are_taken(read: Read) -> None:
    config = {"prompts": {"query": "Q: ", "document": ""}, "default_prompt_name": "query"}
    spec, _ = read({"config_sentence_transformers.json": config}, model_id="intfloat/e5-small")
    assert spec.prompts == {"query": "Q: ", "document": ""}
    assert spec.default_prompt == "query"


@pytest.mark.parametrize("config", [None, {}, {"prompts": None}, {"prompts": {"query": ""}}])
@pytest.mark.parametrize("known", KNOWN_MODELS, ids=[model.id for model in KNOWN_MODELS])
def test_known_model_without_prompts_gets_its_own(
    read: Read, config: Any, known: KnownModel
) -> None:
    for model_id in (known.id, known.id.rpartition("/")[2].upper()):
        spec, _ = read(
            {"config_sentence_transformers.json": config, **body_of(known)}, model_id=model_id
        )
        kept = (config or {}).get("prompts") or {}
        assert spec.family == known.family
        assert spec.prompts == (known.prompts or kept)
        assert spec.default_prompt is None
        assert spec.matryoshka == tuple(size for size in known.matryoshka if size <= 32)
        assert (spec.template is not None) == (known.template is not None)


def body_of(known: KnownModel) -> dict[str, Any]:
    """config.json, and modules.json for what is no embedder."""
    family = FAMILIES[known.family]
    config = own_config(family, family.embed[0])
    if known.family == "llama_bidirectional":
        config["use_bidirectional_attention"] = True
    if known.pooling != "score":
        return {"config.json": config}
    config |= {"architectures": [family.score[-1]], "id2label": {"0": "LABEL_0"}}
    return {"config.json": config, "modules.json": None}


def test_unknown_model_without_prompts_has_none(read: Read) -> None:
    assert read(model_id="org/not-e5-small")[0].prompts == {}


def test_name_of_a_model_is_not_believed_of_another_family(read: Read) -> None:
    assert read(model_id="intfloat/multilingual-e5-small")[0].prompts
    other = {"config.json": XLM_ROBERTA}
    assert read(other, model_id="intfloat/multilingual-e5-small")[0].prompts == {}
    assert read(model_id="google/embeddinggemma-300m")[0].matryoshka == ()


def test_sizes_of_the_operator_or_the_checkpoint_come_before_the_known_ones(read: Read) -> None:
    model_id = "mixedbread-ai/mxbai-embed-large-v1"
    announced = {"config.json": {**BERT, "matryoshka_dimensions": [16]}}
    assert read(announced, model_id=model_id)[0].matryoshka == (16,)
    assert read(announced, model_id=model_id, matryoshka=(8,))[0].matryoshka == (8,)


def test_every_known_model_names_tests_that_are_there() -> None:
    checkpoints = {*SHARP, *(name for group in GROUPS.values() for name in group), WEIGHTS}
    for known in KNOWN_MODELS:
        assert known.family in FAMILIES
        assert known.tested
        assert set(known.tested) <= checkpoints, known.id


def test_known_models_have_names_of_their_own() -> None:
    assert len({known.id.lower() for known in KNOWN_MODELS}) == len(KNOWN_MODELS)
    assert all(known_model(known.id) is known for known in KNOWN_MODELS)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"prompts": {"query": 1}}, "prompts"),
        ({"prompts": ["query"]}, "prompts"),
        ({"prompts": {"query": "q"}, "default_prompt_name": "other"}, "'other'"),
    ],
)
def test_broken_prompts_are_refused(read: Read, config: Any, named: str) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=named):
        read({"config_sentence_transformers.json": config})
