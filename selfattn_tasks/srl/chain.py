"""Sums over the label sequences that constraints allow: a conditional random field's algorithms.

The labels of a sentence form a chain: each word's log-probabilities, and neighbours that are
allowed or forbidden. ``decode.viterbi`` finds the best sequence; here are sums over all of them.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from selfattn.masks import check_padding_mask

from .decode import Constraints, sparse


def forward(log_probs: Tensor, padding_mask: Tensor, constraints: Constraints) -> Tensor:
    """Sum over all allowed beginnings of each sentence; differentiable.

    Args:
        log_probs: ``(B, T, C)``, float64; -inf forbids a label at a word.
        padding_mask: bool ``(B, T)``, True = padding, on the right.
        constraints: which labels may follow each other.

    Returns:
        ``(B, T, C)``: the logarithm of the summed probabilities of the sequences that end with each
        label at each word; at padding, that of the last word.
    """
    check_padding_mask(padding_mask, log_probs.shape[:2])
    step = _sum_step(constraints.allowed.to(log_probs.device))
    sums = [log_probs[:, 0].masked_fill(~constraints.start.to(log_probs.device), -torch.inf)]
    for t in range(1, log_probs.shape[1]):
        here = step(sums[-1]) + log_probs[:, t]
        sums.append(torch.where(padding_mask[:, t, None], sums[-1], here))
    return torch.stack(sums, 1)


def backward(log_probs: Tensor, padding_mask: Tensor, constraints: Constraints) -> Tensor:
    """Sum over all allowed endings after each word; arguments as for :func:`forward`.

    Returns:
        ``(B, T, C)``: the logarithm of the summed probabilities of the sequences that follow each
        label at each word; 0 at the last word and at padding.
    """
    check_padding_mask(padding_mask, log_probs.shape[:2])
    step = _sum_step(constraints.allowed.to(log_probs.device).T)
    sums = [torch.zeros_like(log_probs[:, 0])]
    for t in range(log_probs.shape[1] - 1, 0, -1):
        before = step(sums[-1] + log_probs[:, t])
        sums.append(torch.where(padding_mask[:, t, None], sums[-1], before))
    return torch.stack(sums[::-1], 1)


def _sum_step(allowed: Tensor) -> Callable[[Tensor], Tensor]:
    """Make ``(B, C) -> (B, C)``, the logarithm of ``exp(x) allowed``, as Viterbi's step.

    Each label is summed on its own scale: what may precede it can be far below all others.
    """
    everywhere = allowed.all(1)  # rows that each column has
    bound, before, missing = sparse(allowed & ~everywhere[:, None] | allowed.all(0))
    column = torch.zeros(len(allowed), dtype=torch.long, device=allowed.device)
    column[bound] = torch.arange(1, 1 + len(bound), device=allowed.device)
    # A label that nothing may precede has a sum of nothing, which needs a term, too.
    shares = bool(everywhere.any()) or not before.shape[1]

    def step(x: Tensor) -> Tensor:
        of_all = _log_sum(x)[:, None]
        if not len(bound):
            return of_all.expand_as(x)
        some = x.index_select(1, before.flatten()).view(len(x), *before.shape)
        some = some.masked_fill(missing, -torch.inf)  # (B, bound labels, what may precede each)
        if shares:
            shared = _log_sum(x.masked_fill(~everywhere, -torch.inf))[:, None, None]
            some = torch.cat([some, shared.expand(-1, len(bound), 1)], -1)
        return torch.cat([of_all, _log_sum(some)], 1).index_select(1, column)

    return step


def _log_sum(x: Tensor) -> Tensor:
    """logsumexp of the last dimension; rows of -inf stay so, and send no gradient."""
    most = x.detach().amax(-1, keepdim=True).clamp(min=-1e300)
    sums = (x - most).exp().sum(-1)
    return sums.clamp(min=1.0).log().masked_fill(sums == 0, -torch.inf) + most[..., 0]


def log_likelihood(
    scores: Tensor, gold: Tensor, padding_mask: Tensor, constraints: Constraints
) -> tuple[Tensor, Tensor]:
    """Log-probability of gold labels among all sequences that are allowed (Lafferty et al. 2001).

    A word whose gold label is unknown may have any: the probabilities of all sequences that agree
    with the known labels are summed.

    Args:
        scores: ``(B, T, C)``, finite; constants of a word cancel out, as those of a softmax.
        gold: ``(B, T)``, label numbers; negative where unknown, and at padding.
        padding_mask: bool ``(B, T)``, True = padding, on the right.
        constraints: which labels may follow each other.

    Returns:
        ``(B,)`` float64, at most 0; and bool ``(B,)``, False where no allowed sequence agrees with
        the known labels. There the log-probability is 0, without a gradient.
    """
    scores = scores.double()
    others = torch.arange(scores.shape[-1], device=scores.device) != gold[..., None]
    agreeing = scores.masked_fill(others & (gold >= 0)[..., None], -torch.inf)
    both = torch.cat([agreeing, scores])
    last = forward(both, padding_mask.repeat(2, 1), constraints)[:, -1]
    possible = (last.detach() > -torch.inf).any(1)
    sums = torch.where(possible[:, None], last, 0.0).logsumexp(1)
    of_gold, of_all = sums.chunk(2)
    fits = possible[: len(gold)]
    return torch.where(fits, of_gold - of_all, 0.0), fits
