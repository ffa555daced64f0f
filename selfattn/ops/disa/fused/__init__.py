"""DiSA in Triton kernels: sums over the visible keys in registers, nothing of size T x T x C.

Importing this package needs torch only; Triton is imported when a kernel is first called. The
algorithm is in the README of ``selfattn/ops/disa``.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ....masks import PositionalMask
from ...common import autograd
from ...common.fused import draw_seed, refusal
from . import launch

__all__ = ["disa_fused", "refusal"]


def disa_fused(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None,
    c: float,
    dropout_p: float,
    hidden_keys: Tensor | None = None,
    distance_bias: None = None,
) -> Tensor:
    """Equations 9 and 10 of the Bi-BloSAN paper in fused kernels; arguments as in ``disa``.

    ``padding_mask`` hides queries, and keys unless ``hidden_keys`` says which of them are hidden.
    The kernels have no distance bias. Views whose last dimension is contiguous are read in place.
    Arithmetic is float32 whatever the dtype; the output is rounded once.
    """
    seed = draw_seed(x.device) if dropout_p else None
    given = any(t.requires_grad for t in (x, a, b)) or autograd.is_transformed()
    call = launch.Triton(tuple(masks), c, dropout_p, torch.is_grad_enabled() and given)
    return launch.run(call, x, a, b, None, padding_mask, hidden_keys, seed)
