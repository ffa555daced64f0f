"""How long a translation may become, as fairseq-generate says it."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import LogitsProcessor


class EndAt(LogitsProcessor):  # type: ignore[misc]
    """Ends each sequence after a number of tokens of its own.

    transformers' ``forced_eos_token_id`` gives the end the probability 1; here, as in fairseq, it
    keeps its own, so that a translation that was cut is not preferred.

    Args:
        limits: tokens ``(B * beams,)`` before the end of sentence.
        eos: its token.
    """

    def __init__(self, limits: Tensor, eos: int) -> None:
        self.limits, self.eos = limits, eos

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Log-probabilities ``(B * beams, vocab_size)`` -> the same, with -inf for what is late."""
        late = input_ids.shape[1] - 1 >= self.limits  # without the decoder's start
        if not late.any():
            return scores
        other = torch.ones(scores.shape[1], dtype=torch.bool, device=scores.device)
        other[self.eos] = False
        return scores.masked_fill(late[:, None] & other, float("-inf"))
