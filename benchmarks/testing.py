"""Helpers that tests and benchmarks share: random padded batches and named comparisons."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

PADDINGS = ("none", "left", "right", "all")


def padding_mask(kind: str, batch: int, length: int) -> Tensor | None:
    """A padding mask by name.

    Args:
        kind: ``"none"`` (returns None), ``"left"``, ``"right"``, or ``"all"``: the last sentence is
            nothing but padding and the first one has some on the right.
        batch: number of sentences.
        length: tokens.

    Returns:
        Bool ``(batch, length)``, True = padding, or None. The first sentence of ``"left"`` and
        ``"right"`` is whole.
    """
    if kind == "none":
        return None
    mask = torch.zeros(batch, length, dtype=torch.bool)
    for row in range(batch):
        hidden = row * length // (batch + 1)
        if kind == "left":
            mask[row, :hidden] = True
        else:
            mask[row, length - hidden :] = True
    if kind == "all":
        mask[-1] = True
    return mask


def error_ratio(reference: Tensor, got: Tensor) -> float:
    """Norm of the difference over the norm of the reference, in float64.

    A reference whose root mean square lies below 0.05 counts as that large: for inputs of size 1, a
    gradient that is zero but for rounding is then not compared with rounding.
    """
    expected, found = reference.double(), got.double()
    floor = 0.05 * expected.numel() ** 0.5
    return ((found - expected).norm() / expected.norm().clamp_min(floor)).item()


def largest_error(references: Iterable[Tensor], got: Iterable[Tensor]) -> float:
    """The largest ``error_ratio`` of pairs; NaN if one is, which ``max`` would pass over."""
    errors = [error_ratio(a, b) for a, b in zip(references, got, strict=True)]
    return torch.tensor(errors, dtype=torch.float64).max().item()


def assert_close(name: str, reference: Any, got: Any, ratio: float) -> None:
    """Compare tensors, or lists of them, by ``error_ratio``; ``ratio`` is the largest allowed.

    Raises:
        AssertionError: if shapes differ, a value is not finite or the error is above the ratio.
    """
    if not isinstance(reference, Tensor):
        for place, pair in enumerate(zip(reference, got, strict=True)):
            assert_close(f"{name} {place}", *pair, ratio)
        return
    if reference.shape != got.shape:
        raise AssertionError(f"{name}: shape {tuple(got.shape)}, not {tuple(reference.shape)}")
    if not torch.isfinite(got).all():
        raise AssertionError(f"{name}: {int((~torch.isfinite(got)).sum())} values are not finite")
    error = error_ratio(reference, got) if got.numel() else 0.0
    if not error <= ratio:
        raise AssertionError(f"{name}: error {error:.2e} is above {ratio:.0e}")


def run_with_grads(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], upstream: Tensor
) -> list[Tensor]:
    """Output of ``function(*inputs)``, and a gradient for each input, of which it gets copies.

    ``upstream`` is the gradient of the output.
    """
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    out = function(*leaves)
    out.backward(upstream.to(out.dtype))
    return [out.detach(), *(t.grad for t in leaves if t.grad is not None)]


class LargestTensor(TorchDispatchMode):
    """Within ``with LargestTensor() as seen``, ``seen.size`` is the largest memory of a tensor."""

    size = 0  # bytes of the largest storage that an operator returned so far

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and look at what it returns."""
        out = func(*args, **(kwargs or {}))
        for t in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(t, Tensor):
                self.size = max(self.size, t.untyped_storage().nbytes())
        return out


def noisy(module: Any, std: float = 0.1) -> Any:
    """A module with noise on its parameters: away from zero biases and unit gains."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(std * torch.randn_like(parameter))
    return module
