"""A row a token: in the order of the batch, each sequence's own."""

from pathlib import Path

import numpy as np
import torch
from hidden_states import WIDTH, HiddenStates, backbone, random_tensors
from safetensors.torch import save_file

from engine.heads.tokens import TokenHead, load_multi_vector_head
from engine.linear import PlainLinear

LENGTHS = [7, 1, 40, 7, 3]
TENSORS = random_tensors(weight=(8, WIDTH), bias=(8,))


def test_every_token_has_its_row() -> None:
    hidden = HiddenStates.random(LENGTHS, kind="tokens")
    answer = hidden.answered(TokenHead([PlainLinear(TENSORS["weight"], TENSORS["bias"])]))
    assert answer.row_offsets is not None
    assert answer.row_offsets.tolist() == [0, 7, 8, 48, 55, 58]
    assert answer.row_offsets.dtype == np.int32
    states = torch.cat(list(hidden.sequences))
    expected = states @ TENSORS["weight"].T + TENSORS["bias"]
    np.testing.assert_allclose(answer.rows, expected.numpy(), atol=1e-5)


def test_layers_over_bfloat16_tokens_are_float32() -> None:
    hidden = HiddenStates.random(LENGTHS, kind="tokens")
    head = TokenHead([PlainLinear(TENSORS["weight"], TENSORS["bias"])])
    states = torch.cat(list(hidden.sequences)).bfloat16().float()
    expected = states @ TENSORS["weight"].T + TENSORS["bias"]
    rows = hidden.answered(head, torch.bfloat16).rows
    np.testing.assert_allclose(rows, expected.numpy(), atol=1e-5)


def test_multi_vectors_are_unit_rows_of_all_tokens_but_the_first(tmp_path: Path) -> None:
    path = tmp_path / "colbert_linear.safetensors"
    save_file(TENSORS, path)
    hidden = HiddenStates.random(LENGTHS, kind="tokens")
    answer = hidden.answered(load_multi_vector_head(backbone(tmp_path, TENSORS), path))
    assert answer.row_offsets is not None
    assert answer.row_offsets.tolist() == [0, 6, 6, 45, 51, 53]
    states = torch.cat([states[1:] for states in hidden.sequences]).double()
    expected = states @ TENSORS["weight"].double().T + TENSORS["bias"].double()
    expected /= expected.square().sum(-1, keepdim=True).sqrt()
    np.testing.assert_allclose(answer.rows, expected.numpy(), atol=1e-6)


def test_broken_token_is_that_of_its_sequence_alone() -> None:
    hidden = HiddenStates.random(LENGTHS, kind="tokens")
    hidden.sequences[2][39] = torch.inf
    assert hidden.answered(TokenHead([])).finite.tolist() == [True, True, False, True, True]
