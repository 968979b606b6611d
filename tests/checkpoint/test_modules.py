from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import (
    BERT,
    CROSS_ENCODER,
    EMBEDDER,
    NORMALIZE,
    POOLING,
    RERANKER,
    TRANSFORMER,
    Read,
    module,
    own_config,
)

from checkpoint.errors import UnsupportedCheckpoint
from checkpoint.families import FAMILIES


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode_lasttoken": True, "pooling_mode_max_tokens": False}, "last_token"),
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": "mean", "pooling_mode_cls_token": True}, "mean"),
        ({"pooling_mode": ["lasttoken"], "embedding_dimension": 32}, "last_token"),
        ({"pooling_mode": "mean", "word_embedding_dimension": 32, "include_prompt": True}, "mean"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode": "max"}, "max"),
        ({"pooling_mode_weightedmean_tokens": True}, "weighted_mean"),
        ({"pooling_mode": "weightedmean"}, "weighted_mean"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean_sqrt_len"),
        ({"pooling_mode": "mean_sqrt_len_tokens"}, "mean_sqrt_len"),
    ],
)
def test_pooling_is_read_in_its_old_and_new_style(
    read: Read, config: dict[str, Any], pooling: str
) -> None:
    assert read({"1_Pooling/config.json": config})[0].pooling == pooling


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, r"cls \+ mean"),
        ({"pooling_mode": ["mean", "max"]}, r"mean \+ max"),
        ({"pooling_mode": "attention"}, "attention"),
        ({}, "of no kind"),
        ({"pooling_mode": "mean", "include_prompt": "no"}, "include_prompt"),
        ({"pooling_mode": "mean", "embedding_dimension": 31}, "dimension 31"),
    ],
)
def test_pooling_that_is_not_done_here_is_refused_by_name(
    read: Read, config: dict[str, Any], named: str
) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=named):
        read({"1_Pooling/config.json": config})


@pytest.mark.parametrize(
    "modules",
    [
        [],
        [POOLING, TRANSFORMER],
        [TRANSFORMER, POOLING, POOLING],
        [TRANSFORMER, NORMALIZE, POOLING],
        [TRANSFORMER, TRANSFORMER, POOLING],
    ],
)
def test_modules_in_another_order_are_refused(read: Read, modules: Any) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=r"modules\.json"):
        read({"modules.json": modules})


@pytest.mark.parametrize(
    "class_path",
    [
        "sentence_transformers.models.WeightedLayerPooling",
        "sentence_transformers.models.Router",
        "sentence_transformers.models.Asym",
        "modeling_tiny.Normalize",
        "st_quantize.OtherQuantizer",
        "pylate.models.Normalize",
        "",
    ],
)
def test_unknown_module_is_refused_by_name(read: Read, class_path: str) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=f"module '{class_path}'"):
        read({"modules.json": [TRANSFORMER, POOLING, {"path": "2_X", "type": class_path}]})


@pytest.mark.parametrize(
    "class_path",
    [
        "sentence_transformers.models.Normalize",
        "sentence_transformers.sentence_transformer.modules.normalize.Normalize",
    ],
)
def test_normalize_needs_no_folder(read: Read, class_path: str) -> None:
    modules = [TRANSFORMER, POOLING, {"path": "2_Normalize", "type": class_path}]
    assert read({"modules.json": modules})[0].normalizes


@pytest.mark.parametrize("path", ["../elsewhere", "/etc", "1_Pooling/../../x"])
def test_module_outside_the_directory_is_refused(read: Read, path: str) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="leaves"):
        read({"modules.json": [TRANSFORMER, module("Pooling", path)]})


DENSE = [TRANSFORMER, POOLING, module("Dense", "2_Dense"), NORMALIZE]


def dense(**changes: Any) -> dict[str, Any]:
    config = {"in_features": 32, "out_features": 24, "bias": True, **changes}
    return {
        "modules.json": DENSE,
        "2_Dense/config.json": config,
        "2_Dense/model.safetensors": b"weights",
    }


def test_dense_sets_the_dimension(read: Read, tmp_path: Path) -> None:
    spec, files = read(dense())
    assert (spec.dim, spec.normalizes) == (24, True)
    assert files.modules[2].directory == tmp_path / "2_Dense"
    assert files.modules[2].config["out_features"] == 24
    assert files.weights == (tmp_path / "model.safetensors",)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"in_features": 31}, "in_features"),
        ({"out_features": None}, "out_features"),
        ({"module_input_name": "token_embeddings"}, "not supported in this order"),
        ({"module_output_name": "logits"}, "Dense:logits"),
        ({"module_input_name": "pooler_output"}, "Dense:pooler_output"),
        ({"module_output_name": "scores"}, "not supported in this order"),  # a Normalize follows
    ],
)
def test_dense_that_does_not_fit_is_refused(
    read: Read, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=named):
        read(dense(**changes))


def test_dense_without_safetensors_is_refused(read: Read) -> None:
    files = {**dense(), "2_Dense/model.safetensors": None, "2_Dense/pytorch_model.bin": b"pickle"}
    with pytest.raises(UnsupportedCheckpoint, match=r"2_Dense has only pytorch_model\.bin"):
        read(files)


