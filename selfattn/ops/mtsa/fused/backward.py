# mypy: ignore-errors
"""Backward kernels: P and E are computed again, tile by tile; see this folder's README.

A weight is P * E / den with the maxima of forward, so that nothing here exceeds 1 where a query
sees a key, and the flags of forward say all there is to say about lost weights.
"""

from ...common.triton_tools import dot, inline, kernel, key_span, tl
from .tile import (
    feature_weight,
    key_factor,
    load_rows,
    nth_tile,
    operand,
    own_head,
    own_tile,
    pair_factor,
    real_keys,
    slope,
    store_rows,
    tile_span,
    token2token,
)


@kernel
def query_kernel(
    q_ptr, k_ptr, v_ptr, s_ptr, padding_ptr, bounds_ptr, left_ptr, right_ptr, seed_ptr,
    dnum_ptr, dden_ptr, row_max_ptr, shift_ptr, dq_ptr,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, s_b, s_h, s_t,
    heads, length, scale, gain, threshold, pair_scale,
    DK: tl.constexpr, DV: tl.constexpr, SK: tl.constexpr, SV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BF: tl.constexpr,
    HAS_PADDING: tl.constexpr, LOGSIGMOID: tl.constexpr, DROPOUT: tl.constexpr,
    HALF: tl.constexpr, SCORES: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """Gradient of q: one program for each query tile. BF is the query tile of forward."""
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

    row = lane.to(tl.int64) * length
    features = tl.arange(0, SV)
    q = load_rows(q_ptr, first, q_t, real_rows, BM, DK, SK, True)
    dnum = load_rows(dnum_ptr + row * DV, first, DV, real_rows, BM, DV, SV, True)
    dden = load_rows(dden_ptr + row * DV, first, DV, real_rows, BM, DV, SV, True)
    m = tl.load(row_max_ptr + row + rows, mask=real_rows, other=0.0)
    shift = shift_ptr + (lane.to(tl.int64) * tl.cdiv(length, BF) + first // BF) * DV
    c = tl.load(shift + features, mask=features < DV, other=0.0)
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
            s = load_rows(s_ptr, start, s_t, real, BN, DV, SV, MASKED).to(tl.float32)
            v = load_rows(v_ptr, start, v_t, real, BN, DV, SV, MASKED).to(tl.float32)
            x = dot(q, tl.trans(k), tl.zeros([BM, BN], tl.float32), SCORES) * scale  # eq. 8
            r = token2token(x, LOGSIGMOID)
            if MASKED:
                offset = keys[None, :] - rows[:, None]
                r = tl.where((offset >= left) & (offset <= right) & real[None, :], r, float("-inf"))
            p = tl.exp2(r - m[:, None])
            if LOGSIGMOID:  # at once, so that x is no longer needed
                p *= slope(x)
            e = feature_weight(s, c)
            u = v * e
            dp = tl.zeros([BM, BN], tl.float32)
            dp = dot(dnum, tl.trans(operand(u, HALF)), dp, PRODUCTS)  # gN (v * E)^T
            if DROPOUT:
                dp *= pair_factor(seed, lane, rows[:, None], keys[None, :], threshold, pair_scale)
            dp = dot(dden, tl.trans(operand(e, HALF)), dp, PRODUCTS)  # + gD E^T
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


@inline
def transposed_scores(
    k, q, keys, rows, real, real_rows, left, right, scale,
    BM: tl.constexpr, BN: tl.constexpr, LOGSIGMOID: tl.constexpr, MASKED: tl.constexpr,
    SCORES: tl.constexpr,
):  # fmt: skip
    """sigma_t(R) with keys as rows, -inf where hidden, and R itself, in units of log 2."""
    x = dot(k, tl.trans(q), tl.zeros([BN, BM], tl.float32), SCORES) * scale
    r = token2token(x, LOGSIGMOID)
    if MASKED:
        offset = keys[:, None] - rows[None, :]
        seen = (offset >= left) & (offset <= right) & real[:, None] & real_rows[None, :]
        r = tl.where(seen, r, float("-inf"))
    return r, x


@kernel
def key_kernel(
    q_ptr, k_ptr, v_ptr, s_ptr, padding_ptr, bounds_ptr, left_ptr, right_ptr, seed_ptr,
    dnum_ptr, dden_ptr, row_max_ptr, shift_ptr, dk_ptr,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, s_b, s_h, s_t,
    heads, length, scale, gain, threshold, pair_scale,
    DK: tl.constexpr, DV: tl.constexpr, SK: tl.constexpr, SV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BF: tl.constexpr, SC: tl.constexpr,
    HAS_PADDING: tl.constexpr, LOGSIGMOID: tl.constexpr, DROPOUT: tl.constexpr,
    HALF: tl.constexpr, SCORES: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """Gradient of k: one program a key tile, keys as rows, SC features at a time in registers."""
    lane, first = own_tile(length, BN)
    batch, b, h, q_ptr, k_ptr, v_ptr, s_ptr, left, right = own_head(
        lane, heads, q_ptr, k_ptr, v_ptr, s_ptr, left_ptr, right_ptr,
        q_b, q_h, k_b, k_h, v_b, v_h, s_b, s_h,
    )  # fmt: skip
    stop = tl.minimum(first + BN, length)
    keys = first + tl.arange(0, BN)
    real, t0, t1, w0, w1 = query_span(
        first, stop, left, right, length, keys, padding_ptr, batch, BM, HAS_PADDING
    )
    if DROPOUT:
        seed = tl.load(seed_ptr)
    row = lane.to(tl.int64) * length
    features = tl.arange(0, SC)
    k = load_rows(k_ptr, first, k_t, real, BN, DK, SK, True)
    dk = tl.zeros([BN, SK], tl.float32)
    for MASKED in tl.static_range(2):
        count = (t1 - t0) - (w1 - w0) if MASKED else w1 - w0
        for i in range(0, count):
            start = nth_tile(i, t0, w0, w1, MASKED) * BM
            rows = start + tl.arange(0, BM)
            real_rows = rows < length
            q = load_rows(q_ptr, start, q_t, real_rows, BM, DK, SK, MASKED)
            m = tl.load(row_max_ptr + row + rows, mask=real_rows, other=0.0)
            shift = shift_ptr + (lane.to(tl.int64) * tl.cdiv(length, BF) + start // BF) * DV
            r, x = transposed_scores(
                k, q, keys, rows, real, real_rows, left, right, scale,
                BM, BN, LOGSIGMOID, MASKED, SCORES,
            )  # fmt: skip
            p = tl.exp2(r - m[None, :])
            if LOGSIGMOID:
                p *= slope(x)
            dp = tl.zeros([BN, BM], tl.float32)
            dp_den = tl.zeros([BN, BM], tl.float32)
            # As real, but made of start: else s and v are loaded before the loop, and spill.
            here = real & (start + 0 * keys < length)
            for part in tl.static_range(SV // SC):
                at = part * SC
                there = features + at < DV
                c = tl.load(shift + at + features, mask=there, other=0.0)
                s = load_rows(s_ptr + at, first, s_t, here, BN, DV - part * SC, SC, True)
                v = load_rows(v_ptr + at, first, v_t, here, BN, DV - part * SC, SC, True)
                dnum_at, dden_at = dnum_ptr + row * DV + at, dden_ptr + row * DV + at
                dnum = load_rows(dnum_at, start, DV, real_rows, BM, DV - part * SC, SC, MASKED)
                dden = load_rows(dden_at, start, DV, real_rows, BM, DV - part * SC, SC, MASKED)
                e = feature_weight(s.to(tl.float32), c)
                u = v.to(tl.float32) * e
                dp = dot(operand(u, HALF), tl.trans(dnum), dp, PRODUCTS)
                if DROPOUT:
                    dp_den = dot(operand(e, HALF), tl.trans(dden), dp_den, PRODUCTS)
                else:
                    dp = dot(operand(e, HALF), tl.trans(dden), dp, PRODUCTS)
            if DROPOUT:
                dp *= pair_factor(seed, lane, rows[None, :], keys[:, None], threshold, pair_scale)
                dp += dp_den
            dk = dot(operand(p * dp, HALF), q, dk, PRODUCTS)
    dk_ptr += b * length * heads * DK + h * DK
    store_rows(dk_ptr, first, heads * DK, keys < length, dk * gain, BN, DK, SK)


@kernel
def value_kernel(
    q_ptr, k_ptr, v_ptr, s_ptr, padding_ptr, bounds_ptr, left_ptr, right_ptr, seed_ptr,
    dnum_ptr, dden_ptr, row_max_ptr, shift_ptr, dv_ptr, ds_ptr,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, s_b, s_h, s_t,
    heads, length, scale, gain, threshold, pair_scale,
    DK: tl.constexpr, DV: tl.constexpr, SK: tl.constexpr, SV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BF: tl.constexpr,
    HAS_PADDING: tl.constexpr, LOGSIGMOID: tl.constexpr, DROPOUT: tl.constexpr,
    HALF: tl.constexpr, SCORES: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """Gradients of v and s: one program for each key tile, with keys as rows."""
    lane, first = own_tile(length, BN)
    batch, b, h, q_ptr, k_ptr, v_ptr, s_ptr, left, right = own_head(
        lane, heads, q_ptr, k_ptr, v_ptr, s_ptr, left_ptr, right_ptr,
        q_b, q_h, k_b, k_h, v_b, v_h, s_b, s_h,
    )  # fmt: skip
    stop = tl.minimum(first + BN, length)
    keys = first + tl.arange(0, BN)
    real, t0, t1, w0, w1 = query_span(
        first, stop, left, right, length, keys, padding_ptr, batch, BM, HAS_PADDING
    )
    if DROPOUT:
        seed = tl.load(seed_ptr)
    row = lane.to(tl.int64) * length
    features = tl.arange(0, SV)
    k = load_rows(k_ptr, first, k_t, real, BN, DK, SK, True)
    s = load_rows(s_ptr, first, s_t, real, BN, DV, SV, True)
    dv = tl.zeros([BN, SV], tl.float32)
    ds = tl.zeros([BN, SV], tl.float32)
    zero = tl.zeros([BN, SV], tl.float32)
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
            shift = shift_ptr + (lane.to(tl.int64) * tl.cdiv(length, BF) + start // BF) * DV
            c = tl.load(shift + features, mask=features < DV, other=0.0)
            r, x = transposed_scores(
                k, q, keys, rows, real, real_rows, left, right, scale,
                BM, BN, LOGSIGMOID, MASKED, SCORES,
            )  # fmt: skip
            p = tl.exp2(r - m[None, :])
            e = feature_weight(s.to(tl.float32), c)
            ds += e * dot(operand(p, HALF), dden, zero, PRODUCTS)  # E * P^T gD
            if DROPOUT:
                p *= pair_factor(seed, lane, rows[None, :], keys[:, None], threshold, pair_scale)
            dv += e * dot(operand(p, HALF), dnum, zero, PRODUCTS)  # E * P^T gN
    v = load_rows(v_ptr, first, v_t, real, BN, DV, SV, True)
    ds += dv * v.to(tl.float32)
    if DROPOUT:
        dv *= key_factor(seed, lane, keys, SV, threshold, 1.0)
    out = b * length * heads * DV + h * DV
    store_rows(dv_ptr + out, first, heads * DV, keys < length, dv, BN, DV, SV)
    store_rows(ds_ptr + out, first, heads * DV, keys < length, ds, BN, DV, SV)
