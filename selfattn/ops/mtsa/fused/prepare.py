# mypy: ignore-errors
"""Small kernels before the large ones: dropped values, gradients of the ratio."""

from ...common.triton_tools import kernel, narrow, tl
from .tile import key_factor, load_rows, own_tile, store_rows


@kernel
def ratio_kernel(
    g_ptr, out_ptr, den_ptr, row_max_ptr, flag_ptr, dnum_ptr, dden_ptr,
    g_b, g_h, g_t, heads, length,
    DV: tl.constexpr, SV: tl.constexpr, BM: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Gradients of numerator and denominator: dN = G / den and dD = -dN * H.

    Both are 0 where the fast kernels have nothing to add: queries without a visible key, and tiles
    that exact.py computes.
    """
    lane, first = own_tile(length, ROWS)
    rows = first + tl.arange(0, ROWS)
    b, h = (lane // heads).to(tl.int64), (lane % heads).to(tl.int64)
    real = rows < length
    m = tl.load(row_max_ptr + lane.to(tl.int64) * length + rows, mask=real, other=-1e30)
    flag = tl.load(flag_ptr + lane * tl.cdiv(length, BM) + rows // BM, mask=real, other=1)
    use = ((m > -1e29) & (flag == 0))[:, None]
    grad = load_rows(g_ptr + b * g_b + h * g_h, first, g_t, real, ROWS, DV, SV, True).to(tl.float32)
    whole = b * length * heads * DV + h * DV
    out = load_rows(out_ptr + whole, first, heads * DV, real, ROWS, DV, SV, True).to(tl.float32)
    row = lane.to(tl.int64) * length * DV
    den = load_rows(den_ptr + row, first, DV, real, ROWS, DV, SV, True)
    dnum = tl.where(use, grad / tl.where(use & (den != 0.0), den, 1.0), 0.0)
    # From the rounded dN: its error then meets v - H, and not v and H apart.
    dnum = narrow(dnum, dnum_ptr.dtype.element_ty).to(tl.float32)
    dden = tl.where(use, -dnum * out, 0.0)
    store_rows(dnum_ptr + row, first, DV, real, dnum, ROWS, DV, SV)
    store_rows(dden_ptr + row, first, DV, real, dden, ROWS, DV, SV)


@kernel
def drop_kernel(
    v_ptr, out_ptr, seed_ptr, v_b, v_h, v_t, heads, length, threshold,
    DV: tl.constexpr, SV: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """v with 0 where the factor on (key, feature) is 0; pairs carry the scale of both factors."""
    lane, first = own_tile(length, ROWS)
    rows = first + tl.arange(0, ROWS)
    b, h = (lane // heads).to(tl.int64), (lane % heads).to(tl.int64)
    v = load_rows(v_ptr + b * v_b + h * v_h, first, v_t, rows < length, ROWS, DV, SV, True)
    kept = key_factor(tl.load(seed_ptr), lane, rows, SV, threshold, 1.0) > 0.0
    v = tl.where(kept, v.to(tl.float32), 0.0)
    whole = b * length * heads * DV + h * DV
    store_rows(out_ptr + whole, first, heads * DV, rows < length, v, ROWS, DV, SV)