@pytest.mark.parametrize("included", [True, False])
def test_prompt_may_be_left_out_of_the_pooling(read: Read, included: bool) -> None:
    config = {"pooling_mode": "mean", "include_prompt": included}
    assert read({"1_Pooling/config.json": config})[0].include_prompt is included


def test_chain_of_layers_is_followed_to_its_width(read: Read) -> None:
    """And a Normalize between them is one of the layers; the last is the gateway's."""
    norm = module("LayerNorm", "3_LayerNorm")
    spec, files = read(
        {
            **dense(),
            "modules.json": [
                TRANSFORMER,
                POOLING,
                module("Dense", "2_Dense"),
                norm,
                NORMALIZE,
                module("Dense", "5_Dense"),
            ],
            "3_LayerNorm/config.json": {"dimension": 24},
            "3_LayerNorm/model.safetensors": b"weights",
            "5_Dense/config.json": {"in_features": 24, "out_features": 8},
            "5_Dense/model.safetensors": b"weights",
        }
    )
    assert (spec.dim, spec.normalizes) == (8, False)
    kinds = [module.kind for module in files.modules]
    assert kinds == ["Transformer", "Pooling", "Dense", "LayerNorm", "Normalize", "Dense"]


def test_layer_norm_of_another_width_is_refused(read: Read) -> None:
    files = {
        "modules.json": [TRANSFORMER, POOLING, module("LayerNorm", "2_LayerNorm")],
        "2_LayerNorm/config.json": {"dimension": 31},
    }
    with pytest.raises(UnsupportedCheckpoint, match="dimension is not 32"):
        read(files)


def test_layer_norm_without_weights_is_refused(read: Read) -> None:
    files = {
        "modules.json": [TRANSFORMER, POOLING, module("LayerNorm", "2_LayerNorm")],
        "2_LayerNorm/config.json": {"dimension": 32},
        "2_LayerNorm/pytorch_model.bin": b"pickle",
    }
    with pytest.raises(UnsupportedCheckpoint, match="2_LayerNorm has only"):
        read(files)


def test_quantizer_of_the_model_is_known_by_name_and_its_code_left_alone(read: Read) -> None:
    entry = {"path": "", "type": "st_quantize.FlexibleQuantizer", "kwargs": ["quantization"]}
    files = {"modules.json": [TRANSFORMER, POOLING, entry], "st_quantize.py": b"raise SystemExit"}
    spec, read_files = read(files)
    assert (spec.quantizer, spec.normalizes, spec.pooling) == ("tanh_int8", False, "mean")
    assert read_files.modules[-1].config == {}
    with pytest.raises(UnsupportedCheckpoint, match="not supported in this order"):
        read({"modules.json": [TRANSFORMER, entry, POOLING]})


@pytest.mark.parametrize("kind", ["Router", "Asym"])
def test_module_that_chooses_a_model_is_refused_for_what_it_does(read: Read, kind: str) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="queries and documents through different"):
        read({"modules.json": [TRANSFORMER, module(kind, "1_Router")]})


# A row a token, a weight a word

TOKEN_DENSE = {
    "1_Dense/config.json": {"in_features": 32, "out_features": 16, "bias": False},
    "1_Dense/model.safetensors": b"weights",
}
PYLATE = {"path": "1_Dense", "type": "pylate.models.Dense.Dense"}


def test_pylate_gives_each_token_a_unit_row(read: Read) -> None:
    spec, files = read({**TOKEN_DENSE, "modules.json": [TRANSFORMER, PYLATE]})
    assert (spec.task, spec.pooling, spec.dim, spec.normalizes) == ("embed", "tokens", 16, True)
    assert [module.kind for module in files.modules] == ["Transformer", "Dense", "Normalize"]


@pytest.mark.parametrize("normalizes", [True, False])
def test_tokens_are_said_by_the_features_that_modules_read(read: Read, normalizes: bool) -> None:
    reads = {"module_input_name": "token_embeddings"}
    modules = [TRANSFORMER, module("Dense", "1_Dense"), module("MultiVectorMask", "2_Mask")]
    spec, _ = read(
        {
            **TOKEN_DENSE,
            "1_Dense/config.json": {**TOKEN_DENSE["1_Dense/config.json"], **reads},
            "3_Normalize/config.json": reads,
            "modules.json": [*modules, module("Normalize", "3_Normalize")][: 3 + normalizes],
        }
    )
    assert (spec.pooling, spec.dim, spec.normalizes) == ("tokens", 16, normalizes)


def test_dense_after_a_transformer_is_no_colbert_by_itself(read: Read) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="not guessed"):
        read({**TOKEN_DENSE, "modules.json": [TRANSFORMER, module("Dense", "1_Dense")]})


SPLADE = {
    "config.json": {**BERT, "architectures": ["BertForMaskedLM"]},
    "modules.json": [module("MLMTransformer"), module("SpladePooling", "1_SpladePooling")],
    "1_SpladePooling/config.json": {"pooling_strategy": "max"},
}
FILL_MASK = {"sentence_bert_config.json": {"transformer_task": "fill-mask"}}


