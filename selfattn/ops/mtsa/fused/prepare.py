# mypy: ignore-errors
"""The kernels before the others: weights of keys, relative to the largest score of the sentence."""

from ...common.triton_tools import LOG2E, kernel, tl
from .tile import key_factor, load_rows, own_tile, real_keys, store_rows


@kernel
def shift_kernel(
    s_ptr, padding_ptr, shift_ptr, s_b, s_h, s_t, heads, length,
    DV: tl.constexpr, SV: tl.constexpr, ROWS: tl.constexpr, HAS_PADDING: tl.constexpr,
):  # fmt: skip
    """Maximum c of each feature over the real keys of a lane; a NaN does not count."""
    lane, first = own_tile(length, ROWS)
    batch = lane // heads
    real = real_keys(first + tl.arange(0, ROWS), padding_ptr, batch, length, HAS_PADDING)
    s_ptr += batch.to(tl.int64) * s_b + (lane % heads).to(tl.int64) * s_h
    s = load_rows(s_ptr, first, s_t, real, ROWS, DV, SV, True).to(tl.float32)
    top = tl.max(tl.where(real[:, None] & (s == s), s, -1e30), 0)
    features = tl.arange(0, SV)
    tl.atomic_max(shift_ptr + lane.to(tl.int64) * DV + features, top, mask=features < DV)


@kernel
def weights_kernel(
    s_ptr, v_ptr, padding_ptr, seed_ptr, e_ptr, u_ptr, shift_ptr,
    s_b, s_h, s_t, v_b, v_h, v_t, heads, length, threshold,
    DV: tl.constexpr, SV: tl.constexpr, ROWS: tl.constexpr,
    HAS_PADDING: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """E = exp(s - c) and U = v * E; 0 at padded keys.

    Under dropout v is 0 where its factor is; the scale of that factor is in the one of pairs.
    """
    lane, first = own_tile(length, ROWS)
    batch = lane // heads
    b, h = batch.to(tl.int64), (lane % heads).to(tl.int64)
    keys = first + tl.arange(0, ROWS)
    real = real_keys(keys, padding_ptr, batch, length, HAS_PADDING)
    s = load_rows(s_ptr + b * s_b + h * s_h, first, s_t, real, ROWS, DV, SV, True).to(tl.float32)
    v = load_rows(v_ptr + b * v_b + h * v_h, first, v_t, real, ROWS, DV, SV, True).to(tl.float32)
    features = tl.arange(0, SV)
    c = tl.load(shift_ptr + lane.to(tl.int64) * DV + features, mask=features < DV, other=0.0)
    e = tl.where(real[:, None], tl.exp2((s - c[None, :]) * LOG2E), 0.0)
    if DROPOUT:
        v = tl.where(key_factor(tl.load(seed_ptr), lane, keys, SV, threshold, 1.0) > 0.0, v, 0.0)
    row = lane.to(tl.int64) * length * DV
    store_rows(e_ptr + row, first, DV, keys < length, e, ROWS, DV, SV)
    store_rows(u_ptr + row, first, DV, keys < length, v * e, ROWS, DV, SV)
