# mypy: ignore-errors
"""Exact kernels for flagged tiles: a softmax for each query and feature, nothing factorised.

They run after the fast kernels, a program for each tile of flags, and return at once where none is
set, so that the host never waits for a flag. Where one is, the program takes a few rows at a time.
In a flagged tile ``den`` holds the logarithm of the normaliser.
"""

from ...common.triton_tools import LOG2E, inline, kernel, key_span, tl
from .tile import (
    key_factor,
    load_rows,
    own_head,
    own_tile,
    pair_factor,
    real_keys,
    store_rows,
)


@inline
def token2token(x, LOGSIGMOID: tl.constexpr):
    """sigma_t of eq. 10; x and the result are in units of log 2."""
    if LOGSIGMOID:
        return tl.minimum(x, 0.0) - tl.log2(1.0 + tl.exp2(-tl.abs(x)))
    else:
        return x


@inline
def exact_slope(x):
    """Derivative of the log-sigmoid, sigmoid(-x), without overflow for any x (units of log 2)."""
    small = tl.exp2(-tl.abs(x))
    return tl.where(x >= 0.0, small, 1.0) / (1.0 + small)


@inline
def pair_scores(q, k, rows, keys, real, left, right, scale, LOGSIGMOID: tl.constexpr):
    """sigma_t(R) of eq. 10 in units of log 2, -inf where hidden, and R itself; [query, key]."""
    x = tl.sum(q[:, None, :] * k[None, :, :], 2) * scale  # eq. 8
    offset = keys[None, :] - rows[:, None]
    seen = (offset >= left) & (offset <= right) & real[None, :]
    return tl.where(seen, token2token(x, LOGSIGMOID), float("-inf")), x


@inline
def seen_weights(z, r):
    """2^z where r is a score; a hidden key's s may be infinitely far from the others."""
    return tl.where((r == float("-inf"))[:, :, None], 0.0, tl.exp2(z))