def test_splade_is_sparse_over_the_vocabulary(read: Read) -> None:
    spec, _ = read(SPLADE)
    assert (spec.task, spec.pooling, spec.dim, spec.normalizes) == ("embed", "sparse", 100, False)
    since_6 = [TRANSFORMER, SPLADE["modules.json"][1]]
    assert read({**SPLADE, **FILL_MASK, "modules.json": since_6})[0].pooling == "sparse"


def test_splade_needs_logits_over_the_vocabulary(read: Read) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="BertModel has no logits"):
        read({**SPLADE, "config.json": BERT})
    hidden_states = [TRANSFORMER, SPLADE["modules.json"][1]]
    with pytest.raises(UnsupportedCheckpoint, match="SpladePooling"):
        read({**SPLADE, "modules.json": hidden_states})


def test_pickled_heads_beside_a_model_are_left_alone(read: Read) -> None:
    files = {"sparse_linear.pt": b"pickle", "colbert_linear.pt": b"pickle"}
    assert read({**EMBEDDER, **files})[0].pooling == "mean"


# Cross-encoders of modules


def test_score_may_be_a_chain_that_ends_in_one_number(read: Read) -> None:
    files = {
        "modules.json": [TRANSFORMER, POOLING, module("Dense", "2_Dense")],
        "2_Dense/config.json": {
            "in_features": 32,
            "out_features": 1,
            "module_input_name": "sentence_embedding",
            "module_output_name": "scores",
        },
        "2_Dense/model.safetensors": b"weights",
    }
    spec, _ = read(files)
    assert (spec.task, spec.pooling, spec.dim, spec.score_tokens) == ("score", "mean", 1, None)
    two = {**files["2_Dense/config.json"], "out_features": 2}  # type: ignore[dict-item]
    with pytest.raises(UnsupportedCheckpoint, match="2 labels"):
        read({**files, "2_Dense/config.json": two})


def test_score_may_be_the_transformers_own(read: Read) -> None:
    settings = {"transformer_task": "sequence-classification", "module_output_name": "scores"}
    files = {"modules.json": [TRANSFORMER], "sentence_bert_config.json": settings}
    assert read(files, RERANKER)[0].task == "score"
    with pytest.raises(UnsupportedCheckpoint, match="not guessed"):
        read({**files, "config.json": BERT}, RERANKER)
    with pytest.raises(UnsupportedCheckpoint, match="sequence-classification"):
        read({**files, "modules.json": [TRANSFORMER, POOLING], "config.json": CROSS_ENCODER})


LOGIT_SCORE = {
    "config.json": own_config(FAMILIES["llama"], "Qwen3ForCausalLM"),
    "modules.json": [TRANSFORMER, module("LogitScore", "1_LogitScore")],
    "sentence_bert_config.json": {"transformer_task": "text-generation"},
    "1_LogitScore/config.json": {"true_token_id": 7, "false_token_id": 9},
}


def test_score_may_be_the_difference_of_two_logits(read: Read) -> None:
    spec, _ = read(LOGIT_SCORE)
    assert (spec.task, spec.dim, spec.score_tokens, spec.template) == ("score", 1, (7, 9), None)


@pytest.mark.parametrize("token", [None, -1, 100, "no"])
def test_score_of_other_than_two_tokens_is_refused(read: Read, token: Any) -> None:
    config = {"true_token_id": 7, "false_token_id": token}
    with pytest.raises(UnsupportedCheckpoint, match="two tokens"):
        read({**LOGIT_SCORE, "1_LogitScore/config.json": config})


def test_chat_template_is_not_run(read: Read) -> None:
    """Unless the model is one whose template is known."""
    settings = {
        "transformer_task": "text-generation",
        "modality_config": {"message": {"method": "forward", "method_output_name": "logits"}},
    }
    files = {**LOGIT_SCORE, "sentence_bert_config.json": settings}
    with pytest.raises(UnsupportedCheckpoint, match="chat template"):
        read(files)
    spec, _ = read(files, model_id="Qwen/Qwen3-Reranker-0.6B")
    assert spec.template is not None
    assert spec.score_tokens == (7, 9)


def test_logits_are_those_of_a_causal_model(read: Read) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="BertModel has no logits of a next token"):
        read({**LOGIT_SCORE, "config.json": BERT})


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"transformer_task": "retrieval"}, "'retrieval'"),
        ({"transformer_task": "any-to-any"}, "'any-to-any'"),
        (
            {"modality_config": {"text": {"method_output_name": "pooler_output"}}},
            "method_output_name 'pooler_output'",
        ),
        ({"modality_config": {"text": {"method": "get_text_features"}}}, "get_text_features"),
    ],
)
def test_other_output_of_a_transformer_is_refused_by_name(
    read: Read, settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=named):
        read({"sentence_bert_config.json": settings})


def test_default_prompt_of_pairs_is_refused(read: Read) -> None:
    config = {"prompts": {"query": "Q: "}, "default_prompt_name": "query"}
    with pytest.raises(UnsupportedCheckpoint, match="default prompt"):
        read({"config_sentence_transformers.json": config}, RERANKER)
