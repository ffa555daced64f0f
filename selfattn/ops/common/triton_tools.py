# mypy: ignore-errors
"""What all Triton kernels share: an import that may fail, spans, products, dropout factors.

Only kernel modules import this one, and they are imported when a kernel is first called, so that a
machine without Triton never notices. There the module still loads, with decorators that do nothing.

The tests run the kernels in Triton's interpreter on a CPU. Whatever decides about the precision is
therefore written out here and not left to an option of ``tl.dot`` that the interpreter ignores.
"""

import types

from .fused import VARYING

try:
    import triton
    import triton.language as tl
except ImportError:  # the machine has no Triton: see ``selfattn.ops.common.fused.refusal``
    triton = None
    tl = types.SimpleNamespace(constexpr=lambda value=None: value)

jit = (lambda function: function) if triton is None else triton.jit
_INTERPRETED = triton is not None and not isinstance(tl.sigmoid, triton.JITFunction)
INTERPRETED = tl.constexpr(_INTERPRETED)
LOG2E = tl.constexpr(1.4426950408889634)
# Decorator of functions that kernels call. The interpreter prepares Triton's language anew for each
# such call, which a kernel has done before: there a plain function does the same and is faster.
inline = (lambda function: function) if _INTERPRETED else jit


def kernel(function):
    """Decorator of kernels: they are not compiled anew for each length, mask or dropout."""
    return function if triton is None else jit(function, do_not_specialize=VARYING)


@inline
def at_most(x, bound):
    """The smaller one; unlike that of ``tl.minimum``, NaN if one is."""
    return tl.minimum(x, bound, propagate_nan=tl.PropagateNan.ALL)


@inline
def at_least(x, bound):
    """The larger one; unlike that of ``tl.maximum``, NaN if one is."""
    return tl.maximum(x, bound, propagate_nan=tl.PropagateNan.ALL)


@inline
def round_tf32(x):
    """float32 rounded to the 10 explicit bits that a tensor core reads; it would cut them off."""
    bits = x.to(tl.int32, bitcast=True)
    rounded = ((bits + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return tl.where(x == x, rounded, x)  # a GPU's NaN, 0x7fffffff, would become -0


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

    Philox with 7 rounds; the seed is the key, and the position the counter: a call draws numbers
    for four columns. ``threshold`` is the probability of keeping times 2^31.
    """
    first, second, third, fourth = tl.philox(seed, column // 4, row, lane, STREAM, n_rounds=7)
    low = tl.where(column % 2 == 0, first, second)
    high = tl.where(column % 2 == 0, third, fourth)
    drawn = tl.where(column % 4 < 2, low, high)
    return tl.where((drawn >> 1).to(tl.int32) < threshold, scale, 0.0)


@inline
def dropout_tile(
    seed, rows, first, COLUMNS: tl.constexpr, TRANSPOSED: tl.constexpr, lane,
    STREAM: tl.constexpr, threshold, scale,
):  # fmt: skip
    """The factors of ``rows`` and ``COLUMNS`` columns from ``first``, a multiple of 4.

    ``(rows, columns)``, or ``(columns, rows)`` if TRANSPOSED: the four numbers of each call serve
    four neighbours.
    """
    groups = first // 4 + tl.arange(0, COLUMNS // 4)
    SIZE: tl.constexpr = rows.shape[0]
    if TRANSPOSED:
        a, b, c, d = tl.philox(seed, groups[:, None], rows[None, :], lane, STREAM, n_rounds=7)
    else:
        a, b, c, d = tl.philox(seed, groups[None, :], rows[:, None], lane, STREAM, n_rounds=7)
    # As bytes, of which fewer are moved between threads.
    a = ((a >> 1).to(tl.int32) < threshold).to(tl.int8)
    b = ((b >> 1).to(tl.int32) < threshold).to(tl.int8)
    c = ((c >> 1).to(tl.int32) < threshold).to(tl.int8)
    d = ((d >> 1).to(tl.int32) < threshold).to(tl.int8)
    kept = tl.join(tl.join(a, c), tl.join(b, d))  # the last two dimensions: a, b, c, d
    if TRANSPOSED:
        kept = tl.reshape(tl.permute(kept, (0, 2, 3, 1)), (COLUMNS, SIZE))
    else:
        kept = tl.reshape(kept, (SIZE, COLUMNS))
    return tl.where(kept != 0, scale, 0.0)


@inline
def key_span(first, stop, left, right, length, bounds_ptr, batch, HAS_PADDING: tl.constexpr):
    """Keys that some of the queries ``[first, stop)`` see, and those that all of them see.

    Returns:
        ``lo, hi, all_lo, all_hi``; the second range lies in the first one or is empty.
    """
    lo = tl.maximum(first + left, 0)
    hi = tl.minimum(stop + right, length)
    all_lo = tl.maximum(stop - 1 + left, 0)
    all_hi = tl.minimum(first + right + 1, length)
    if HAS_PADDING:
        begin = tl.load(bounds_ptr + batch * 3)
        end = tl.load(bounds_ptr + batch * 3 + 1)
        unbroken = tl.load(bounds_ptr + batch * 3 + 2)
        lo, hi = tl.maximum(lo, begin), tl.minimum(hi, end)
        all_lo = tl.maximum(all_lo, begin)
        all_hi = tl.where(unbroken != 0, tl.minimum(all_hi, end), 0)
    return lo, hi, all_lo, all_hi


@kernel
def bounds_kernel(padding_ptr, bounds_ptr, length, SIZE: tl.constexpr):
    """For each sentence: first real key, one past the last, whether all between are real."""
    batch = tl.program_id(0)
    begin, end, real_keys = length, 0, 0
    for start in range(0, length, SIZE):
        keys = start + tl.arange(0, SIZE)
        hidden = tl.load(padding_ptr + batch.to(tl.int64) * length + keys, keys < length, other=1)
        real = hidden == 0
        begin = tl.minimum(begin, tl.min(tl.where(real, keys, length), 0))
        end = tl.maximum(end, tl.max(tl.where(real, keys + 1, 0), 0))
        real_keys += tl.sum(real.to(tl.int32), 0)
    tl.store(bounds_ptr + batch * 3, begin)
    tl.store(bounds_ptr + batch * 3 + 1, end)
    tl.store(bounds_ptr + batch * 3 + 2, (real_keys == end - begin).to(tl.int32))


@jit
def factor_kernel(
    seed_ptr, out_ptr, rows, columns, threshold, scale, STREAM: tl.constexpr, SIZE: tl.constexpr
):
    """The dropout factors of one stream as a tensor ``(lanes, rows, columns)``: for tests."""
    lane, row = tl.program_id(0) // rows, tl.program_id(0) % rows
    seed = tl.load(seed_ptr)
    for start in range(0, columns, SIZE):
        column = start + tl.arange(0, SIZE)
        factor = dropout_factor(seed, row + column * 0, column, lane, STREAM, threshold, scale)
        pointers = out_ptr + (lane.to(tl.int64) * rows + row) * columns + column
        tl.store(pointers, factor, mask=column < columns)
