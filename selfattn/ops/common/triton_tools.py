# mypy: ignore-errors
"""What all Triton kernels share: the import that may fail, matrix products, dropout factors.

Only kernel modules import this one, and they are imported when a kernel is first called: a machine
without Triton never notices. There the module still loads, with decorators that do nothing.

The tests run the kernels in Triton's interpreter on a CPU. Whatever decides about the precision is
therefore written out here and not left to an option of ``tl.dot`` that the interpreter ignores.
"""

import types

try:
    import triton
    import triton.language as tl
except ImportError:  # the machine has no Triton: see ``selfattn.ops.mtsa.fused.refusal``
    triton = None
    tl = types.SimpleNamespace(constexpr=lambda value=None: value)

jit = (lambda function: function) if triton is None else triton.jit
_INTERPRETED = triton is not None and bool(triton.knobs.runtime.interpret)
INTERPRETED = tl.constexpr(_INTERPRETED)
LOG2E = tl.constexpr(1.4426950408889634)
# Decorator of functions that kernels call. The interpreter prepares Triton's language anew for each
# such call, which a kernel has done before: there a plain function does the same and is faster.
inline = (lambda function: function) if _INTERPRETED else jit


def kernel(function):
    """Decorator of kernels with ``heads`` and ``length``, which are not compiled anew for each."""
    return function if triton is None else jit(function, do_not_specialize=["heads", "length"])


@inline
def round_tf32(x):
    """float32 rounded to the 10 explicit bits that a tensor core reads; it would cut them off."""
    bits = x.to(tl.int32, bitcast=True)
    return ((bits + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@inline
def narrow(x, TYPE: tl.constexpr):
    """float32 rounded to the nearest value of a type; the interpreter would cut bits off."""
    if INTERPRETED and tl.bfloat16 == TYPE:
        bits = x.to(tl.int32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000
        return bits.to(tl.float32, bitcast=True).to(TYPE)
    else:
        return x.to(TYPE)


@inline
def dot(a, b, acc, PRECISION: tl.constexpr):
    """``a @ b + acc`` with a float32 sum.

    PRECISION: ``"half"`` for operands of 16 bits, ``"tf32"`` for float32 operands rounded once,
    ``"tf32x3"`` for float32 operands in two parts each: three products, 21 bits.
    """
    if PRECISION == "half":
        if INTERPRETED:  # it multiplies bfloat16 as raw integers
            return tl.dot(a.to(tl.float32), b.to(tl.float32), acc)
        else:
            return tl.dot(a, b, acc)
    elif PRECISION == "tf32":
        a, b = round_tf32(a.to(tl.float32)), round_tf32(b.to(tl.float32))
        return tl.dot(a, b, acc, input_precision="tf32")
    else:
        a_head, b_head = round_tf32(a), round_tf32(b)
        a_tail, b_tail = round_tf32(a - a_head), round_tf32(b - b_head)
        acc = tl.dot(a_tail, b_head, acc, input_precision="tf32")
        acc = tl.dot(a_head, b_tail, acc, input_precision="tf32")
        return tl.dot(a_head, b_head, acc, input_precision="tf32")


@inline
def dropout_factor(seed, row, column, lane, STREAM: tl.constexpr, threshold, scale):
    """0 or ``scale`` at (row, column) of a lane, the same wherever and whenever it is asked for.

    Philox with 7 rounds; the position is the counter and the seed is the key. ``threshold`` is the
    probability of keeping times 2^31.
    """
    drawn, _, _, _ = tl.philox(seed, column, row, lane, STREAM, n_rounds=7)
    return tl.where((drawn >> 1).to(tl.int32) < threshold, scale, 0.0)
