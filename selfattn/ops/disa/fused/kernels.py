# mypy: ignore-errors
"""The kernels: a tile of (tokens, features) in registers, one key or one query at a time.

Nothing is multiplied as matrices, so a loop over single tokens needs no sums across threads. A pair
costs two special functions (reciprocal, exponential) where ``_pair`` may use a factor of the key
and one of the query, and three elsewhere. All arithmetic is float32, exponents are in units of
log 2.
"""

from ...common.triton_tools import (
    INTERPRETED,
    at_least,
    at_most,
    dropout_factor,
    inline,
    kernel,
    key_span,
    narrow,
    tl,
)

# Below 2^80 on one side, a clamp at 2^120 on the other one only meets sums beyond 2^40: saturated.
SAFE = tl.constexpr(80.0)
CLAMP = tl.constexpr(120.0)


@inline
def _reciprocal(u):
    """1 / u for u >= 1; the division of Triton would be many instructions."""
    if INTERPRETED:
        return 1.0 / u
    else:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [u], dtype=tl.float32, is_pure=True, pack=1
        )


@inline
def _factor(a, gain):
    """exp(2a / c) of some tokens; ``gain`` is 2 / c in units of log 2."""
    return tl.exp2(at_most(at_least(a * gain, -CLAMP), CLAMP))


@inline
def _pair(one, other, gain, low, FACTORS: tl.constexpr):
    """exp(score - c) and s, see the README of DiSA; ``low`` is -2c in units of log 2.

    FACTORS: whether the two tokens come as factors of exp(2(a + b) / c), or as a and b themselves,
    whose sum is taken first: that is exact where they cancel.
    """
    u = one * other if FACTORS else tl.exp2(at_most((one + other) * gain, CLAMP))
    s = _reciprocal(1.0 + u)
    return tl.exp2(s * low), s


@inline
def _token(ptr, position, stride, there, features, width):
    """One token as a row ``(1, features)`` of float32; nothing is read where not there."""
    mask = (features < width)[None, :] & there
    pointers = ptr + tl.cast(position, tl.int64) * stride + features[None, :]
    return tl.load(pointers, mask=mask, other=0.0).to(tl.float32)


@inline
def _place(length, width, BT: tl.constexpr, BF: tl.constexpr):
    """Sentence, first token and first feature of this program."""
    tiles, parts = tl.cdiv(length, BT), tl.cdiv(width, BF)
    lane = tl.program_id(0) // tiles
    return lane // parts, tl.program_id(0) % tiles * BT, lane % parts * BF


@inline
def _real(padding_ptr, batch, tokens, length, HAS_PADDING: tl.constexpr):
    """Which tokens exist and are not padding; for one token or several."""
    real = (tokens >= 0) & (tokens < length)  # the first half makes it a tensor for one token
    if HAS_PADDING:
        hidden = tl.load(padding_ptr + batch.to(tl.int64) * length + tokens, mask=real, other=1)
        real = real & (hidden == 0)
    return real


@inline
def _rows(ptr, tokens, stride, real, features, width):
    """A tile ``(tokens, features)`` of float32; nothing is read where not real."""
    mask = real[:, None] & (features < width)[None, :]
    pointers = ptr + tokens[:, None].to(tl.int64) * stride + features[None, :]
    return tl.load(pointers, mask=mask, other=0.0).to(tl.float32)


@inline
def _sums(
    x_ptr, a_ptr, query, unseen_ptr, seed_ptr, x_t, a_t, batch, rows, features, lo, hi, left,
    right, length, width, lane, column, gain, low, threshold, inverse_keep,
    HAS_PADDING: tl.constexpr, DROPOUT: tl.constexpr, SAVE: tl.constexpr, FACTORS: tl.constexpr,
):  # fmt: skip
    """Sums over the visible keys of w, w x, w s (1 - s) and w s (1 - s) x."""
    den = tl.zeros_like(query)
    num = tl.zeros_like(query)
    slope = tl.zeros_like(query)
    slope_x = tl.zeros_like(query)
    if FACTORS:
        query = _factor(query, gain)
    if DROPOUT:
        seed = tl.load(seed_ptr)
    for key in range(lo, hi):
        there = _real(unseen_ptr, batch, key, length, HAS_PADDING)
        a = _token(a_ptr, key, a_t, there, features, width)
        x = _token(x_ptr, key, x_t, there, features, width)
        w, s = _pair(_factor(a, gain) if FACTORS else a, query, gain, low, FACTORS)
        seen = (key - rows >= left) & (key - rows <= right) & there
        w = tl.where(seen[:, None], w, 0.0)
        den += w
        wx = w * x
        if DROPOUT:
            wx *= dropout_factor(
                seed, key, (column + features)[None, :], batch, 1, threshold, inverse_keep
            )
            wx *= dropout_factor(seed, rows, key, lane, 0, threshold, inverse_keep)[:, None]
        num += wx
        if SAVE:
            ds = s - s * s
            slope += w * ds
            slope_x += wx * ds
    return den, num, slope, slope_x


