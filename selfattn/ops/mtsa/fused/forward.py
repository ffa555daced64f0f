# mypy: ignore-errors
"""Forward kernel: one program for each query tile, one pass over the key tiles it sees."""

from ...common.triton_tools import at_least, dot, kernel, key_span, tl
from .tile import (
    load_rows,
    nth_tile,
    operand,
    own_head,
    own_tile,
    pair_factors,
    pair_weights,
    real_keys,
    store_rows,
    tile_span,
)


@kernel
def forward_kernel(
    q_ptr, k_ptr, e_ptr, u_ptr, padding_ptr, bounds_ptr, left_ptr, right_ptr, seed_ptr,
    out_ptr, den_ptr, row_max_ptr, flag_ptr,
    q_b, q_h, q_t, k_b, k_h, k_t,
    heads, length, scale, threshold, pair_scale,
    DK: tl.constexpr, DV: tl.constexpr, SK: tl.constexpr, SV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BF: tl.constexpr,
    HAS_PADDING: tl.constexpr, LOGSIGMOID: tl.constexpr, DROPOUT: tl.constexpr,
    SAVE: tl.constexpr, HALF: tl.constexpr, SCORES: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """H, its denominators and the maxima they refer to; see this folder's README.

    DK, DV: head widths. SK, SV: the same, rounded up to a power of two. BF: queries of a flag.
    SCORES, PRODUCTS: precision of q k^T and of the products with P.
    """
    lane, first = own_tile(length, BM)
    batch, b, h, q_ptr, k_ptr, left, right = own_head(
        lane, heads, q_ptr, k_ptr, left_ptr, right_ptr, q_b, q_h, k_b, k_h
    )
    stop = tl.minimum(first + BM, length)
    rows = first + tl.arange(0, BM)
    real_rows = rows < length
    lo, hi, all_lo, all_hi = key_span(
        first, stop, left, right, length, bounds_ptr, batch, HAS_PADDING
    )
    t0, t1, w0, w1 = tile_span(lo, hi, all_lo, all_hi, BN)
    if DROPOUT:
        seed = tl.load(seed_ptr)

    row = lane.to(tl.int64) * length
    q = load_rows(q_ptr, first, q_t, real_rows, BM, DK, SK, True)
    num = tl.zeros([BM, SV], tl.float32)
    den = tl.zeros([BM, SV], tl.float32)
    m = tl.full([BM], -1e30, tl.float32)  # maximum over the keys, for each query
    for MASKED in tl.static_range(2):
        count = (t1 - t0) - (w1 - w0) if MASKED else w1 - w0
        for i in range(0, count):
            start = nth_tile(i, t0, w0, w1, MASKED) * BN
            keys = start + tl.arange(0, BN)
            real = keys < length
            if MASKED:
                real = real_keys(keys, padding_ptr, batch, length, HAS_PADDING)
            k = load_rows(k_ptr, start, k_t, real, BN, DK, SK, MASKED)
            e = load_rows(e_ptr + row * DV, start, DV, real, BN, DV, SV, MASKED)
            u = load_rows(u_ptr + row * DV, start, DV, real, BN, DV, SV, MASKED)
            x = dot(q, tl.trans(k), tl.zeros([BM, BN], tl.float32), SCORES)  # eq. 8
            if MASKED:
                offset = keys[None, :] - rows[:, None]
                seen = (offset >= left) & (offset <= right) & real[None, :]
                x = tl.where(seen, x, float("-inf"))
            if LOGSIGMOID:  # m only says which queries see a key
                m_new = tl.maximum(m, tl.max(tl.where(seen, 0.0, -1e30), 1)) if MASKED else m * 0.0
            else:
                # tl.max prefers -inf to NaN, and a query of only these would seem to see nothing.
                top = tl.max(tl.where(x == x, x, float("inf")) if MASKED else x, 1)
                m_new = at_least(m, top * scale)
                row_scale = tl.exp2(m - m_new)[:, None]
                den *= row_scale
                num *= row_scale
            p = pair_weights(x, m_new[:, None], scale, LOGSIGMOID)
            den = dot(operand(p, HALF), e, den, PRODUCTS)  # Algorithm 1
            if DROPOUT:
                p *= pair_factors(seed, lane, rows, start, BN, False, threshold, pair_scale)
            num = dot(operand(p, HALF), u, num, PRODUCTS)
            m = m_new

    # A live row whose denominator is this small has lost weights on the way: exact.py redoes it,
    # and the others of its flag.
    features = tl.arange(0, SV)
    live = ~(m <= -1e29) & real_rows
    lost = live[:, None] & (features < DV)[None, :] & ~(den >= 8.3e-25)  # 2^-80
    if tl.max(tl.max(lost.to(tl.int32), 1), 0) != 0:
        tl.store(flag_ptr + lane * tl.cdiv(length, BF) + first // BF, 1)
    den = tl.where(live[:, None], den, 1.0)
    out = tl.where(live[:, None], num / den, 0.0)
    out_ptr += b * length * heads * DV + h * DV
    store_rows(out_ptr, first, heads * DV, real_rows, out, BM, DV, SV)
    if SAVE:
        store_rows(den_ptr + row * DV, first, DV, real_rows, den, BM, DV, SV)
        tl.store(row_max_ptr + row + rows, m, mask=real_rows)