@kernel
def exact_forward_kernel(
    q_ptr, k_ptr, v_ptr, s_ptr, padding_ptr, bounds_ptr, left_ptr, right_ptr, seed_ptr,
    out_ptr, den_ptr, row_max_ptr, flag_ptr,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, s_b, s_h, s_t,
    heads, length, scale, threshold, pair_scale,
    DK: tl.constexpr, DV: tl.constexpr, SK: tl.constexpr, SV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BF: tl.constexpr,
    HAS_PADDING: tl.constexpr, LOGSIGMOID: tl.constexpr, DROPOUT: tl.constexpr,
    SAVE: tl.constexpr,
):  # fmt: skip
    """Forward, two passes over the keys: the maximum for each query and feature, then the sums."""
    lane, begin = own_tile(length, BF)
    if tl.load(flag_ptr + lane * tl.cdiv(length, BF) + begin // BF) == 0:
        return
    batch, b, h, q_ptr, k_ptr, left, right = own_head(
        lane, heads, q_ptr, k_ptr, left_ptr, right_ptr, q_b, q_h, k_b, k_h
    )
    v_ptr += b * v_b + h * v_h
    s_ptr += b * s_b + h * s_h
    out_ptr += b * length * heads * DV + h * DV
    row = lane.to(tl.int64) * length
    seed = tl.load(seed_ptr) if DROPOUT else 0
    for first in range(begin, tl.minimum(begin + BF, length), BM):
        stop = tl.minimum(first + BM, length)
        rows = first + tl.arange(0, BM)
        real_rows = rows < length
        lo, hi, _, _ = key_span(first, stop, left, right, length, bounds_ptr, batch, HAS_PADDING)
        q = load_rows(q_ptr, first, q_t, real_rows, BM, DK, SK, True).to(tl.float32)

        m = tl.full([BM], -1e30, tl.float32)
        y = tl.full([BM, SV], float("-inf"), tl.float32)
        for start in range(lo, hi, BN):
            keys = start + tl.arange(0, BN)
            real = real_keys(keys, padding_ptr, batch, length, HAS_PADDING)
            k = load_rows(k_ptr, start, k_t, real, BN, DK, SK, True).to(tl.float32)
            s = load_rows(s_ptr, start, s_t, real, BN, DV, SV, True).to(tl.float32)
            r, x = pair_scores(q, k, rows, keys, real, left, right, scale, LOGSIGMOID)
            m = tl.maximum(m, tl.max(tl.where(r == r, r, float("inf")), 1))  # as in forward.py
            y = tl.maximum(y, tl.max((r / LOG2E)[:, :, None] + s[None, :, :], 1))
        live = (m > -1e29) & real_rows
        # y becomes a score that a key at the maximum has beside the row maximum, in natural units.
        y = tl.where(live[:, None], y - (m / LOG2E)[:, None], 0.0)

        num = tl.zeros([BM, SV], tl.float32)
        den = tl.zeros([BM, SV], tl.float32)
        for start in range(lo, hi, BN):
            keys = start + tl.arange(0, BN)
            real = real_keys(keys, padding_ptr, batch, length, HAS_PADDING)
            k = load_rows(k_ptr, start, k_t, real, BN, DK, SK, True).to(tl.float32)
            s = load_rows(s_ptr, start, s_t, real, BN, DV, SV, True).to(tl.float32)
            v = load_rows(v_ptr, start, v_t, real, BN, DV, SV, True).to(tl.float32)
            if DROPOUT:
                v *= key_factor(seed, lane, keys, SV, threshold, 1.0)
            r, x = pair_scores(q, k, rows, keys, real, left, right, scale, LOGSIGMOID)
            z = (r - m[:, None])[:, :, None] + (s[None, :, :] - y[:, None, :]) * LOG2E
            w = seen_weights(z, r)  # eq. 11, before the division
            den += tl.sum(w, 1)
            if DROPOUT:
                pair = pair_factor(seed, lane, rows[:, None], keys[None, :], threshold, pair_scale)
                w *= pair[:, :, None]
            num += tl.sum(w * v[None, :, :], 1)
        den = tl.where(live[:, None], den, 1.0)
        out = tl.where(live[:, None], num / den, 0.0)  # eq. 12
        store_rows(out_ptr, first, heads * DV, real_rows, out, BM, DV, SV)
        if SAVE:
            log_den = y + tl.log2(den) / LOG2E
            store_rows(den_ptr + row * DV, first, DV, real_rows, log_den, BM, DV, SV)
            tl.store(row_max_ptr + row + rows, m, mask=real_rows)


@inline
def exact_pair(
    q, k, v, s, grad, out, log_den, m, rows, keys, real, left, right, scale,
    seed, lane, threshold, pair_scale,
    SV: tl.constexpr, LOGSIGMOID: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """Gradients at each pair: of R [query, key], and of v and s [query, key, feature]."""
    r, x = pair_scores(q, k, rows, keys, real, left, right, scale, LOGSIGMOID)
    z = (r - m[:, None])[:, :, None] + (s[None, :, :] - log_den[:, None, :]) * LOG2E
    weighted = seen_weights(z, r) * grad[:, None, :]  # p G
    kept = weighted
    if DROPOUT:
        pair = pair_factor(seed, lane, rows[:, None], keys[None, :], threshold, pair_scale)
        kept *= pair[:, :, None]
    ds = kept * v[None, :, :] - weighted * out[:, None, :]
    dr = tl.sum(ds, 2)
    if LOGSIGMOID:
        dr *= exact_slope(x)
    return dr, kept, ds


@kernel
def exact_query_kernel(
    q_ptr, k_ptr, v_ptr, s_ptr, padding_ptr, bounds_ptr, left_ptr, right_ptr, seed_ptr,
    g_ptr, out_ptr, den_ptr, row_max_ptr, flag_ptr, dq_ptr,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, s_b, s_h, s_t, g_b, g_h, g_t,
    heads, length, scale, gain, threshold, pair_scale,
    DK: tl.constexpr, DV: tl.constexpr, SK: tl.constexpr, SV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BF: tl.constexpr,
    HAS_PADDING: tl.constexpr, LOGSIGMOID: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """Gradient of q for the rows of flagged tiles, instead of what the fast kernel wrote."""
    lane, begin = own_tile(length, BF)
    if tl.load(flag_ptr + lane * tl.cdiv(length, BF) + begin // BF) == 0:
        return
    batch, b, h, q_ptr, k_ptr, left, right = own_head(
        lane, heads, q_ptr, k_ptr, left_ptr, right_ptr, q_b, q_h, k_b, k_h
    )
    v_ptr += b * v_b + h * v_h
    s_ptr += b * s_b + h * s_h
    seed = tl.load(seed_ptr) if DROPOUT else 0
    row = lane.to(tl.int64) * length
    whole = b * length * heads * DV + h * DV
    dq_ptr += b * length * heads * DK + h * DK
    for first in range(begin, tl.minimum(begin + BF, length), BM):
        stop = tl.minimum(first + BM, length)
        rows = first + tl.arange(0, BM)
        real_rows = rows < length
        lo, hi, _, _ = key_span(first, stop, left, right, length, bounds_ptr, batch, HAS_PADDING)
        q = load_rows(q_ptr, first, q_t, real_rows, BM, DK, SK, True).to(tl.float32)
        grad = load_rows(g_ptr + b * g_b + h * g_h, first, g_t, real_rows, BM, DV, SV, True)
        grad = grad.to(tl.float32)
        out = load_rows(out_ptr + whole, first, heads * DV, real_rows, BM, DV, SV, True)
        log_den = load_rows(den_ptr + row * DV, first, DV, real_rows, BM, DV, SV, True)
        m = tl.load(row_max_ptr + row + rows, mask=real_rows, other=float("inf"))
        # Summed over the keys of a step at the end: within the loop, Triton 3.6 would make it a
        # matrix product in tf32, and a wrong one of as few keys.
        dq = tl.zeros([BM, BN, SK], tl.float32)
        for start in range(lo, hi, BN):
            keys = start + tl.arange(0, BN)
            real = real_keys(keys, padding_ptr, batch, length, HAS_PADDING)
            k = load_rows(k_ptr, start, k_t, real, BN, DK, SK, True).to(tl.float32)
            s = load_rows(s_ptr, start, s_t, real, BN, DV, SV, True).to(tl.float32)
            v = load_rows(v_ptr, start, v_t, real, BN, DV, SV, True).to(tl.float32)
            if DROPOUT:
                v *= key_factor(seed, lane, keys, SV, threshold, 1.0)
            dr, dv_pair, ds_pair = exact_pair(
                q, k, v, s, grad, out.to(tl.float32), log_den, m, rows, keys, real, left, right,
                scale, seed, lane, threshold, pair_scale, SV, LOGSIGMOID, DROPOUT,
            )  # fmt: skip
            dq += dr[:, :, None] * k[None, :, :]
        store_rows(dq_ptr, first, heads * DK, real_rows, tl.sum(dq, 1) * gain, BM, DK, SK)


@kernel
def exact_key_kernel(
    q_ptr, k_ptr, v_ptr, s_ptr, padding_ptr, bounds_ptr, left_ptr, right_ptr, seed_ptr,
    g_ptr, out_ptr, den_ptr, row_max_ptr, flag_ptr, dk_ptr, dv_ptr, ds_ptr,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, s_b, s_h, s_t, g_b, g_h, g_t,
    heads, length, scale, gain, threshold, pair_scale,
    DK: tl.constexpr, DV: tl.constexpr, SK: tl.constexpr, SV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BF: tl.constexpr,
    HAS_PADDING: tl.constexpr, LOGSIGMOID: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """Adds to the gradients of k, v and s what the queries of flagged tiles contribute."""
    lane, begin = own_tile(length, BF)
    batch, b, h, q_ptr, k_ptr, left, right = own_head(
        lane, heads, q_ptr, k_ptr, left_ptr, right_ptr, q_b, q_h, k_b, k_h
    )
    v_ptr += b * v_b + h * v_h
    s_ptr += b * s_b + h * s_h
    end = tl.minimum(begin + BF, length)
    lo, hi, _, _ = key_span(begin, end, -right, -left, length, bounds_ptr, batch, False)
    flags = flag_ptr + lane * tl.cdiv(length, BF)
    tile0, tile1 = lo // BF, tl.cdiv(tl.maximum(hi, lo), BF)
    flagged = 0
    for start in range(tile0, tile1, 64):
        some = start + tl.arange(0, 64)
        flagged = tl.maximum(flagged, tl.max(tl.load(flags + some, some < tile1, other=0), 0))
    if flagged == 0:
        return
    g_ptr += b * g_b + h * g_h
    seed = tl.load(seed_ptr) if DROPOUT else 0
    row = lane.to(tl.int64) * length
    whole = b * length * heads * DV + h * DV
    dk_ptr += b * length * heads * DK + h * DK
    for first in range(begin, end, BN):
        keys = first + tl.arange(0, BN)
        exist = keys < length
        real = real_keys(keys, padding_ptr, batch, length, HAS_PADDING)
        k = load_rows(k_ptr, first, k_t, real, BN, DK, SK, True).to(tl.float32)
        s = load_rows(s_ptr, first, s_t, real, BN, DV, SV, True).to(tl.float32)
        v = load_rows(v_ptr, first, v_t, real, BN, DV, SV, True).to(tl.float32)
        if DROPOUT:
            v *= key_factor(seed, lane, keys, SV, threshold, 1.0)
        dk = tl.zeros([BN, SK], tl.float32)
        dv = tl.zeros([BN, SV], tl.float32)
        ds = tl.zeros([BN, SV], tl.float32)
        for tile in range(tile0, tile1):
            if tl.load(flags + tile) != 0:
                for start in range(tile * BF, tl.minimum(tile * BF + BF, length), BM):
                    rows = start + tl.arange(0, BM)
                    there = rows < length
                    q = load_rows(q_ptr, start, q_t, there, BM, DK, SK, True).to(tl.float32)
                    grad = load_rows(g_ptr, start, g_t, there, BM, DV, SV, True).to(tl.float32)
                    out = load_rows(out_ptr + whole, start, heads * DV, there, BM, DV, SV, True)
                    log_den = load_rows(den_ptr + row * DV, start, DV, there, BM, DV, SV, True)
                    m = tl.load(row_max_ptr + row + rows, mask=there, other=float("inf"))
                    dr, dv_pair, ds_pair = exact_pair(
                        q, k, v, s, grad, out.to(tl.float32), log_den, m, rows, keys, real, left,
                        right, scale, seed, lane, threshold, pair_scale, SV, LOGSIGMOID, DROPOUT,
                    )  # fmt: skip
                    dk += tl.sum(dr[:, :, None] * q[:, None, :], 0)
                    dv += tl.sum(dv_pair, 0)
                    ds += tl.sum(ds_pair, 0)
        if DROPOUT:
            dv *= key_factor(seed, lane, keys, SV, threshold, 1.0)
        dk = dk * gain + load_rows(dk_ptr, first, heads * DK, exist, BN, DK, SK, True)
        dv += load_rows(dv_ptr + whole, first, heads * DV, exist, BN, DV, SV, True)
        ds += load_rows(ds_ptr + whole, first, heads * DV, exist, BN, DV, SV, True)
        store_rows(dk_ptr, first, heads * DK, exist, dk, BN, DK, SK)
        store_rows(dv_ptr + whole, first, heads * DV, exist, dv, BN, DV, SV)
        store_rows(ds_ptr + whole, first, heads * DV, exist, ds, BN, DV, SV)
