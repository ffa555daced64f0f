"""DiSA on a CPU in C: a vector of features at a time, everything between in the cache.

The C side is ``kernel.c``; the structure ``_Task`` mirrors the one in ``task.h``.
"""

from __future__ import annotations

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
from ...common.tiling import LOG2E, runs
from ..eager import LARGEST_C_FLOAT32
from ..equation import DiSACall

HERE = Path(__file__).parent


class _Task(native.Task):
    """``Task`` in task.h: change both."""

    _fields_ = native.fields(
        tensors="x a b out grad gx ga gb inverse".split(),
        pointers="padding unseen left right begin mask".split(),
        sizes="batch length groups masks threads".split(),
        floats="gain low keep".split(),
    )


def refusal(dtype: torch.dtype, c: float = 5.0) -> str | None:
    """Why the kernel cannot be used for a type of numbers and a bound of scores, or None."""
    reason = native.refusal(HERE, dtype)
    if reason is None and c > LARGEST_C_FLOAT32:
        reason = f"c {c} is above {LARGEST_C_FLOAT32}, the largest that float32 sums allow"
    return reason


def disa_native(
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
    """Equations 9 and 10 of the Bi-BloSAN paper; arguments as in ``disa``.

    ``padding_mask`` hides queries, and keys unless ``hidden_keys`` says which of them are hidden.
    The kernel has no distance bias. Half precision is computed in float32 and rounded once at the
    end. Memory is O(B T C). The result does not depend on the number of threads.
    """
    # A tensor, so that a compiled model draws a new one each time.
    seed = torch.randint(1 << 62, ()) if dropout_p else None
    wide = (t.to(torch.float32) for t in (x, a, b))
    call = _Native(tuple(masks), c, dropout_p)
    return _run(call, *wide, None, padding_mask, hidden_keys, seed).to(x.dtype)


class _Native(DiSACall):
    """The kernel in C; it leaves out the tokens that are hidden, whose memory is 0 before."""

    def room(self, inputs: Sequence[Any]) -> Outputs:
        """The output, and 1 / denominator for backward."""
        x = inputs[0]
        return x.new_zeros(x.shape), x.new_zeros(x.shape)

    def gradients(self, inputs: Sequence[Any]) -> Outputs:
        """See ``KernelCall.gradients``."""
        x = inputs[0]
        return x.new_zeros(x.shape), x.new_zeros(x.shape), x.new_zeros(x.shape)

    def forward(self, inputs: Sequence[Any]) -> Outputs:
        """See ``Call.forward``."""
        outputs = self.room(inputs)
        self._compute(inputs, outputs, {}, backward=False)
        return outputs

    def backward(self, grad: Tensor, inputs: Sequence[Any], outputs: Inputs) -> Outputs:
        """See ``Call.backward``."""
        gx, ga, gb = found = self.gradients(inputs)
        gradients = {"grad": grad, "gx": gx, "ga": ga, "gb": gb}
        self._compute(inputs, outputs, gradients, backward=True)
        return found

    def factors(self, inputs: Sequence[Any]) -> Outputs:
        """See ``Call.factors``."""
        return dropout_factors(inputs[0], self.masks, self.dropout_p, int(inputs[-1]))

    def _compute(
        self,
        inputs: Sequence[Any],
        outputs: Inputs,
        gradients: dict[str, Tensor],
        *,
        backward: bool,
    ) -> None:
        """Pass everything to C."""
        x, a, b, _, padding, unseen, seed = inputs
        batch, length, features = x.shape
        width = features // len(self.masks)
        left, right = operators.offsets(self.masks)
        groups = list(runs(list(zip(left, right, strict=True))))
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
        begin = [parts.start * width for _, parts in groups]
        tensors = {
            "x": x,
            "a": a,
            "b": b,
            "out": outputs[0],
            "inverse": outputs[1],
            **gradients,
            "padding": padding,
            "unseen": padding if unseen is None else unseen,
            "left": torch.tensor([ends[0] for ends, _ in groups]),
            "right": torch.tensor([ends[1] for ends, _ in groups]),
            "begin": torch.tensor([*begin, features]),
            "mask": torch.tensor([parts.start for _, parts in groups]),
        }
        native.run(HERE, task, tensors, backward=backward)


_run = operators.register("disa_native", _Native, outputs=2, device="cpu")


def dropout_factors(
    x: Tensor, masks: Sequence[PositionalMask], dropout_p: float, seed: int
) -> tuple[Tensor, Tensor]:
    """The factors that the kernel draws from a seed, as whole tensors, for references.

    Returns:
        The factor on (query, key) pairs ``(B, G, T, T)``, one for each mask, and the one on
        (key, feature) pairs ``(B, T, C)``; both float32.
    """
    batch, length, features = x.shape
    pairs = dropout.factors((batch, len(masks), length), length, dropout.PAIRS, dropout_p, seed)
    for _, parts in runs(masks):
        pairs[:, parts] = pairs[:, parts.start, None]
    return pairs, dropout.factors((batch, length), features, dropout.FEATURES, dropout_p, seed)
