# mypy: ignore-errors
"""Backward kernels: P is computed again, tile by tile; see this folder's README.

A weight is P * E / den with the maxima of forward, so that nothing here exceeds 1 where a query
sees a key, and the flags of forward say all there is to say about lost weights.
"""

from ...common.triton_tools import LOG2E, dot, inline, kernel, key_span, narrow, tl
from .tile import (
    key_factor,
    load_rows,
    nth_tile,
    operand,
    own_head,
    own_tile,
    pair_factors,
    pair_weights,
    real_keys,
    slope,
    store_rows,
    tile_span,
)


@kernel
def query_kernel(
    q_ptr, k_ptr, e_ptr, u_ptr, padding_ptr, bounds_ptr, left_ptr, right_ptr, seed_ptr,
    g_ptr, out_ptr, den_ptr, row_max_ptr, flag_ptr, dnum_ptr, dden_ptr, dq_ptr,
    q_b, q_h, q_t, k_b, k_h, k_t, g_b, g_h, g_t,
    heads, length, scale, gain, threshold, pair_scale,
    DK: tl.constexpr, DV: tl.constexpr, SK: tl.constexpr, SV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BF: tl.constexpr,
    HAS_PADDING: tl.constexpr, LOGSIGMOID: tl.constexpr, DROPOUT: tl.constexpr,
    HALF: tl.constexpr, SCORES: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """Gradients of q, and of numerator and denominator: dN = G / den and dD = -dN * H.

    One program for each query tile. The latter are 0 where the fast kernels have nothing to add:
    queries without a visible key, and tiles that exact.py computes. BF: queries of a flag.
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
    m = tl.load(row_max_ptr + row + rows, mask=real_rows, other=0.0)
    flag = tl.load(flag_ptr + lane * tl.cdiv(length, BF) + first // BF)
    use = (real_rows & (m > -1e29) & (flag == 0))[:, None]
    grad = load_rows(g_ptr + b * g_b + h * g_h, first, g_t, real_rows, BM, DV, SV, True)
    whole = b * length * heads * DV + h * DV
    out = load_rows(out_ptr + whole, first, heads * DV, real_rows, BM, DV, SV, True).to(tl.float32)
    den = load_rows(den_ptr + row * DV, first, DV, real_rows, BM, DV, SV, True)
    dnum = tl.where(use, grad.to(tl.float32) / tl.where(use & (den != 0.0), den, 1.0), 0.0)
    # From the rounded dN: its error then meets v - H, and not v and H apart.
    dnum = narrow(dnum, dnum_ptr.dtype.element_ty).to(tl.float32)
    dden = tl.where(use, -dnum * out, 0.0)
    store_rows(dnum_ptr + row * DV, first, DV, real_rows, dnum, BM, DV, SV)
    store_rows(dden_ptr + row * DV, first, DV, real_rows, dden, BM, DV, SV)
    dnum, dden = operand(dnum, HALF), operand(dden, HALF)

    q = load_rows(q_ptr, first, q_t, real_rows, BM, DK, SK, True)
    dq = tl.zeros([BM, SK], tl.float32)
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
                x = tl.where((offset >= left) & (offset <= right) & real[None, :], x, float("-inf"))
            p = pair_weights(x, m[:, None], scale, LOGSIGMOID)
            dp = dot(dnum, tl.trans(u), tl.zeros([BM, BN], tl.float32), PRODUCTS)  # gN (v * E)^T
            if DROPOUT:
                dp *= pair_factors(seed, lane, rows, start, BN, False, threshold, pair_scale)
            dp = dot(dden, tl.trans(e), dp, PRODUCTS)  # + gD E^T
            if LOGSIGMOID:
                p *= slope(x, p, scale)
            dq = dot(operand(p * dp, HALF), k, dq, PRODUCTS)  # through eq. 8
    dq_ptr += b * length * heads * DK + h * DK
    store_rows(dq_ptr, first, heads * DK, real_rows, dq * gain, BM, DK, SK)


@inline
def query_span(
    first, stop, left, right, length, keys, padding_ptr, batch,
    BM: tl.constexpr, HAS_PADDING: tl.constexpr,
):  # fmt: skip
    """Which of these keys are real, and the query tiles that see them: touched and whole.

    The queries of a key are the keys of a query under the reversed offsets.
    """
    real = real_keys(keys, padding_ptr, batch, length, HAS_PADDING)
    lo, hi, all_lo, all_hi = key_span(first, stop, -right, -left, length, None, batch, False)
    some = tl.max(real.to(tl.int32), 0)
    whole = tl.min(real.to(tl.int32), 0)  # else every query tile needs the mask
    t0, t1, w0, w1 = tile_span(
        lo, tl.where(some != 0, hi, lo), all_lo, tl.where(whole != 0, all_hi, 0), BM
    )
    return real, t0, t1, w0, w1


@kernel
def key_kernel(
    q_ptr, k_ptr, v_ptr, s_ptr, e_ptr, u_ptr, padding_ptr, left_ptr, right_ptr, seed_ptr,
    dnum_ptr, dden_ptr, row_max_ptr, shift_ptr, dk_ptr, dv_ptr, ds_ptr,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, s_b, s_h, s_t,
    heads, length, scale, gain, threshold, pair_scale,
    DK: tl.constexpr, DV: tl.constexpr, SK: tl.constexpr, SV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
    HAS_PADDING: tl.constexpr, LOGSIGMOID: tl.constexpr, DROPOUT: tl.constexpr,
    HALF: tl.constexpr, SCORES: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """Gradients of k, v and s: one program for each key tile, with keys as rows."""
    lane, first = own_tile(length, BN)
    batch, b, h, q_ptr, k_ptr, left, right = own_head(
        lane, heads, q_ptr, k_ptr, left_ptr, right_ptr, q_b, q_h, k_b, k_h
    )
    stop = tl.minimum(first + BN, length)
    keys = first + tl.arange(0, BN)
    exist = keys < length
    real, t0, t1, w0, w1 = query_span(
        first, stop, left, right, length, keys, padding_ptr, batch, BM, HAS_PADDING
    )
    if DROPOUT:
        seed = tl.load(seed_ptr)
    row = lane.to(tl.int64) * length
    k = load_rows(k_ptr, first, k_t, real, BN, DK, SK, True)
    e = load_rows(e_ptr + row * DV, first, DV, real, BN, DV, SV, True)
    u = load_rows(u_ptr + row * DV, first, DV, real, BN, DV, SV, True)
    dk = tl.zeros([BN, SK], tl.float32)
    du = tl.zeros([BN, SV], tl.float32)
    de = tl.zeros([BN, SV], tl.float32)
    for MASKED in tl.static_range(2):
        count = (t1 - t0) - (w1 - w0) if MASKED else w1 - w0
        for i in range(0, count):
            start = nth_tile(i, t0, w0, w1, MASKED) * BM
            rows = start + tl.arange(0, BM)
            real_rows = rows < length
            q = load_rows(q_ptr, start, q_t, real_rows, BM, DK, SK, MASKED)
            dnum = load_rows(dnum_ptr + row * DV, start, DV, real_rows, BM, DV, SV, MASKED)
            dden = load_rows(dden_ptr + row * DV, start, DV, real_rows, BM, DV, SV, MASKED)
            m = tl.load(row_max_ptr + row + rows, mask=real_rows, other=0.0)
            x = dot(k, tl.trans(q), tl.zeros([BN, BM], tl.float32), SCORES)  # eq. 8
            if MASKED:
                offset = keys[:, None] - rows[None, :]
                seen = (offset >= left) & (offset <= right) & real[:, None] & real_rows[None, :]
                x = tl.where(seen, x, float("-inf"))
            p = pair_weights(x, m[None, :], scale, LOGSIGMOID)
            de = dot(operand(p, HALF), dden, de, PRODUCTS)  # P^T gD
            dp = dot(u, tl.trans(dnum), tl.zeros([BN, BM], tl.float32), PRODUCTS)
            if DROPOUT:
                kept = pair_factors(seed, lane, rows, first, BN, True, threshold, pair_scale)
                du = dot(operand(p * kept, HALF), dnum, du, PRODUCTS)  # P^T gN
                dp *= kept
            else:
                du = dot(operand(p, HALF), dnum, du, PRODUCTS)
            dp = dot(e, tl.trans(dden), dp, PRODUCTS)
            if LOGSIGMOID:
                p *= slope(x, p, scale)
            dk = dot(operand(p * dp, HALF), q, dk, PRODUCTS)
    dk_ptr += b * length * heads * DK + h * DK
    store_rows(dk_ptr, first, heads * DK, exist, dk * gain, BN, DK, SK)

    # Not e and u, which are rounded.
    features = tl.arange(0, SV)
    c = tl.load(shift_ptr + lane.to(tl.int64) * DV + features, mask=features < DV, other=0.0)
    s = load_rows(s_ptr + b * s_b + h * s_h, first, s_t, real, BN, DV, SV, True).to(tl.float32)
    v = load_rows(v_ptr + b * v_b + h * v_h, first, v_t, real, BN, DV, SV, True).to(tl.float32)
    weight = tl.where(real[:, None], tl.exp2((s - c[None, :]) * LOG2E), 0.0)
    du *= weight
    if DROPOUT:
        du *= key_factor(seed, lane, keys, SV, threshold, 1.0)
    ds = v * du + weight * de
    out = b * length * heads * DV + h * DV
    store_rows(dv_ptr + out, first, heads * DV, exist, du, BN, DV, SV)
    store_rows(ds_ptr + out, first, heads * DV, exist, ds, BN, DV, SV)
