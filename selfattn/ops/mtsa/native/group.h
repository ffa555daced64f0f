/* What forward and backward share: the packed keys of a row, and the weights of a group of queries. */
#ifndef SELFATTN_GROUP_H
#define SELFATTN_GROUP_H
#include "rng.h"
#include "task.h"

/* Packed keys [lo, hi) that a group of queries sees, counted from `base`, and rounded outwards to
 * vectors in [a, b). */
typedef struct {
    int64_t count, lo, hi, a, b;
} Group;

static Group group_of(const Row *r, const Task *t, int64_t j) {
    Group g = {t->length - j < MR ? t->length - j : MR, INT64_MAX, 0, 0, 0};
    for (int64_t i = j; i < j + g.count; i++) {
        int64_t lo = inside(r, r->lo[i]), hi = inside(r, r->hi[i]);
        if (lo == hi) continue;
        g.lo = lo < g.lo ? lo : g.lo;
        g.hi = hi > g.hi ? hi : g.hi;
    }
    if (g.lo > g.hi) g.lo = g.hi = 0;
    g.a = g.lo / VL * VL;
    g.b = round_up(g.hi, VL);
    return g;
}

/* The bias by signed distance, and the largest one among the keys that each query sees. */
static void row_bias(Row *r, const Task *t, int64_t h) {
    const float *bias = t->bias + h * t->length;
    float *zero = r->mirror + middle(t);
    for (int64_t x = 0; x < t->length; x++) zero[x] = zero[-x] = bias[x];
    for (int64_t j = 0; j < t->length; j++) {
        int64_t lo = r->lo[j], hi = r->hi[j], from = lo < hi ? mirrored(r, t, j, lo, hi) : 0;
        r->top[j] = from < 0 ? -INFINITY : largest(r->mirror + from, hi - lo);
        for (int64_t i = lo; from < 0 && i < hi; i++) {
            float far = bias[distance(r, j, i)];
            r->top[j] = far > r->top[j] ? far : r->top[j];
        }
    }
}

/* The bias of the keys [lo, hi) of query j in r->far, in units of log 2; anything finite beside them.
 * Its maximum is taken away first: it cancels in H, and beside it R would lose its last digits. */
static void query_bias(Row *r, const Task *t, int64_t h, int64_t j, int64_t lo, int64_t hi, Group g) {
    const float *bias = t->bias + h * t->length, top = r->top[j];
    int64_t from = mirrored(r, t, j, r->base + lo, r->base + hi);
    if (from >= 0) { /* at most VL + MR beyond its keys */
        const float *mirror = r->mirror + from - lo;
        for (int64_t i = g.a; i < g.b; i += VL) store(r->far + i, (load(mirror + i) - top) * LOG2E);
        return;
    }
    memset(r->far + g.a, 0, (g.b - g.a) * sizeof(float));
    for (int64_t i = lo; i < hi; i++)
        r->far[i] = (bias[distance(r, j, r->base + i)] - top) * LOG2E;
}

/* Of Algorithm 1 the keys, E and v * E of one row, in the orders that are needed. */
static void row_pack(Row *r, const Task *t, int64_t b, int64_t h, int backward) {
    int64_t D = t->width, S = t->scores, row = b * t->heads + h, all = round_up(r->keys, VL);
    float *shift = t->shift + row * S;
    for (int64_t l = 0; l < S && !backward; l += VL) {
        vf top = splat(-INFINITY);
        for (int64_t i = 0; i < r->keys; i++) {
            const float *s = at(t->s, b, h, r->position[i]) + l;
            if (l == 0) prefetch(s + AHEAD * t->s.stride[2], S);
            top = vmax(load_part(s, S - l), top);
        }
        store_part(shift + l, top, S - l);
    }
    for (int64_t i = 0; i < r->keys; i++) {
        int64_t key = r->position[i];
        const float *k = at(t->k, b, h, key), *s = at(t->s, b, h, key), *v = at(t->v, b, h, key);
        float *u = r->u + i * r->wide, *drop = r->drop + i * D;
        prefetch(at(t->k, b, h, key + AHEAD), t->inner);
        prefetch(at(t->s, b, h, key + AHEAD), S);
        prefetch(at(t->v, b, h, key + AHEAD), D);
        if (t->keep_features < 1)
            fill_factors(drop, t->seed, row * t->length + key, 1, NULL, 0, D, t->keep_features);
        float *e = u + r->e;
        for (int64_t l = 0; l < S; l += VL) {
            vf x = (load_part(s + l, S - l) - load_part(shift + l, S - l)) * LOG2E;
            store_part(e + l, exp2v(x), S - l);
        }
        for (int64_t l = 0; l < D; l += VL) {
            vf ve = load_part(v + l, D - l) * load_shared(e, l, t);
            if (t->keep_features < 1) ve *= load_part(drop + l, D - l);
            store_part(u + l, ve, D - l);
        }
        for (int64_t c = 0; c < t->inner; c += VL)
            store(r->kp + i * r->narrow + c, load_part(k + c, t->inner - c));
    }
    memset(r->kp + r->keys * r->narrow, 0, (all - r->keys) * r->narrow * sizeof(float));
    transpose(r->kp, all, r->narrow, r->kt);
    if (t->bias) row_bias(r, t, h);
    if (!backward) return;
    memset(r->u + r->keys * r->wide, 0, (all - r->keys) * r->wide * sizeof(float));
    transpose(r->u, all, r->wide, r->ut);
}

