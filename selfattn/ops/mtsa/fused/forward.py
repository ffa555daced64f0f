# mypy: ignore-errors
"""Forward kernel: one program for each query tile, one pass over the key tiles it sees."""

from ...common.triton_tools import LOG2E, at_least, dot, kernel, key_span, tl
from .tile import (
    load_rows,
    nth_tile,
    operand,
    own_head,
    own_tile,
    pair_factor,
    real_keys,
    store_rows,
    tile_span,
    token2token,
)


@kernel
def forward_kernel(
    q_ptr, k_ptr, v_ptr, s_ptr, padding_ptr, bounds_ptr, left_ptr, right_ptr, seed_ptr,
    out_ptr, den_ptr, row_max_ptr, shift_ptr, flag_ptr,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, s_b, s_h, s_t,
    heads, length, scale, threshold, pair_scale,
    DK: tl.constexpr, DV: tl.constexpr, SK: tl.constexpr, SV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
    HAS_PADDING: tl.constexpr, LOGSIGMOID: tl.constexpr, DROPOUT: tl.constexpr,
    SAVE: tl.constexpr, HALF: tl.constexpr, SCORES: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """H, its denominators and the two maxima they refer to; see this folder's README.

    DK, DV: head widths. SK, SV: the same, rounded up to a power of two. SCORES, PRODUCTS: precision
    of q k^T and of the products with P.
    """
    lane, first = own_tile(length, BM)
    batch, b, h, q_ptr, k_ptr, v_ptr, s_ptr, left, right = own_head(
        lane, heads, q_ptr, k_ptr, v_ptr, s_ptr, left_ptr, right_ptr,
        q_b, q_h, k_b, k_h, v_b, v_h, s_b, s_h,
    )  # fmt: skip
    stop = tl.minimum(first + BM, length)
    rows = first + tl.arange(0, BM)
    real_rows = rows < length
    lo, hi, all_lo, all_hi = key_span(
        first, stop, left, right, length, bounds_ptr, batch, HAS_PADDING
    )
    t0, t1, w0, w1 = tile_span(lo, hi, all_lo, all_hi, BN)
    if DROPOUT:
        seed = tl.load(seed_ptr)

    q = load_rows(q_ptr, first, q_t, real_rows, BM, DK, SK, True)
    num = tl.zeros([BM, SV], tl.float32)
    den = tl.zeros([BM, SV], tl.float32)
    m = tl.full([BM], -1e30, tl.float32)  # maximum over the keys, for each query
    c = tl.full([SV], -1e30, tl.float32)  # maximum over the keys, for each feature
    for MASKED in tl.static_range(2):
        count = (t1 - t0) - (w1 - w0) if MASKED else w1 - w0
        for i in range(0, count):
            start = nth_tile(i, t0, w0, w1, MASKED) * BN
            keys = start + tl.arange(0, BN)
            real = keys < length
            if MASKED:
                real = real_keys(keys, padding_ptr, batch, length, HAS_PADDING)
            k = load_rows(k_ptr, start, k_t, real, BN, DK, SK, MASKED)
            s = load_rows(s_ptr, start, s_t, real, BN, DV, SV, MASKED).to(tl.float32)
            v = load_rows(v_ptr, start, v_t, real, BN, DV, SV, MASKED).to(tl.float32)
            x = dot(q, tl.trans(k), tl.zeros([BM, BN], tl.float32), SCORES) * scale  # eq. 8
            r = token2token(x, LOGSIGMOID)
            if MASKED:
                offset = keys[None, :] - rows[:, None]
                r = tl.where((offset >= left) & (offset <= right) & real[None, :], r, float("-inf"))
                # A key that no query of the tile sees must not set the maximum of a feature.
                seen = real & (keys >= lo) & (keys < hi)
                s = tl.where(seen[:, None], s, float("-inf"))
            # tl.max prefers -inf to NaN, and a query of only these would be one that sees nothing.
            m_new = at_least(m, tl.max(tl.where(r == r, r, float("inf")) if MASKED else r, 1))
            c_new = tl.maximum(c, tl.max(s, 0))
            p = tl.exp2(r - m_new[:, None])
            e = tl.exp2((s - c_new[None, :]) * LOG2E)
            u = v * e
            row_scale = tl.exp2(m - m_new)[:, None]
            feature_scale = tl.exp2((c - c_new) * LOG2E)[None, :]
            # In two steps: the product of the two would fill the registers.
            den = den * row_scale * feature_scale
            num = num * row_scale * feature_scale
            den = dot(operand(p, HALF), operand(e, HALF), den, PRODUCTS)  # Algorithm 1
            if DROPOUT:
                p *= pair_factor(seed, lane, rows[:, None], keys[None, :], threshold, pair_scale)
            num = dot(operand(p, HALF), operand(u, HALF), num, PRODUCTS)
            m, c = m_new, c_new

    # A live row whose denominator is this small has lost weights on the way: exact.py redoes it.
    features = tl.arange(0, SV)
    live = ~(m <= -1e29) & real_rows
    lost = live[:, None] & (features < DV)[None, :] & ~(den >= 8.3e-25)  # 2^-80
    tile = tl.program_id(0)  # of all lanes
    tl.store(flag_ptr + tile, tl.max(tl.max(lost.to(tl.int32), 1), 0))
    den = tl.where(live[:, None], den, 1.0)
    out = tl.where(live[:, None], num / den, 0.0)
    out_ptr += b * length * heads * DV + h * DV
    store_rows(out_ptr, first, heads * DV, real_rows, out, BM, DV, SV)
    if SAVE:
        row = lane.to(tl.int64) * length
        store_rows(den_ptr + row * DV, first, DV, real_rows, den, BM, DV, SV)
        tl.store(row_max_ptr + row + rows, m, mask=real_rows)
        tl.store(shift_ptr + tile.to(tl.int64) * DV + features, c, mask=features < DV)
