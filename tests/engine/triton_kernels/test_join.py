import pytest
import torch
import torch.nn.functional as F
from poison import Poisoned, assert_rounded, make_norm

from engine.join import JoinNorms, PlainJoin
from engine.triton_kernels.join import join
from engine.triton_kernels.norm import normed

FULL, HALF, BRAIN = torch.float32, torch.float16, torch.bfloat16


# A width that is no power of two leaves a part of a block unused.
@pytest.mark.parametrize(
    ("kind", "tokens", "width", "dtype"),
    [
        ("layer", 1, 384, FULL),
        ("rms", 65, 384, HALF),
        ("unbiased", 5, 768, BRAIN),
        ("layer", 64, 1000, BRAIN),
        ("rms", 3, 1024, FULL),
        ("rms", 2, 2560, BRAIN),
        ("unbiased", 1, 4096, HALF),
    ],
)
def test_norm_is_that_of_the_reference(
    kind: str, tokens: int, width: int, dtype: torch.dtype
) -> None:
    x = Poisoned(torch.randn(tokens, width).to(dtype))
    norm = make_norm(kind, width)
    assert_rounded(normed(x.view, norm), norm(x.view.float()))


def test_variance_is_exact_far_from_zero() -> None:
    x = 1000 + torch.randn(2, 384)
    norm = make_norm("layer", 384)
    assert norm.bias is not None
    exact = F.layer_norm(x.double(), (384,), norm.weight.double(), norm.bias.double(), norm.eps)
    torch.testing.assert_close(normed(x, norm), exact.float(), rtol=1e-3, atol=1e-3)


def norms(kind: str, width: int) -> JoinNorms:
    return {
        "none": JoinNorms(),
        "post": JoinNorms(sum=make_norm("layer", width)),
        "pre": JoinNorms(next=make_norm("unbiased", width)),
        "pre rms": JoinNorms(next=make_norm("rms", width)),
        "sandwich": JoinNorms(
            behind=make_norm("rms", width, seed=1), next=make_norm("rms", width, seed=2)
        ),
        "all": JoinNorms(
            make_norm("layer", width, 1), make_norm("rms", width, 2), make_norm("layer", width, 3)
        ),
    }[kind]


@pytest.mark.parametrize("dtype", [FULL, HALF, BRAIN])
@pytest.mark.parametrize(
    ("kind", "tokens", "width"),
    [
        ("none", 2, 384),
        ("post", 65, 384),
        ("pre", 2, 768),
        ("pre rms", 5, 1000),
        ("sandwich", 2, 768),
        ("all", 1, 2560),
    ],
)
def test_join_is_that_of_the_reference(
    kind: str, tokens: int, width: int, dtype: torch.dtype
) -> None:
    branch = Poisoned(torch.randn(tokens, width).to(dtype))
    hidden = Poisoned(torch.randn(tokens, width).to(dtype))
    wide = branch.view.to(torch.float32, copy=True)
    exact = PlainJoin(norms(kind, width))(wide, hidden.view.float())
    joined = join(branch.view, hidden.view, norms(kind, width))
    assert_rounded(joined[0], exact[0])
    assert_rounded(joined[1], exact[1])
    branch.assert_unspilled()


def test_join_leaves_the_hidden_states_it_adds_to() -> None:
    branch, hidden = torch.randn(2, 4, 384)
    before = hidden.clone()
    join(branch, hidden, norms("sandwich", 384))
    assert torch.equal(hidden, before)


def test_join_allocates_for_what_is_normed_next_alone() -> None:
    branch, hidden = torch.randn(2, 4, 384)
    place = branch.data_ptr()
    assert [x.data_ptr() for x in join(branch, hidden, norms("post", 384))] == [place, place]
    new_hidden, entered = join(branch, hidden, norms("pre", 384))
    assert new_hidden.data_ptr() == place
    assert entered.data_ptr() not in (place, hidden.data_ptr())


def test_token_that_is_no_number_spoils_no_other() -> None:
    branch, hidden = torch.randn(2, 4, 384)
    branch[1, 5] = torch.nan
    joined = join(branch, hidden, norms("all", 384))
    for x in joined:
        assert x[[0, 2, 3]].isfinite().all()
        assert x[1].isnan().all()
