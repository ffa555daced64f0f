"""MTSA on a CPU in C: Algorithm 1 a row at a time, everything between in the cache.

The C side is ``kernel.c``; the structure ``_Task`` mirrors the one in ``task.h``.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...common import native, operators
from ...common.autograd import Inputs, Outputs
from ...common.dropout import keep_probabilities
from ...common.native import dropout
from ...common.tiling import rows
from ..equation import MTSACall, attend, drops_pairs_only

HERE = Path(__file__).parent
refusal = functools.partial(native.refusal, HERE)
_INPUTS = ("q", "k", "v", "s", "bias", "padding")
_OUTPUTS = ("h", "inverse", "peak", "shift", "exact")


class _Task(native.Task):
    """``Task`` in task.h: change both."""

    _fields_ = native.fields(
        tensors="q k v s h grad gq gk gv gs".split(),
        pointers="inverse peak shift exact padding left right bias gbias".split(),
        sizes="batch heads length inner width scores logsigmoid threads".split(),
        floats="scale keep keep_features".split(),
    )


class _Native(MTSACall):
    """The kernel in C; its result does not depend on the number of threads."""

    def room(self, inputs: Sequence[Any]) -> Outputs:
        """H; and for backward: 1 / denominator, row maxima, key maxima, what was redone."""
        v, s = inputs[2:4]
        batch, heads, length, scores = s.shape
        # H in the memory order of v, so that the heads are side by side as the next layer wants.
        return (
            rows(torch.empty_like(v)),
            v.new_empty(batch, heads, length, scores),
            v.new_empty(batch, heads, length),
            v.new_empty(batch, heads, scores),
            v.new_empty(batch, heads, length, dtype=torch.uint8),
        )

    def forward(self, inputs: Sequence[Any]) -> Outputs:
        outputs = self.room(inputs)
        self._compute(inputs, outputs, {})
        return outputs

    def backward(self, grad: Tensor, inputs: Sequence[Any], outputs: Inputs) -> Outputs:
        q, bias = inputs[0], inputs[4]
        gq, gk, gv, gs = self.gradients(inputs)[:4]
        gbias = None if bias is None else q.new_zeros(q.shape[:3])  # of each sentence: C adds to it
        found = {"grad": grad, "gq": gq, "gk": gk, "gv": gv, "gs": gs, "gbias": gbias}
        self._compute(inputs, outputs, found)
        return (gq, gk, gv, gs) if gbias is None else (gq, gk, gv, gs, gbias.sum(0))

    def factors(self, inputs: Sequence[Any]) -> Outputs:
        v, s, seed = inputs[2], inputs[3], int(inputs[-1])
        return dropout_factors(v, self.dropout_p, seed, drops_pairs_only(s))

    def _compute(self, inputs: Sequence[Any], outputs: Inputs, gradients: dict[str, Any]) -> None:
        """Pass everything to C; backward has gradients."""
        q, v, s, seed = inputs[0], inputs[2], inputs[3], inputs[-1]
        batch, heads, length, inner = q.shape
        left, right = operators.offsets(self.masks)
        keep, keep_features = keep_probabilities(self.dropout_p, drops_pairs_only(s))
        task = _Task(
            batch=batch,
            heads=heads,
            length=length,
            inner=inner,
            width=v.shape[-1],
            scores=s.shape[-1],
            logsigmoid=self.sigma_t == "logsigmoid",
            threads=torch.get_num_threads(),
            scale=inner**-0.5,
            keep=keep,
            keep_features=keep_features,
            seed=0 if seed is None else int(seed),
        )
        tensors = dict(zip((*_INPUTS, *_OUTPUTS), (*inputs[:-1], *outputs), strict=True))
        tensors |= {**gradients, "left": left, "right": right}
        native.run(HERE, task, tensors, backward=bool(gradients))


_run = operators.register("mtsa_native", _Native, outputs=len(_OUTPUTS), device="cpu")
mtsa_native = functools.partial(attend, _run, _Native)


def dropout_factors(
    v: Tensor, dropout_p: float, seed: int, pairs_only: bool = False
) -> tuple[Tensor, Tensor]:
    """What ``tiling.dropout_factors`` gives, of the kernel; float32."""
    lines, (keep, keep_features) = v.shape[:3], keep_probabilities(dropout_p, pairs_only)
    pairs = dropout.factors(lines, v.shape[2], dropout.PAIRS, keep, seed)
    return pairs, dropout.factors(lines, v.shape[3], dropout.FEATURES, keep_features, seed)
