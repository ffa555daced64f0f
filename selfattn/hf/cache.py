"""The cache of a beam search, and what transformers calls a cache."""

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import Seq2SeqLMOutput

# The argument and the output: "cache" since transformers 5.24, "past_key_values" before.
CACHE = "cache" if "cache" in Seq2SeqLMOutput.__dataclass_fields__ else "past_key_values"


class BeamCache(EncoderDecoderCache):  # type: ignore[misc]
    """Keys and values of each source once, and of its beams until the source is finished.

    transformers computes a sentence whose hypotheses are complete until the last one of its batch
    is, and throws away what it gets. Here, as in fairseq, finished sentences leave the cache.

    Args:
        beams: of each source, neighbours in the batch.

    Attributes:
        finished: bool ``(sources,)``, True = no hypothesis can be added; None: as good as False.
        rows: of the batch ``(R,)``, the beams of the other sources; None: all.
    """

    def __init__(self, beams: int) -> None:
        super().__init__(DynamicCache(), DynamicCache())
        self.beams = beams
        self.finished: Tensor | None = None
        self.rows: Tensor | None = None

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Go on with other beams.

        Args:
            beam_idx: ``(B,)``, which row of the batch each row goes on from.
        """
        rows = torch.arange(len(beam_idx), device=beam_idx.device)
        places = rows  # of the batch's rows in the cache
        if self.rows is not None:
            places = torch.empty_like(rows).index_copy_(0, self.rows, rows[: len(self.rows)])
        if self.finished is not None:
            rows = rows[~self.finished.repeat_interleave(self.beams)]
            if 0 < len(rows) < len(self.of_rows(beam_idx)):
                sources = places[rows[:: self.beams]] // self.beams
                self.cross_attention_cache.batch_select_indices(sources)
                self.rows = rows
        self.self_attention_cache.reorder_cache(places[self.of_rows(beam_idx)])

    def of_rows(self, x: Tensor) -> Tensor:
        """``(B, ...)`` -> ``(R, ...)``."""
        return x if self.rows is None else x[self.rows]

    def of_batch(self, y: Tensor, size: int) -> Tensor:
        """``(R, ...)`` -> ``(B, ...)`` of B rows, 0 where a source is finished."""
        if self.rows is None:
            return y
        return y.new_zeros(size, *y.shape[1:]).index_copy_(0, self.rows, y)
