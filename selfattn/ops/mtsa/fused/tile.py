# mypy: ignore-errors
"""Small functions that the kernels of MTSA share: which keys, which weights, which factors.

The scale of scores of pairs has log2(e) in it, so that ``exp2`` needs no further multiplication.
"""

from ...common.triton_tools import dropout_factor, dropout_tile, inline, narrow, tl


@inline
def pair_weights(x, m, scale, LOGSIGMOID: tl.constexpr):
    """exp(sigma_t(R)) of eq. 10 of products q k^T, 0 where x is -inf.

    Relative to a maximum m in units of log 2; the sigmoid, at most 1 anyway, needs none.
    """
    if LOGSIGMOID:
        return 1.0 / (1.0 + tl.exp2(-x * scale))
    else:
        return tl.exp2(x * scale - m)


@inline
def slope(x, p, scale):
    """Derivative of the log-sigmoid, 1 - p for its p, without cancellation where p is near 1."""
    return p * tl.minimum(tl.exp2(-x * scale), 1e38)  # p exp(-R); 0 where p is


@inline
def own_tile(length, SIZE: tl.constexpr):
    """What this program computes: its (sentence, head) lane, and the first row of its tile."""
    tiles = tl.cdiv(length, SIZE)
    return tl.program_id(0) // tiles, tl.program_id(0) % tiles * SIZE


@inline
def own_head(lane, heads, q_ptr, k_ptr, left_ptr, right_ptr, q_b, q_h, k_b, k_h):
    """Sentence and head of a lane, where its q and k begin, and the offsets of its mask.

    Returns:
        ``batch, b, h, q_ptr, k_ptr, left, right``; b and h count in 64 bits.
    """
    batch, head = lane // heads, lane % heads
    b, h = batch.to(tl.int64), head.to(tl.int64)
    q_ptr += b * q_b + h * q_h
    k_ptr += b * k_b + h * k_h
    left, right = tl.load(left_ptr + head), tl.load(right_ptr + head)
    return batch, b, h, q_ptr, k_ptr, left, right


@inline
def tile_span(lo, hi, all_lo, all_hi, SIZE: tl.constexpr):
    """The same two ranges in tiles: touched ``[t0, t1)`` and whole ``[w0, w1)``."""
    t0 = lo // SIZE
    t1 = tl.maximum((tl.maximum(hi, 0) + SIZE - 1) // SIZE, t0)
    w0 = tl.minimum(tl.maximum((all_lo + SIZE - 1) // SIZE, t0), t1)
    w1 = tl.minimum(tl.maximum(tl.maximum(all_hi, 0) // SIZE, w0), t1)
    return t0, t1, w0, w1


@inline
def nth_tile(i, t0, w0, w1, MASKED: tl.constexpr):
    """The i-th tile that needs a mask, or the i-th one that needs none."""
    if MASKED:
        tile = t0 + i
        return tl.where(tile >= w0, tile + (w1 - w0), tile)
    else:
        return w0 + i


@inline
def real_keys(keys, padding_ptr, batch, length, HAS_PADDING: tl.constexpr):
    """Which keys exist and are not padding."""
    real = keys < length
    if HAS_PADDING:
        hidden = tl.load(padding_ptr + batch.to(tl.int64) * length + keys, mask=real, other=1)
        real = real & (hidden == 0)
    return real


@inline
def load_rows(
    base, start, stride, real,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr, CHECK: tl.constexpr,
):  # fmt: skip
    """Rows from ``start`` of a matrix of ``WIDTH`` columns as a tile ``(ROWS, SIZE)``.

    Nothing is read where not real. CHECK: whether ``real`` can be False at all.
    """
    columns = tl.arange(0, SIZE)
    # The start moves one pointer and not all of them: that saves registers.
    pointers = base + tl.cast(start, tl.int64) * stride
    pointers += tl.arange(0, ROWS)[:, None] * stride + columns[None, :]
    if WIDTH >= SIZE:
        if CHECK:
            return tl.load(pointers, mask=real[:, None], other=0.0)
        else:
            return tl.load(pointers)
    else:
        if CHECK:
            return tl.load(pointers, mask=real[:, None] & (columns < WIDTH)[None, :], other=0.0)
        else:
            return tl.load(pointers, mask=(columns < WIDTH)[None, :], other=0.0)


@inline
def store_rows(
    base, start, stride, real, value,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """The reverse of ``load_rows``, rounded to the type of the memory."""
    columns = tl.arange(0, SIZE)
    pointers = base + tl.cast(start, tl.int64) * stride
    pointers += tl.arange(0, ROWS)[:, None] * stride + columns[None, :]
    mask = real[:, None] & (columns < WIDTH)[None, :]
    tl.store(pointers, narrow(value, base.dtype.element_ty), mask=mask)


@inline
def operand(x, HALF: tl.constexpr):
    """A factor of a matrix product as the tensor core takes it; exp(S) never becomes float16."""
    if HALF:
        return narrow(x, tl.bfloat16)
    else:
        return x


@inline
def pair_factors(
    seed, lane, rows, first, KEYS: tl.constexpr, TRANSPOSED: tl.constexpr, threshold, scale
):  # fmt: skip
    """Dropout on pairs: factors of P of a tile of queries and keys, transposed where P is."""
    return dropout_tile(seed, rows, first, KEYS, TRANSPOSED, lane, 0, threshold, scale)


@inline
def pair_factor(seed, lane, queries, keys, threshold, scale):
    """The same at any broadcast positions, for four times the work."""
    return dropout_factor(seed, queries, keys, lane, 0, threshold, scale)


@inline
def key_factor(seed, lane, keys, SIZE: tl.constexpr, threshold, scale):
    """Dropout on (key, feature): factor of v * E."""
    features = tl.arange(0, SIZE)
    return dropout_factor(seed, keys[:, None], features[None, :], lane, 1, threshold, scale)
