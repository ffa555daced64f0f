"""Equation 11 as printed for the rows of a tile whose denominator underflowed, in float64.

Every feature gets a softmax of its own, one query at a time. Few rows come here, so this is written
to be read and to be right; the gradients are autograd's.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .reference import mtsa_reference

# A denominator above this has lost at most T * 1e-13 of its weight to underflow.
SMALLEST_DENOMINATOR = {torch.float32: 1e-25, torch.float64: 1e-280}


def exact_forward(rows: Mapping[str, Any]) -> Tensor:
    """H ``(m, n_q, D)`` from the arguments of ``mtsa_reference``, each ``(m, 1, ., .)``."""
    with torch.no_grad():
        return torch.cat([_query(rows, j) for j in range(rows["q"].shape[2])], 2)[:, 0]


def exact_backward(rows: Mapping[str, Any], grad: Tensor) -> dict[str, Tensor]:
    """Gradients of q, k, v, s and of a bias, ``(m, ., .)``, by that of H ``(m, n_q, D)``."""
    names = [name for name in ("q", "k", "v", "s", "bias") if rows[name] is not None]
    leaves = {name: rows[name].requires_grad_() for name in names}
    totals = {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    for j in range(grad.shape[1]):
        with torch.enable_grad():
            h = _query(rows, j)[:, 0]
            found = torch.autograd.grad(h, list(leaves.values()), grad[:, j : j + 1].to(h.dtype))
        for total, term in zip(totals.values(), found, strict=True):
            total += term
    return {name: total[:, 0] for name, total in totals.items()}


def _query(rows: Mapping[str, Any], j: int) -> Tensor:
    """H of one query, ``(m, 1, 1, D)``."""
    own = ("q", "allowed", "bias", "pair_dropout")
    one = {name: rows[name][:, :, j : j + 1] for name in own if rows[name] is not None}
    return mtsa_reference(**{**rows, **one})