/* P of a group: exp(sigma_t(R)) up to a factor per query, 0 where invisible. */
static void group_weights(float *p, const float *q, Row *r, const Task *t, int64_t row, int64_t j,
                          Group g, int known, float *slope) {
    gemm(g.b - g.a, t->inner, q, r->narrow, 1, r->kt + (r->base + g.a) * r->narrow, VL,
         r->narrow * VL, p + g.a, r->ld, 0); /* eq. 8 */
    for (int64_t m = 0; m < MR; m++, p += r->ld, slope += slope ? r->ld : 0) {
        int64_t lo = g.a, hi = g.a;
        if (m < g.count && inside(r, r->lo[j + m]) < inside(r, r->hi[j + m])) {
            lo = inside(r, r->lo[j + m]);
            hi = inside(r, r->hi[j + m]);
        }
        int live = lo < hi;
        float *peak = t->peak + row * t->length + j + m;
        if (!known && m < g.count) *peak = 0;
        if (live && t->bias) query_bias(r, t, row % t->heads, j + m, lo, hi, g);
        if (live && t->logsigmoid) {
            for (int64_t i = g.a; i < g.b; i += VL) { /* at most 1, so that no shift is needed */
                vf x = vmax(load(p + i), splat(-126.0f));
                store(p + i, 1.0f / (1.0f + exp2v(-x)));
                if (slope) store(slope + i, 1.0f - load(p + i));
            }
            if (t->bias)
                for (int64_t i = g.a; i < g.b; i += VL)
                    store(p + i, load(p + i) * exp2v(load(r->far + i)));
        } else if (live) {
            if (t->bias)
                for (int64_t i = g.a; i < g.b; i += VL) store(p + i, load(p + i) + load(r->far + i));
            if (!known) {
                for (int64_t i = g.a; i < lo; i++) p[i] = -INFINITY;
                for (int64_t i = hi; i < g.b; i++) p[i] = -INFINITY;
                *peak = largest(p + g.a, g.b - g.a);
            }
            for (int64_t i = g.a; i < g.b; i += VL) {
                store(p + i, exp2v(load(p + i) - *peak));
                if (slope) store(slope + i, splat(1.0f));
            }
        }
        if (slope && !live) memset(slope + g.a, 0, (g.b - g.a) * sizeof(float)); /* not NaN of others */
        memset(p + g.a, 0, (lo - g.a) * sizeof(float));
        memset(p + hi, 0, (g.b - hi) * sizeof(float));
    }
}

/* P with the dropout factor of the pairs. */
static void group_dropout(Row *r, const Task *t, float *pd, const float *p, int64_t row, int64_t j,
                          Group g) {
    for (int64_t m = 0; m < MR; m++, p += r->ld, pd += r->ld) {
        memset(pd + g.a, 0, (g.b - g.a) * sizeof(float));
        if (m >= g.count) continue;
        fill_factors(pd + g.lo, t->seed, row * t->length + j + m, 0, r->position + r->base + g.lo, 0,
                     g.hi - g.lo, t->keep);
        for (int64_t i = g.lo; i < g.hi; i++) pd[i] *= p[i];
    }
}

/* Queries j, j + 1, ... of a group as the rows of a packed matrix, scaled; zeros below. */
static void pack_queries(float *out, const Row *r, const Task *t, int64_t b, int64_t h, int64_t j,
                         int64_t count) {
    float scale = t->scale * LOG2E;
    for (int64_t m = 0; m < MR; m++, out += r->narrow) {
        prefetch(at(t->q, b, h, j + MR + m), t->inner);
        for (int64_t c = 0; c < t->inner; c += VL) {
            int64_t n = m < count ? t->inner - c : 0;
            store(out + c, load_part(n ? at(t->q, b, h, j + m) + c : out, n) * scale);
        }
    }
}
#endif
