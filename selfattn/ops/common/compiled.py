"""What ``torch.compile`` takes in place of the functions that it must not look into.

Only a function that is being compiled imports this: torch.compiler's decorators import the whole
compiler, which takes longer than the rest of ``import selfattn``.
"""

from typing import Any

import torch
from torch import Tensor

from .dispatch import OPERATORS

# Its kernel on CPUs has a gradient that torch's compiler cannot record.
lstm = torch.compiler.disable(torch.lstm)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def eager(name: str, *inputs: Any) -> Tensor:
    """``Operator.eager`` by name."""
    return OPERATORS[name].eager(*inputs)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def refusal(name: str, *limits: Any) -> str | None:
    """``Operator.refusal`` by name."""
    return OPERATORS[name].refusal(*limits)
