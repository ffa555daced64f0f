"""Multi-mask tensorized self-attention: the public operator."""

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...errors import UserError, check_choice
from ...masks import PositionalMask, as_masks, check_padding_mask
from ..common import dispatch, distance
from ..common.tiling import with_graph
from . import fused, native
from .eager import mtsa_eager
from .equation import drops_pairs_only, mtsa_slow
from .fused import mtsa_fused
from .native import mtsa_native


def _refusal(device: str, dtype: torch.dtype, key_width: int = 64, width: int = 64) -> str | None:
    """Why the kernel for the device cannot be used; None if it can."""
    if device == "cpu":
        return native.refusal(dtype)
    return fused.refusal(device, dtype, (key_width, width))


dispatch.OPERATORS["mtsa"] = dispatch.Operator(mtsa_eager, _refusal)
_RUN: dict[str, Callable[..., Tensor]] = {
    "reference": mtsa_slow,
    "eager": functools.partial(dispatch.eager, "mtsa"),
    "fused": mtsa_fused,  # elsewhere than on a CPU
}
SIGMA_T = ("identity", "logsigmoid")

__all__ = ["SIGMA_T", "mtsa"]


def mtsa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    *,
    masks: PositionalMask | Sequence[PositionalMask],
    padding_mask: Tensor | None = None,
    sigma_t: str = "identity",
    dropout_p: float = 0.0,
    distance_bias: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """Attention with a score per feature: eq. 10-12 of the MTSA paper, for all heads at once.

    The output of head c at query j and feature l is ``sum_i p[i, l] v[i, l]``, where ``p[:, l]`` is
    the softmax over the visible keys i of ``sigma_t(<k_i, q_j> / sqrt(D_i)) + s[i, l]``.

    Args:
        q: queries ``(B, H, T, D_i)``.
        k: keys ``(B, H, T, D_i)``.
        v: values ``(B, H, T, D)``.
        s: source2token scores after sigma_s ``(B, H, T, D)``, log weights without unit; or
            ``(B, H, T, 1)``, one score of a key for all of its features.
        masks: one ``PositionalMask`` for each head, or one for all of them.
        padding_mask: bool ``(B, T)``, True = padding; a padded position is never a key, whatever
            its k, v and s hold. Its query is computed as any other, and must be finite.
        sigma_t: ``"identity"`` or ``"logsigmoid"`` on the token2token score; hyphens and
            underscores do not count: ``"log_sigmoid"``.
        dropout_p: attention dropout: each of the two factors of the numerator is kept with
            probability ``sqrt(1 - dropout_p)`` (MTSA appendix A.3); the denominator is not dropped.
            With one score for all features, each weight of a key is kept with probability
            ``1 - dropout_p`` instead, as in dot-product attention.
            Draws from torch's global generator.
        distance_bias: ``(H, T)``, finite, added outside of sigma_t as eq. 10 adds the mask:
            ``distance_bias[c, t]`` for keys at t positions from the query.
        backend: ``"reference"`` builds the ``T x T x D`` tensor; ``"eager"`` runs in blocks of
            PyTorch operators on any device with float64; ``"fused"`` is a kernel, in C on a CPU and
            in Triton on a GPU; ``"auto"`` is the first of ``"fused"``, ``"eager"`` and
            ``"reference"`` that can be used. ``selfattn/layers/README.md`` says what each can be
            used for.

    Returns:
        ``(B, H, T, D)`` in the dtype of q, or of autocast where the kernel is Triton's. A query
        with no visible key returns exactly 0.

    Raises:
        UserError: if shapes, dtypes, masks, sigma_t, dropout_p or backend do not fit, under
            ``torch.jit.trace``, or for a third derivative of another backend than ``"reference"``.
            ``"fused"`` takes a distance bias, and dropout with one score, on a CPU only.

    Example:
        >>> import torch
        >>> from selfattn.masks import PositionalMask
        >>> q, k, v, s = torch.randn(4, 2, 8, 5, 16).unbind()
        >>> masks = [PositionalMask("forward")] * 4 + [PositionalMask("backward")] * 4
        >>> mtsa(q, k, v, s, masks=masks).shape
        torch.Size([2, 8, 5, 16])
    """
    dispatch.refuse_tracing("mtsa")
    masks = _check(q, k, v, s, masks, padding_mask, dropout_p)
    distance.check(distance_bias, *q.shape[1:3])
    sigma_t = str(sigma_t).replace("-", "").replace("_", "")
    check_choice("sigma_t", sigma_t, SIGMA_T)
    if not v.numel():
        return with_graph(v, q, k, s, distance_bias)  # no sentence or no token
    on_cpu, lacking = q.device.type == "cpu", None
    if not on_cpu and distance_bias is not None:
        lacking = distance.NOT_FUSED
    elif not on_cpu and dropout_p and drops_pairs_only(s):
        lacking = "it drops no weight that all features share"
    name = dispatch.backend_for("mtsa", q, backend, (q.shape[-1], v.shape[-1]), lacking)
    run = mtsa_native if on_cpu and name == "fused" else _RUN[name]
    if run is mtsa_fused:
        s = s.expand_as(v)
    return run(q, k, v, s, masks, padding_mask, sigma_t, float(dropout_p), distance_bias)


def _check(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    masks: PositionalMask | Sequence[PositionalMask],
    padding_mask: Tensor | None,
    dropout_p: float,
) -> tuple[PositionalMask, ...]:
    """Check what a caller can get wrong and return the masks, one for each head."""
    if q.dim() != 4 or q.shape != k.shape:
        raise UserError(
            f"q {tuple(q.shape)} and k {tuple(k.shape)} must have one shape (B, H, T, D_i)"
        )
    if s.shape not in (v.shape, (*v.shape[:-1], 1)) or v.shape[:3] != q.shape[:3]:
        raise UserError(
            f"v {tuple(v.shape)} and s {tuple(s.shape)} must have one shape (B, H, T, D), or s one "
            f"feature, with the B, H, T of q {tuple(q.shape)}"
        )
    dispatch.check_inputs(dropout_p, q=q, k=k, v=v, s=s)
    if not q.shape[-1]:
        raise UserError(f"q {tuple(q.shape)} has no feature; it must have at least one")
    batch, heads, length = q.shape[:3]
    given = as_masks(masks)
    masks = given * heads if isinstance(masks, PositionalMask) else given
    if len(masks) != heads:
        raise UserError(f"masks lists {len(masks)} masks for {heads} heads; give one for each head")
    check_padding_mask(padding_mask, (batch, length))
    return masks
