"""The masked LM's head of each family: under its names, with its activation, biases and norm."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hidden_states import VOCABULARY, WIDTH, HiddenStates, backbone, random_tensors
from torch import Tensor

from engine.errors import CheckpointError
from engine.families import FAMILIES
from engine.heads.masked_lm import load_masked_lm

STATES = HiddenStates.random([9]).sequences[0]


@dataclass(frozen=True)
class Case:
    """A family's head: names of dense, norm and the decoder's bias, and what config.json says."""

    family: str
    names: tuple[str, str, str]
    config: dict[str, Any]
    activation: Any
    eps: float
    words: str = "embeddings.word_embeddings.weight"
    biases: bool = True  # of dense and norm

    def tensors(self) -> dict[str, Tensor]:
        dense, norm, bias = self.names
        shapes: dict[str, tuple[int, ...]] = {
            f"{dense}.weight": (WIDTH, WIDTH),
            f"{norm}.weight": (WIDTH,),
            bias: (VOCABULARY,),
            self.words: (VOCABULARY, WIDTH),
        }
        if self.biases:
            shapes |= {f"{dense}.bias": (WIDTH,), f"{norm}.bias": (WIDTH,)}
        return random_tensors(**shapes)

    def logits(self, tensors: dict[str, Tensor]) -> Tensor:
        """[tokens, V] in float64."""
        dense, norm, bias = self.names
        w = {name: tensor.double() for name, tensor in tensors.items()}
        none = torch.zeros(WIDTH).double()
        x = STATES.double() @ w[f"{dense}.weight"].T + w.get(f"{dense}.bias", none)
        x = self.activation(x)
        x = (x - x.mean(-1, keepdim=True)) / (
            x.var(-1, correction=0, keepdim=True) + self.eps
        ) ** 0.5
        x = x * w[f"{norm}.weight"] + w.get(f"{norm}.bias", none)
        return x @ w[self.words].T + w[bias]


BERT = ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm")
ROBERTA = ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias")
MODERNBERT = {"classifier_activation": "relu", "hidden_activation": "gelu", "norm_eps": 0.02}
CASES = {
    "bert": Case(
        "bert",
        (*BERT, "cls.predictions.bias"),
        {"hidden_act": "relu", "layer_norm_eps": 0.02},
        torch.relu,
        0.02,
    ),
    "bert-other-bias": Case(
        "bert",
        (*BERT, "cls.predictions.decoder.bias"),
        {"hidden_act": "gelu", "layer_norm_eps": 0.02},
        F.gelu,
        0.02,
    ),
    # Its GELU is in the code, whatever config.json says of the other layers.
    "roberta": Case(
        "roberta", ROBERTA, {"hidden_act": "relu", "layer_norm_eps": 0.02}, F.gelu, 0.02
    ),
    "mpnet": Case("mpnet", ROBERTA, {"hidden_act": "relu", "layer_norm_eps": 0.02}, F.gelu, 0.02),
    "distilbert": Case(
        "distilbert",
        ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
        {"activation": "relu"},
        torch.relu,
        1e-12,
    ),
    "modernbert": Case(
        "modernbert",
        ("head.dense", "head.norm", "decoder.bias"),
        MODERNBERT,
        torch.relu,
        0.02,
        words="embeddings.tok_embeddings.weight",
        biases=False,
    ),
    "modernbert-default-eps": Case(
        "modernbert",
        ("head.dense", "head.norm", "decoder.bias"),
        {"classifier_activation": "relu"},
        torch.relu,
        1e-5,
        words="embeddings.tok_embeddings.weight",
        biases=False,
    ),
    "modernbert-biases": Case(
        "modernbert",
        ("head.dense", "head.norm", "decoder.bias"),
        {**MODERNBERT, "classifier_bias": True, "norm_bias": True},
        torch.relu,
        0.02,
        words="embeddings.tok_embeddings.weight",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_logits_are_those_of_the_family(case: Case, tmp_path: Path) -> None:
    tensors = case.tensors()
    source = backbone(tmp_path, tensors, case.config)
    names = FAMILIES[case.family].mlm_head
    assert names is not None
    lm = load_masked_lm(source, names)
    source.weights.finish()
    logits = lm.decoder(lm.states(STATES))
    assert lm.vocabulary == VOCABULARY
    torch.testing.assert_close(logits.double(), case.logits(tensors), rtol=1e-5, atol=1e-5)


def test_every_head_of_a_family_is_here() -> None:
    assert {name for name, family in FAMILIES.items() if family.mlm_head is not None} == {
        case.family for case in CASES.values()
    }


def test_epsilon_that_has_no_default_is_named(tmp_path: Path) -> None:
    case = CASES["bert"]
    names = FAMILIES["bert"].mlm_head
    assert names is not None
    source = backbone(tmp_path, case.tensors(), {"hidden_act": "relu"})
    with pytest.raises(CheckpointError, match=r"config\.json lacks 'layer_norm_eps'"):
        load_masked_lm(source, names)


@pytest.mark.parametrize("part", [0, 1, 2])
def test_part_that_is_missing_is_named(part: int, tmp_path: Path) -> None:
    case = CASES["bert"]
    name = case.names[part] if part == 2 else f"{case.names[part]}.bias"
    tensors = case.tensors()
    del tensors[name]
    names = FAMILIES["bert"].mlm_head
    assert names is not None
    with pytest.raises(CheckpointError, match=f"tensor '{name}' is missing"):
        load_masked_lm(backbone(tmp_path, tensors, case.config), names)
