/* MTSA on a CPU, forward and backward (Algorithm 1 of the MTSA paper; ../README.md).
 *
 * One (sentence, head) row at a time: its keys are packed, E = exp(s - shift) and v * E are formed
 * once, and groups of MR queries then run over the keys that they see, with all their scores in the
 * cache. Backward computes the weights again, for as many keys at a time as a cache holds with all that
 * belongs to them, and collects groups into tiles, so that the sums over queries are proper matrix
 * products. Rows are independent; threads take them from a counter.
 */
#include "exact.h"
#include "group.h"

enum { TILE = 32, SPAN = 16 * VL }; /* queries and keys of a tile in backward, multiples of MR and VL */

static int row_forward(Row *r, const Task *t, int64_t b, int64_t h) {
    int64_t D = t->width, S = t->scores, row = b * t->heads + h;
    row_pack(r, t, b, h, 0);
    for (int64_t j = 0; j < t->length; j += MR) {
        Group g = group_of(r, t, j);
        pack_queries(r->q, r, t, b, h, j, g.count);
        group_weights(r->p, r->q, r, t, row, j, g, 0, NULL);
        const float *p = r->p + g.lo, *u = r->u + g.lo * r->wide;
        if (t->keep < 1) { /* appendix A.3: dropout in the numerator only */
            group_dropout(r, t, r->pd, r->p, row, j, g);
            gemm(r->e, g.hi - g.lo, r->pd + g.lo, r->ld, 1, u, r->wide, VL, r->out, r->wide, 0);
            gemm(r->wide - r->e, g.hi - g.lo, p, r->ld, 1, u + r->e, r->wide, VL,
                 r->out + r->e, r->wide, 0);
        } else {
            gemm(r->wide, g.hi - g.lo, p, r->ld, 1, u, r->wide, VL, r->out, r->wide, 0);
        }
        for (int64_t m = 0; m < g.count; m++) {
            float *out = r->out + m * r->wide, *den = out + r->e, *h_j = at(t->h, b, h, j + m);
            float *inverse = t->inverse + (row * t->length + j + m) * S;
            prefetch(at(t->h, b, h, j + MR + m), D);
            prefetch(inverse + MR * S, S);
            int live = r->lo[j + m] < r->hi[j + m], exact = 0;
            for (int64_t l = 0; l < S; l++) exact |= !(den[l] >= SMALLEST); /* NaN, too */
            if (live && exact) exact = worth_exact(den, r, t, b, h, j + m);
            t->exact[row * t->length + j + m] = live && exact;
            if (!live || exact) { /* without a visible key exactly 0 */
                memset(h_j, 0, D * sizeof(float));
                memset(inverse, 0, S * sizeof(float)); /* so that backward adds nothing */
                continue;
            }
            for (int64_t l = 0; l < S; l += VL)
                store_part(inverse + l, 1.0f / load_part(den + l, S - l), S - l);
            for (int64_t l = 0; l < D; l += VL) /* eq. 12 */
                store_part(h_j + l, load_part(out + l, D - l) * load_shared(inverse, l, t), D - l);
        }
    }
    return exact_row(r, t, b, h, 0);
}

/* From the gradient of a query's weights to that of R, in place, and to that of the bias. */
static void bias_backward(const Row *r, const Task *t, int64_t row, int64_t j, float *gr,
                          const float *p, const float *slope, Group g, int real) {
    for (int64_t i = g.a; i < g.b; i += VL) store(gr + i, load(gr + i) * load(p + i));
    int64_t lo = real ? inside(r, r->lo[j]) : 0, hi = real ? inside(r, r->hi[j]) : 0, i = lo;
    int64_t from = lo < hi ? mirrored(r, t, j, r->base + lo, r->base + hi) : -1;
    float *sums = r->gmirror + from - lo, *gbias = t->gbias + row * t->length;
    for (; from >= 0 && i + VL <= hi; i += VL) store(sums + i, load(sums + i) + load(gr + i));
    for (; i < hi; i++) gbias[distance(r, j, r->base + i)] += gr[i];
    for (i = g.a; i < g.b; i += VL) store(gr + i, load(gr + i) * load(slope + i));
}

