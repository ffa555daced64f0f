"""MTSA in Triton kernels: one pass over key tiles, nothing of size T x T in memory.

Importing this package needs torch only; Triton is imported when a kernel is first called. The
algorithm is in this folder's README.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ....masks import PositionalMask
from ...common import autograd
from ...common import fused as common
from ...common.fused import draw_seed
from . import configs, launch

__all__ = ["mtsa_fused", "refusal"]


def refusal(
    device: torch.device | str, dtype: torch.dtype, widths: Sequence[int] = ()
) -> str | None:
    """Why the kernels cannot run, see ``common.fused.refusal``; None if they can.

    ``widths`` are the head widths ``D_i`` and ``D``, as far as they are known.
    """
    reason = common.refusal(device, dtype)
    if reason is None and widths and max(widths) > configs.WIDEST:
        reason = f"head width {max(widths)} is above {configs.WIDEST}"
    return reason


def mtsa_fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None,
    sigma_t: str,
    dropout_p: float,
    distance_bias: None = None,
) -> Tensor:
    """Equations 10-12 of the MTSA paper in fused kernels, without a bias by distance.

    Views whose last dimension is contiguous are read in place. Under autocast q, k and v are cast
    to its dtype; s keeps its own, which costs nothing and keeps large scores apart.

    Returns:
        ``(B, H, T, D)`` in the dtype of v after autocast, in memory ``(B, T, H, D)``.
    """
    if torch.is_autocast_enabled(q.device.type):
        work = torch.get_autocast_dtype(q.device.type)
        q, k, v = (t if t.dtype == torch.float64 else t.to(work) for t in (q, k, v))
    seed = draw_seed(q.device) if dropout_p else None
    given = any(t.requires_grad for t in (q, k, v, s)) or autograd.is_transformed()
    call = launch.Triton(tuple(masks), sigma_t, dropout_p, torch.is_grad_enabled() and given)
    return launch.run(call, q, k, v, s, None, padding_mask, seed)
