"""Directional self-attention (DiSA): the public operator."""

import functools
import warnings
from collections.abc import Callable, Sequence
from numbers import Real

import torch
from torch import Tensor

from ...errors import UserError
from ...masks import PositionalMask, as_masks, check_padding_mask, check_selections
from ..common import dispatch, distance
from ..common.autograd import has_values
from ..common.tiling import with_graph
from . import fused, native, packing
from .eager import disa_eager
from .equation import disa_slow, refuse_c
from .fused import disa_fused
from .native import disa_native


def _refusal(device: str, dtype: torch.dtype) -> str | None:
    """Why the kernel for the device cannot be used; None if it can."""
    return native.refusal(dtype) if device == "cpu" else fused.refusal(device, dtype)


dispatch.OPERATORS["disa"] = dispatch.Operator(disa_eager, _refusal)
_RUN: dict[str, Callable[..., Tensor]] = {
    "reference": disa_slow,
    "eager": functools.partial(dispatch.eager, "disa"),
    "fused": disa_fused,  # elsewhere than on a CPU
}
# Below, 2/c leaves float32 for usual inputs; above, exp(-2c) leaves float64.
_SMALLEST_C, _LARGEST_C = 0.01, 300.0

__all__ = ["check_c", "disa"]


def disa(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    masks: PositionalMask | Sequence[PositionalMask] | None = None,
    padding_mask: Tensor | None = None,
    queries: Tensor | None = None,
    keys: Tensor | None = None,
    c: float = 5.0,
    dropout_p: float = 0.0,
    distance_bias: Tensor | None = None,
    backend: str = "auto",
    mask: PositionalMask | Sequence[PositionalMask] | None = None,
) -> Tensor:
    """Masked multi-dimensional self-attention: eq. 9 and 10 of the Bi-BloSAN paper (DiSAN's DiSA).

    The output at query j and feature l is ``sum_i p[i, l] x[i, l]``, where ``p[:, l]`` is the
    softmax over the visible keys i of ``c tanh((a[i, l] + b[j, l]) / c)``. The two projections and
    the bias of eq. 9 are the caller's: ``a = W1 x`` and ``b = W2 x + b1``.

    Args:
        x: values ``(B, T, C)``, in the dtype of a and b; under autocast the widest of the three
            is taken.
        a: projection of the keys ("dependent") ``(B, T, C)``.
        b: projection of the queries ("head") with the bias ``(B, T, C)``.
        masks: one ``PositionalMask``, or one for each of G equal parts of the features: forward and
            backward run in one call on ``(B, T, 2 d)``.
        padding_mask: bool ``(B, T)``, True = padding; a padded position is never a key.
        queries: bool ``(B, T)``, True = attends (ReSAN eq. 10, its heads); default: all. Offsets
            and windows of the mask count positions, whether selected or not.
        keys: bool ``(B, T)``, True = may be attended to (its dependents); default: all.
        c: scores lie in ``(-c, c)``; no unit.
        dropout_p: attention dropout. The numerator's term of query j, key i and feature l is kept
            with probability ``1 - dropout_p``, as two factors, one for each (j, i) of each of the G
            parts and one for each (i, l), kept with ``sqrt(1 - dropout_p)``; the denominator is not
            dropped. Draws from torch's global generator.
        distance_bias: ``(G, T)``, finite, added to the scores outside of ``c tanh``, where eq. 9
            adds the mask: ``distance_bias[g, t]`` for keys at t positions from the query.
        backend: ``"reference"`` builds the ``T x T x C`` tensor; ``"eager"`` runs in tiles of
            PyTorch operators anywhere; ``"fused"`` is a kernel, in C on a CPU and in Triton on a
            GPU; ``"auto"`` is the first of ``"fused"``, ``"eager"`` and ``"reference"`` that can
            be used. ``selfattn/layers/README.md`` says what each can be used for.
        mask: deprecated name of ``masks``, which goes in version 0.4.

    Returns:
        ``(B, T, C)`` in the dtype of x. A padded or unselected query and one with no visible key
        return 0.

    Raises:
        UserError: if shapes, dtypes, masks, c, dropout_p or backend do not fit, under
            ``torch.jit.trace``, or for a third derivative of another backend than ``"reference"``.
            ``"fused"`` takes no distance bias.

    Differs:
        The authors' code lets a padded query attend and zeroes it after the gate; here it is zero
        at once. It has no attention dropout in DiSA; ours is that of MTSA (its appendix A.3).

    Example:
        >>> import torch
        >>> from selfattn.masks import PositionalMask
        >>> x, a, b = torch.randn(3, 4, 5, 16).unbind()
        >>> masks = PositionalMask("forward"), PositionalMask("backward")
        >>> disa(x, a, b, masks=masks).shape
        torch.Size([4, 5, 16])
    """
    dispatch.refuse_tracing("disa")
    if mask is not None:
        message = "disa(mask=...) is deprecated and goes in 0.4; call disa(masks=...)"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        masks = mask if masks is None else masks
    if not x.is_meta and torch.is_autocast_enabled(x.device.type):
        # Projections come in half precision there, what was normalised in float32.
        widest = functools.reduce(torch.promote_types, (t.dtype for t in (x, a, b)))
        x, a, b = (t.to(widest) for t in (x, a, b))
    masks = _check(x, a, b, masks, c, dropout_p)
    hidden, hidden_keys = _hidden(x.shape[:2], padding_mask, queries, keys)
    distance.check(distance_bias, len(masks), x.shape[1])
    if not x.numel():
        return with_graph(x, a, b, distance_bias)  # no sentence or no token
    # Not by backend_for: to torch.compile(dynamic=True) c is no constant.
    lacking = refuse_c(c) if distance_bias is None else distance.NOT_FUSED
    name = dispatch.backend_for("disa", x, backend, (), lacking)
    in_c = name == "fused" and x.device.type == "cpu"
    run: Callable[..., Tensor] = disa_native if in_c else _RUN[name]
    numbers = (float(c), float(dropout_p))
    packs_itself = name == "reference" or in_c
    # Windows and distances count tokens that packing leaves out; directions stay as they are.
    by_position = distance_bias is not None or any(mask.window is not None for mask in masks)
    if hidden is None or hidden_keys is None or packs_itself or by_position or not has_values(x):
        return run(x, a, b, masks, hidden, *numbers, hidden_keys, distance_bias)
    return packing.packed(run, x, a, b, masks, hidden, *numbers, hidden_keys)