/* One group of backward: fills its rows of p, pd, gr, q and dn, and adds to the gradient of its queries. */
static void group_backward(Row *r, const Task *t, int64_t b, int64_t h, int64_t j, int64_t m0,
                           Group g) {
    int64_t D = t->width, S = t->scores, row = b * t->heads + h;
    float *p = r->p + m0 * r->ld, *gr = r->gr + m0 * r->ld, *dn = r->dn + m0 * r->wide;
    float *q = r->q + m0 * r->narrow;
    pack_queries(q, r, t, b, h, j, g.count);
    float *slope = t->bias ? r->slope + m0 * r->ld : NULL;
    group_weights(p, q, r, t, row, j, g, 1, slope);
    for (int64_t m = 0; m < MR; m++) {
        float *x = dn + m * r->wide, *y = x + r->e; /* gradients of numerator and denominator */
        if (m >= g.count) {
            memset(x, 0, r->wide * sizeof(float));
            continue;
        }
        const float *grad = at(t->grad, b, h, j + m), *h_j = at(t->h, b, h, j + m);
        const float *inverse = t->inverse + (row * t->length + j + m) * S;
        prefetch(at(t->grad, b, h, j + MR + m), D);
        prefetch(at(t->h, b, h, j + MR + m), D);
        prefetch(inverse + MR * S, S);
        vf of = {}; /* of the denominator that all features share */
        for (int64_t l = 0; l < D; l += VL) {
            vf d = load_part(grad + l, D - l) * load_shared(inverse, l, t);
            store_part(x + l, d, D - l);
            d *= -load_part(h_j + l, D - l);
            if (shared(t))
                of += d;
            else
                store_part(y + l, d, D - l);
        }
        if (shared(t)) *y = total(of);
    }
    int64_t n = g.b - g.a;
    const float *ut = r->ut + (r->base + g.a) * r->wide;
    if (t->keep < 1) {
        float *pd = r->pd + m0 * r->ld;
        gemm(n, D, dn, r->wide, 1, ut, VL, r->wide * VL, gr + g.a, r->ld, 0);
        group_dropout(r, t, pd, p, row, j, g);
        for (int64_t m = 0; m < MR; m++) /* the factor once more, without dividing by p */
            for (int64_t i = g.a; i < g.b; i++)
                gr[m * r->ld + i] *= pd[m * r->ld + i] != 0 ? 1 / t->keep : 0;
        gemm(n, S, dn + r->e, r->wide, 1, ut + r->e * VL, VL, r->wide * VL, gr + g.a, r->ld, 1);
    } else {
        gemm(n, D + S, dn, r->wide, 1, ut, VL, r->wide * VL, gr + g.a, r->ld, 0);
    }
    for (int64_t m = 0; m < MR; m++) {
        float *gr_j = gr + m * r->ld, *p_j = p + m * r->ld;
        if (t->bias) {
            bias_backward(r, t, row, j + m, gr_j, p_j, slope + m * r->ld, g, m < g.count);
            continue;
        }
        for (int64_t i = g.a; i < g.b; i += VL) { /* no row-sum term: P's normaliser cancels in H */
            vf w = load(p_j + i), slope = t->logsigmoid ? w * (1.0f - w) : w;
            store(gr_j + i, load(gr_j + i) * slope);
        }
    }
    gemm(r->narrow, g.hi - g.lo, gr + g.lo, r->ld, 1, r->kp + (r->base + g.lo) * r->narrow, r->narrow,
         VL, r->gq + j * r->narrow, r->narrow, 1);
}

/* Add one tile's share to the sums over queries. The groups that see a key are neighbours. */
static void tile_sums(Row *r, const Task *t, const Group *groups, int64_t count) {
    int64_t a = INT64_MAX, b = 0;
    for (int64_t i = 0; i < count; i++) {
        if (groups[i].lo == groups[i].hi) continue;
        a = groups[i].a < a ? groups[i].a : a;
        b = groups[i].b > b ? groups[i].b : b;
    }
    for (int64_t i = 0; i < count; i++) { /* a group that sees nothing may lie between: zeros */
        if (groups[i].lo != groups[i].hi) continue;
        for (int64_t m = i * MR; m < (i + 1) * MR && a < b; m++) {
            memset(r->p + m * r->ld + a, 0, (b - a) * sizeof(float));
            memset(r->gr + m * r->ld + a, 0, (b - a) * sizeof(float));
            if (t->keep < 1) memset(r->pd + m * r->ld + a, 0, (b - a) * sizeof(float));
        }
    }
    for (int64_t key = a; key < b && r->base + key < r->keys; key += MR) {
        int64_t first = count, last = 0;
        for (int64_t i = 0; i < count; i++) {
            if (groups[i].lo == groups[i].hi || groups[i].b <= key || groups[i].a > key) continue;
            first = i < first ? i : first;
            last = i + 1;
        }
        if (first >= last) continue;
        int64_t from = first * MR, n = (last - first) * MR, shift = from * r->ld + key;
        const float *dn = r->dn + from * r->wide;
        float *gu = r->gu + (r->base + key) * r->wide;
        if (t->keep < 1) {
            gemm(r->e, n, r->pd + shift, 1, r->ld, dn, r->wide, VL, gu, r->wide, 1);
            gemm(r->wide - r->e, n, r->p + shift, 1, r->ld, dn + r->e, r->wide, VL,
                 gu + r->e, r->wide, 1);
        } else {
            gemm(r->wide, n, r->p + shift, 1, r->ld, dn, r->wide, VL, gu, r->wide, 1);
        }
        gemm(r->narrow, n, r->gr + shift, 1, r->ld, r->q + from * r->narrow, r->narrow, VL,
             r->gk + (r->base + key) * r->narrow, r->narrow, 1);
    }
}