@kernel
def forward_kernel(
    x_ptr, a_ptr, b_ptr, padding_ptr, unseen_ptr, bounds_ptr, seed_ptr, out_ptr, mean_ptr, den_ptr,
    change_ptr,
    x_b, x_t, a_b, a_t, b_b, b_t, out_b, out_t,
    length, width, left, right, groups, group, column, gain, low, threshold, inverse_keep,
    BT: tl.constexpr, BF: tl.constexpr,
    HAS_PADDING: tl.constexpr, DROPOUT: tl.constexpr, SAVE: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """Output, its denominator, and that times d out / d b, for a tile of queries and features.

    ``gain`` is 2 / c and ``low`` is -2c, both times log2(e). ``group`` says which of the ``groups``
    masks this is, and ``column`` is its first feature: dropout counts them.
    """
    batch, first, feature = _place(length, width, BT, BF)
    rows, features = first + tl.arange(0, BT), feature + tl.arange(0, BF)
    real = _real(padding_ptr, batch, rows, length, HAS_PADDING)
    stop = tl.minimum(first + BT, length)
    lo, hi, _, _ = key_span(first, stop, left, right, length, bounds_ptr, batch, HAS_PADDING)
    hi = tl.where(tl.max(real.to(tl.int32), 0) != 0, hi, lo)
    lane = batch * groups + group
    at = batch.to(tl.int64)
    x_ptr += at * x_b
    a_ptr += at * a_b
    query = _rows(b_ptr + at * b_b, rows, b_t, real, features, width)
    if tl.max(tl.max(tl.abs(query), 1), 0) * gain <= SAFE:
        den, num, slope, slope_x = _sums(
            x_ptr, a_ptr, query, unseen_ptr, seed_ptr, x_t, a_t, batch, rows, features, lo, hi,
            left, right, length, width, lane, column, gain, low, threshold, inverse_keep,
            HAS_PADDING, DROPOUT, SAVE, True,
        )  # fmt: skip
    else:
        den, num, slope, slope_x = _sums(
            x_ptr, a_ptr, query, unseen_ptr, seed_ptr, x_t, a_t, batch, rows, features, lo, hi,
            left, right, length, width, lane, column, gain, low, threshold, inverse_keep,
            HAS_PADDING, DROPOUT, SAVE, False,
        )  # fmt: skip
    # A visible key weighs at least exp(-2c): 0 says that there is none. A NaN stays one.
    live = real[:, None] & ~(den <= 0.0)
    den = tl.where(live, den, 1.0)
    out = tl.where(live, num / den, 0.0)
    exist = (rows < length)[:, None] & (features < width)[None, :]
    place = at * out_b + rows[:, None].to(tl.int64) * out_t + features[None, :]
    tl.store(out_ptr + place, narrow(out, out_ptr.dtype.element_ty), mask=exist)
    if SAVE:
        if HALF:  # backward takes differences to the output, which its rounding would spoil
            tl.store(mean_ptr + place, out, mask=exist)
        tl.store(den_ptr + place, den, mask=exist)
        change = tl.where(live, 4.0 * (slope_x - out * slope), 0.0)
        tl.store(change_ptr + place, change, mask=exist)


@inline
def _key_sums(
    key, x, b_ptr, out_ptr, grad_ptr, padding_ptr, seed_ptr, b_t, out_t, batch,
    rows, real, features, lo, hi, left, right, length, width, lane, column, gain, low,
    threshold, inverse_keep,
    HAS_PADDING: tl.constexpr, DROPOUT: tl.constexpr, FACTORS: tl.constexpr,
):  # fmt: skip
    """Gradients of x and a for a tile of keys: sums over the queries that see them."""
    gx = tl.zeros_like(x)
    ga = tl.zeros_like(x)
    if FACTORS:
        key = _factor(key, gain)
    if DROPOUT:
        seed = tl.load(seed_ptr)
        scale = dropout_factor(
            seed, rows[:, None], (column + features)[None, :], batch, 1, threshold, inverse_keep
        )
        x *= scale
    for query in range(lo, hi):
        there = _real(padding_ptr, batch, query, length, HAS_PADDING)
        b = _token(b_ptr, query, b_t, there, features, width)
        out = _token(out_ptr, query, out_t, there, features, width)
        grad = _token(grad_ptr, query, out_t, there, features, width)
        w, s = _pair(_factor(b, gain) if FACTORS else b, key, gain, low, FACTORS)
        seen = (rows - query >= left) & (rows - query <= right) & real & there
        wg = tl.where(seen[:, None], w * grad, 0.0)
        if DROPOUT:
            pair = dropout_factor(seed, query, rows, lane, 0, threshold, inverse_keep)[:, None]
            gx += wg * pair
            ga += wg * (x * pair - out) * (s - s * s)
        else:
            gx += wg
            ga += wg * (x - out) * (s - s * s)
    if DROPOUT:
        gx *= scale
    return gx, 4.0 * ga


@kernel
def key_kernel(
    x_ptr, a_ptr, b_ptr, padding_ptr, unseen_ptr, bounds_ptr, seed_ptr, out_ptr, grad_ptr, gx_ptr,
    ga_ptr,
    x_b, x_t, a_b, a_t, b_b, b_t, out_b, out_t,
    length, width, left, right, groups, group, column, gain, low, threshold, inverse_keep,
    BT: tl.constexpr, BF: tl.constexpr, HAS_PADDING: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """Gradients of x and a for a tile of keys and features.

    ``out`` is the one of float32, and ``grad`` its gradient over the denominator.
    """
    batch, first, feature = _place(length, width, BT, BF)
    rows, features = first + tl.arange(0, BT), feature + tl.arange(0, BF)
    real = _real(unseen_ptr, batch, rows, length, HAS_PADDING)
    stop = tl.minimum(first + BT, length)
    # The queries of a key are the keys of a query under the reversed offsets.
    lo, hi, _, _ = key_span(first, stop, -right, -left, length, bounds_ptr, batch, HAS_PADDING)
    hi = tl.where(tl.max(real.to(tl.int32), 0) != 0, hi, lo)
    lane = batch * groups + group
    at = batch.to(tl.int64)
    b_ptr += at * b_b
    out_ptr += at * out_b
    grad_ptr += at * out_b
    key = _rows(a_ptr + at * a_b, rows, a_t, real, features, width)
    x = _rows(x_ptr + at * x_b, rows, x_t, real, features, width)
    if tl.max(tl.max(tl.abs(key), 1), 0) * gain <= SAFE:
        gx, ga = _key_sums(
            key, x, b_ptr, out_ptr, grad_ptr, padding_ptr, seed_ptr, b_t, out_t, batch, rows,
            real, features, lo, hi, left, right, length, width, lane, column,
            gain, low, threshold, inverse_keep, HAS_PADDING, DROPOUT, True,
        )  # fmt: skip
    else:
        gx, ga = _key_sums(
            key, x, b_ptr, out_ptr, grad_ptr, padding_ptr, seed_ptr, b_t, out_t, batch, rows,
            real, features, lo, hi, left, right, length, width, lane, column,
            gain, low, threshold, inverse_keep, HAS_PADDING, DROPOUT, False,
        )  # fmt: skip
    exist = (rows < length)[:, None] & (features < width)[None, :]
    place = at * out_b + rows[:, None].to(tl.int64) * out_t + features[None, :]
    tl.store(gx_ptr + place, narrow(gx, gx_ptr.dtype.element_ty), mask=exist)
    tl.store(ga_ptr + place, narrow(ga, ga_ptr.dtype.element_ty), mask=exist)