def _check(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    masks: PositionalMask | Sequence[PositionalMask] | None,
    c: float,
    dropout_p: float,
) -> tuple[PositionalMask, ...]:
    """Check what a caller can get wrong and return the masks, one for each part of the features."""
    if x.dim() != 3 or not x.shape == a.shape == b.shape:
        raise UserError(
            f"x {tuple(x.shape)}, a {tuple(a.shape)}, b {tuple(b.shape)} need one shape (B, T, C)"
        )
    dispatch.check_inputs(dropout_p, x=x, a=a, b=b)
    masks = as_masks(masks)
    features = x.shape[2]
    if not masks or features % len(masks):
        raise UserError(
            f"masks lists {len(masks)} masks for {features} features; each must get an equal part"
        )
    check_c(c)
    return masks


def check_c(c: float) -> None:
    """Refuse a bound of the scores that the kernels cannot keep to, with a UserError."""
    if not isinstance(c, Real) or not _SMALLEST_C <= c <= _LARGEST_C:
        raise UserError(f"c {c!r} is not allowed; it must be in [{_SMALLEST_C}, {_LARGEST_C}]")


def _hidden(
    shape: torch.Size, padding_mask: Tensor | None, queries: Tensor | None, keys: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Positions that do not attend, and positions that are no keys, bool ``(B, T)``.

    The second is None where both are the same.
    """
    check_padding_mask(padding_mask, shape)
    check_selections(shape, queries=queries, keys=keys)
    chosen = [t for t in (queries, keys) if t is not None]
    if not chosen:
        return padding_mask, None
    padding = torch.zeros_like(chosen[0]) if padding_mask is None else padding_mask
    hidden, unseen = (padding if t is None else padding | ~t for t in (queries, keys))
    return hidden, unseen
