"""DiSA on a CPU in C: a vector of features at a time, everything between in the cache.

The C side is ``kernel.c``; the structure ``_Task`` mirrors the one in ``task.h``.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ....masks import PositionalMask
from ...common import native, operators
from ...common.autograd import Inputs, Outputs
from ...common.dropout import keep_probability
from ...common.native import dropout
from ...common.tiling import LOG2E
from .. import tiling
from ..equation import DiSACall, attend

HERE = Path(__file__).parent
refusal = functools.partial(native.refusal, HERE)


class _Task(native.Task):
    """``Task`` in task.h: change both."""

    _fields_ = native.fields(
        tensors="x a b out grad gx ga gb inverse".split(),
        pointers="padding unseen left right begin mask".split(),
        sizes="batch length groups masks threads".split(),
        floats="gain low keep".split(),
    )


class _Native(DiSACall):
    """The kernel in C, without a bias by distance; its result does not depend on the threads.

    It leaves out the tokens that are hidden, whose memory is 0 before.
    """

    def forward(self, inputs: Sequence[Any]) -> Outputs:
        """The output, and 1 / denominator for backward."""
        outputs = self.room(inputs)
        self._compute(inputs, outputs, {})
        return outputs

    def backward(self, grad: Tensor, inputs: Sequence[Any], outputs: Inputs) -> Outputs:
        gx, ga, gb = found = self.gradients(inputs)
        gradients = {"grad": grad, "gx": gx, "ga": ga, "gb": gb}
        self._compute(inputs, outputs, gradients)
        return found

    def factors(self, inputs: Sequence[Any]) -> Outputs:
        return dropout_factors(inputs[0], self.masks, self.dropout_p, int(inputs[-1]))

    def _compute(self, inputs: Sequence[Any], outputs: Inputs, gradients: dict[str, Any]) -> None:
        """Pass everything to C; backward has gradients."""
        x, a, b, _, padding, unseen, seed = inputs
        batch, length, features = x.shape
        groups = list(tiling.groups(self.masks, features, apart=seed is not None))
        left, right = operators.offsets([group.mask for group in groups])
        task = _Task(
            batch=batch,
            length=length,
            groups=len(groups),
            masks=len(self.masks),
            threads=torch.get_num_threads(),
            gain=2.0 / self.c * LOG2E,
            low=-2.0 * self.c * LOG2E,
            keep=keep_probability(self.dropout_p),
            seed=0 if seed is None else int(seed),
        )
        begin = [*(group.features.start for group in groups), features]
        unseen = padding if unseen is None else unseen
        tensors: dict[str, Any] = {"x": x, "a": a, "b": b, "out": outputs[0], "inverse": outputs[1]}
        tensors |= {**gradients, "padding": padding, "unseen": unseen, "left": left, "right": right}
        tensors |= {"begin": begin, "mask": [group.parts.start for group in groups]}
        native.run(HERE, task, tensors, backward=bool(gradients))


_run = operators.register("disa_native", _Native, outputs=2, device="cpu")
disa_native = functools.partial(attend, _run, _Native)


def dropout_factors(
    x: Tensor, masks: Sequence[PositionalMask], dropout_p: float, seed: int
) -> tuple[Tensor, Tensor]:
    """What ``tiling.dropout_factors`` gives, of the kernel; float32."""
    batch, length, features = x.shape
    keep = keep_probability(dropout_p)
    pairs = dropout.factors((batch, len(masks), length), length, dropout.PAIRS, keep, seed)
    scales = dropout.factors((batch, length), features, dropout.FEATURES, keep, seed)
    return pairs, scales
