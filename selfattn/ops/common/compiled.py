"""What ``torch.compile`` takes in place of the functions that it must not look into.

Only a function that is being compiled imports this: torch.compiler's decorators import the whole
compiler, which takes longer than the rest of ``import selfattn``.
"""

import torch

from selfattn.ops.disa import fused_refusal as _disa_refusal
from selfattn.ops.disa.eager import disa_eager as _disa_eager
from selfattn.ops.mtsa import fused_refusal as _mtsa_refusal
from selfattn.ops.mtsa.eager import mtsa_eager as _mtsa_eager

disa_eager = torch.compiler.disable(_disa_eager)
mtsa_eager = torch.compiler.disable(_mtsa_eager)
disa_refusal = torch.compiler.assume_constant_result(_disa_refusal)
mtsa_refusal = torch.compiler.assume_constant_result(_mtsa_refusal)
