"""Dropout: torch's contract, and an expectation that is exact."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from selfattn.layers.dropout import Dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_rate_and_scale(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    x = torch.ones(999, 1_001, dtype=dtype)
    y = Dropout(p)(x)
    assert y.dtype is dtype and y.shape == x.shape
    kept = y != 0
    assert kept.double().mean().item() == pytest.approx(1 - p, abs=2e-3)  # 4 standard errors
    rounded = round(p * 2**16) / 2**16  # the scale fits the rate that is drawn
    scale = torch.full_like(y[kept], 1 / (1 - rounded))
    torch.testing.assert_close(y[kept], scale)
    neighbours = (kept[:, 1:] == kept[:, :-1]).double().mean().item()
    assert neighbours == pytest.approx(p**2 + (1 - p) ** 2, abs=2e-3)


def test_gradients_are_those_of_the_same_mask() -> None:
    x = torch.rand(7, 5, dtype=torch.float64).add_(1).requires_grad_()

    def drop(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return Dropout(0.4)(x) * x

    y = drop(x)
    torch.testing.assert_close(y, drop(x))
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 2 * y / x)
    assert torch.autograd.gradgradcheck(drop, x)


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (3, 1, 2)])
def test_any_shape_and_no_dropout(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape)
    assert Dropout(0.5)(x).shape == x.shape
    assert Dropout(1.0)(x).eq(0).all()
    for off in (Dropout(0.0), Dropout(0.5).eval()):
        assert off(x) is x or torch.equal(off(x), x)


def test_strided_input_and_inplace() -> None:
    x = torch.ones(64, 32).t()
    assert set(Dropout(0.5)(x).unique().tolist()) == {0.0, 2.0}
    inplace = torch.ones(64, 32)
    assert Dropout(0.5, inplace=True)(inplace) is inplace


def test_a_recording_has_torchs_own() -> None:
    x = torch.ones(999)
    graph = make_fx(Dropout(0.5))(x)
    assert 0.4 < graph(x).eq(0).double().mean() < 0.6


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_samples_of_vmap_are_drawn_as_it_says(randomness: str) -> None:
    first, second = torch.func.vmap(Dropout(0.5), randomness=randomness)(torch.ones(2, 99))
    assert torch.equal(first, second) == (randomness == "same")
