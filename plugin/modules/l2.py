"""The L2 term that the sentence experiments of the papers have in their loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from selfattn.layers import SelfAttention


def l2(model: nn.Module) -> Tensor:
    """``sum W^2 / 2`` over what has two dimensions or more; not embeddings, nor what is frozen.

    The samplers of ReSA are left out as well: no part of the supervised loss reaches them.

    Differs: in the authors' code the maps of MTSA count twice where two sentences are encoded, and
    those of DiSA's scores not at all.
    """
    left_out: set[int] = set()
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            left_out.update(map(id, module.parameters()))
        elif isinstance(module, SelfAttention):
            left_out.update(map(id, module.policy_parameters()))
    counted = [
        p for p in model.parameters() if p.dim() >= 2 and p.requires_grad and id(p) not in left_out
    ]
    # In one tensor: a hundred small ones cost more than their numbers.
    return 0.5 * torch.cat([p.flatten() for p in counted]).float().square().sum()