/* From the sums to the gradients; padding gets 0. */
static void row_finish(const Row *r, const Task *t, int64_t b, int64_t h) {
    int64_t D = t->width, S = t->scores, i = 0;
    for (int64_t key = 0; key < t->length; key++) {
        float *gk = at(t->gk, b, h, key), *gv = at(t->gv, b, h, key), *gs = at(t->gs, b, h, key);
        float *gq = at(t->gq, b, h, key);
        prefetch(gq + AHEAD * t->gq.stride[2], t->inner);
        for (int64_t c = 0; c < t->inner; c += VL)
            store_part(gq + c, load(r->gq + key * r->narrow + c) * t->scale, t->inner - c);
        prefetch(gk + AHEAD * t->gk.stride[2], t->inner);
        prefetch(gv + AHEAD * t->gv.stride[2], D);
        prefetch(gs + AHEAD * t->gs.stride[2], S);
        if (i == r->keys || r->position[i] != key) {
            memset(gk, 0, t->inner * sizeof(float));
            memset(gv, 0, D * sizeof(float));
            memset(gs, 0, S * sizeof(float));
            continue;
        }
        const float *ve = r->u + i * r->wide, *e = ve + r->e, *sum = r->gk + i * r->narrow;
        const float *g_ve = r->gu + i * r->wide, *g_e = g_ve + r->e;
        for (int64_t c = 0; c < t->inner; c += VL)
            store_part(gk + c, load(sum + c) / LOG2E, t->inner - c); /* q is scaled already */
        vf of = {}; /* the score that all features share */
        for (int64_t l = 0; l < D; l += VL) {
            vf x = load_part(ve + l, D - l), y = load_shared(e, l, t);
            vf g = load_part(g_ve + l, D - l);
            if (shared(t))
                of += x * g;
            else
                store_part(gs + l, x * g + y * load_part(g_e + l, D - l), D - l);
            if (t->keep_features < 1) y *= load_part(r->drop + i * D + l, D - l);
            store_part(gv + l, y * g, D - l);
        }
        if (shared(t)) *gs = total(of) + *e * *g_e;
        i++;
    }
}

static int row_backward(Row *r, const Task *t, int64_t b, int64_t h) {
    row_pack(r, t, b, h, 1);
    memset(r->gu, 0, round_up(r->keys, MR) * r->wide * sizeof(float));
    memset(r->gk, 0, round_up(r->keys, MR) * r->narrow * sizeof(float));
    memset(r->gq, 0, round_up(t->length, MR) * r->narrow * sizeof(float));
    if (t->bias) memset(r->gmirror, 0, mirror_size(t) * sizeof(float));
    int64_t first = 0; /* tiles before it see nothing of this span: lo and hi never decrease */
    for (r->base = 0; r->base < r->keys; r->base += r->span)
        for (int64_t j = first; j < t->length && r->lo[j] < r->base + r->span; j += TILE) {
            if (r->hi[j + TILE < t->length ? j + TILE - 1 : t->length - 1] <= r->base) {
                first = j + TILE;
                continue;
            }
            Group groups[TILE / MR];
            int64_t count = 0, seen = 0;
            for (int64_t m = 0; m < TILE && j + m < t->length; m += MR, count++) {
                groups[count] = group_of(r, t, j + m);
                seen += groups[count].hi - groups[count].lo;
            }
            if (!seen) continue;
            for (int64_t i = 0; i < count; i++)
                group_backward(r, t, b, h, j + i * MR, i * MR, groups[i]);
            tile_sums(r, t, groups, count);
        }
    float *gbias = t->bias ? t->gbias + (b * t->heads + h) * t->length : NULL;
    const float *zero = gbias ? r->gmirror + middle(t) : NULL;
    for (int64_t x = 0; gbias && x < t->length; x++) gbias[x] += zero[x] + (x ? zero[-x] : 0);
    row_finish(r, t, b, h);
    return exact_row(r, t, b, h, 1);
}

static void *work(void *argument) {
    Work *w = argument;
    const Task *t = w->task;
    Row r = {0};
    w->failed |= w->backward ? !row_alloc(&r, t, TILE, SPAN, 1) : !row_alloc(&r, t, MR, t->length, 0);
    for (int64_t row; !w->failed && (row = take(w)) >= 0;) {
        int64_t b = row / t->heads, h = row % t->heads;
        row_ranges(&r, t, b, h);
        w->failed |= (w->backward ? row_backward : row_forward)(&r, t, b, h);
    }
    row_free(&r);
    return NULL;
}

/* Run a task; 0, or 1 where memory ran out. */
int mtsa_run(const Task *task, int backward) {
    Work w = {.task = task, .backward = backward, .units = task->batch * task->heads};
    /* A thread should have at least some tens of microseconds of work. */
    int64_t products = w.units * task->length * task->length / 1000;
    int64_t useful = products * (task->inner + 2 * task->width) / 1000 + 1;
    return share(&w, work, task->threads, useful);
}
