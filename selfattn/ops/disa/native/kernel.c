/* DiSA on a CPU, forward and backward (equations 9 and 10 of the Bi-BloSAN paper; README.md beside
 * this folder).
 *
 * Features never mix, so VL of them at a time are a vector, and a sentence is a list of vectors that
 * stays in the cache. Q queries are held in registers while the keys that they see pass by. Units of
 * (sentence, VL features) are independent; threads take them from a counter.
 */
#include "task.h"

/* Factors exp(2a/c) are clamped to 2^63, so that a product is finite. If all of one side are below
 * 2^36, a clamp of the other side meets only sums beyond 2^27: tanh is 1 to rounding. */
static const float CLAMP = 63.0f, SAFE = 36.0f;

static inline vf vmin(vf a, vf b) { return pick(a > b, b, a); } /* keeps a NaN in a */

/* 1 / u for u in [1, 2^127); a NaN stays one. */
static inline vf reciprocal(vf u) {
#if defined(__AVX512F__)
    vf r = (vf)_mm512_rcp14_ps((__m512)u); /* 14 bits, and twice as many after one step of Newton */
    return r + r * (1.0f - u * r);
#else
    return 1.0f / u;
#endif
}

/* 2^x for x in [-126, 0], as exp2v but without its bounds: half of the time is spent here. */
static inline vf exp2_low(vf x) {
    vf shifted = x + 12582912.0f; /* 1.5 * 2^23 rounds */
    vf y = exp2_fraction(x - (shifted - 12582912.0f));
    return (vf)((vu)y + ((vu)shifted << 23));
}

/* A NaN whose lower bits are 0: those of another one, such as a GPU's, exp2_low would add to its exponent. */
static inline vf plain_nan(vf x) { return pick(x == x, x, splat(NAN)); }

/* exp(score - c) = exp(-2c s), eq. 9 with s = 1 / (1 + exp(2(a + b) / c)). */
static inline vf weight(const Task *t, vf key, vf query, vf *s, int factors) {
    vf product = factors ? key * query : exp2v(vmin((key + query) * t->gain, splat(CLAMP)));
    *s = reciprocal(1.0f + product);
    return exp2_low(*s * t->low);
}

/* Dropout factors of a token's values, VL features from `feature`. */
static inline vf value_factors(const Task *t, int64_t b, int64_t token, int64_t feature) {
    float drop[VL];
    fill_factors(drop, t->seed, b * t->length + token, 1, NULL, feature, VL, t->keep);
    return load(drop);
}

/* VL features from `feature` of one sentence; n of them exist. */
static void row_pack(Row *r, const Task *t, int64_t b, int64_t feature, int64_t n) {
    vf top_a = {}, top_b = {};
    for (int64_t i = 0; i < r->keys; i++) {
        int64_t token = r->key_position[i];
        prefetch_later(t->a, b, token, feature);
        prefetch_later(t->x, b, token, feature);
        vf a = plain_nan(load_part(at(t->a, b, token) + feature, n));
        vf x = load_part(at(t->x, b, token) + feature, n);
        top_a = vmax(top_a, vmax(a, -a));
        if (t->keep < 1) x *= value_factors(t, b, token, feature);
        store(r->key + i * VL, a);
        store(r->value + i * VL, x);
    }
    for (int64_t j = 0; j < r->queries; j++) {
        prefetch_later(t->b, b, r->position[j], feature);
        vf q = plain_nan(load_part(at(t->b, b, r->position[j]) + feature, n));
        top_b = vmax(top_b, vmax(q, -q));
        store(r->query + j * VL, q);
    }
    float a = 0, q = 0;
    for (int l = 0; l < VL; l++) {
        a = top_a[l] > a ? top_a[l] : a;
        q = top_b[l] > q ? top_b[l] : q;
    }
    r->factors = (a < q ? a : q) * t->gain <= SAFE;
    if (!r->factors) return;
    for (int64_t i = 0; i < r->keys + r->queries; i++) {
        float *p = i < r->keys ? r->key + i * VL : r->query + (i - r->keys) * VL;
        store(p, exp2v(vmin(vmax(load(p) * t->gain, splat(-CLAMP)), splat(CLAMP))));
    }
}

/* Dropout factors of Q queries from packed token j, for the packed keys [lo, hi). */
static void fill_drop(Row *r, const Task *t, int64_t b, int64_t mask, int64_t j, int64_t lo,
                      int64_t hi) {
    for (int64_t m = 0; m < Q && j + m < r->queries; m++) {
        int64_t line = (b * t->masks + mask) * t->length + r->position[j + m];
        fill_factors(r->drop + m * t->length + lo, t->seed, line, 0, r->key_position + lo, 0,
                     hi - lo, t->keep);
    }
}

/* The keys that some of Q queries see, [lo, hi), and those that all of them see, [all, end). */
typedef struct {
    int64_t lo, all, end, hi;
} Span;

static Span span_of(const Row *r, int64_t j) {
    Span s = {INT64_MAX, 0, INT64_MAX, 0};
    for (int64_t m = j; m < j + Q; m++) {
        s.end = r->hi[m] < s.end ? r->hi[m] : s.end;
        if (r->lo[m] == r->hi[m]) continue;
        s.lo = r->lo[m] < s.lo ? r->lo[m] : s.lo;
        s.hi = r->hi[m] > s.hi ? r->hi[m] : s.hi;
        s.all = r->lo[m] > s.all ? r->lo[m] : s.all;
    }
    for (int64_t m = j; m < j + Q; m++)
        if (r->lo[m] == r->hi[m]) s.end = 0; /* not all see a key */
    if (s.lo > s.hi) s.lo = s.hi = 0;
    s.all = s.all < s.lo ? s.lo : s.all > s.hi ? s.hi : s.all;
    s.end = s.end < s.all ? s.all : s.end;
    return s;
}

typedef struct {
    vf query[Q], num[Q], den[Q];
} Sums;

#define UNROLL _Pragma("GCC unroll 8") for (int m = 0; m < Q; m++)

/* Keys that all Q queries see take no comparison for each pair; what is constant takes no branch. */
#define BY_PART(keys)                                                                              \
    for (int k = 0; k < 3; k++) {                                                                  \
        int64_t from = part[k], to = part[k + 1];                                                  \
        if (k == 1 && r->factors && drop) keys(r, t, j, from, to, &q, 1, 0, 1);                    \
        else if (k == 1 && r->factors) keys(r, t, j, from, to, &q, 1, 0, 0);                       \
        else if (k == 1) keys(r, t, j, from, to, &q, 0, 0, drop);                                  \
        else if (drop) keys(r, t, j, from, to, &q, r->factors, 1, 1);                              \
        else keys(r, t, j, from, to, &q, r->factors, 1, 0);                                        \
    }

static inline __attribute__((always_inline)) void forward_keys(
    const Row *r, const Task *t, int64_t j, int64_t from, int64_t to, Sums *q, int factors, int edge,
    int drop) {
    for (int64_t i = from; i < to; i++) {
        vf key = load(r->key + i * VL), x = load(r->value + i * VL), s;
        UNROLL {
            if (edge && !(r->lo[j + m] <= i && i < r->hi[j + m])) continue;
            vf w = weight(t, key, q->query[m], &s, factors);
            q->den[m] += w;
            q->num[m] += (drop ? w * r->drop[m * t->length + i] : w) * x;
        }
    }
}

static void row_forward(Row *r, const Task *t, int64_t b, int64_t mask, int64_t feature, int64_t n) {
    for (int64_t j = 0; j < r->queries; j += Q) {
        Span s = span_of(r, j);
        Sums q = {};
        UNROLL if (j + m < r->queries) q.query[m] = load(r->query + (j + m) * VL);
        int drop = t->keep < 1;
        if (drop) fill_drop(r, t, b, mask, j, s.lo, s.hi);
        int64_t part[] = {s.lo, s.all, s.end, s.hi};
        BY_PART(forward_keys);
        for (int64_t m = 0; m < Q && j + m < r->queries; m++) {
            int64_t token = r->position[j + m];
            prefetch_later(t->inverse, b, token, feature);
            prefetch_later(t->out, b, token, feature);
            int live = r->lo[j + m] < r->hi[j + m]; /* without a visible key exactly 0 */
            vf inverse = live ? 1.0f / q.den[m] : (vf){};
            store_part(at(t->inverse, b, token) + feature, inverse, n);
            store_part(at(t->out, b, token) + feature, live ? q.num[m] * inverse : (vf){}, n);
        }
    }
}

typedef struct {
    vf query[Q], grad[Q], out[Q], gb[Q];
} Slopes;

/* With w the weight and g the gradient over the denominator: dx_i = sum_j w g_j; the score's gradient
 * is w g_j (x_i - out_j), and tanh passes on 1 - tanh^2 = 4 s (1 - s) of it. */
static inline __attribute__((always_inline)) void backward_keys(
    const Row *r, const Task *t, int64_t j, int64_t from, int64_t to, Slopes *q, int factors, int edge,
    int drop) {
    for (int64_t i = from; i < to; i++) {
        vf key = load(r->key + i * VL), x = load(r->value + i * VL), s;
        vf gx = load(r->gx + i * VL), ga = load(r->ga + i * VL);
        UNROLL {
            if (edge && !(r->lo[j + m] <= i && i < r->hi[j + m])) continue;
            vf w = weight(t, key, q->query[m], &s, factors) * q->grad[m];
            float f = drop ? r->drop[m * t->length + i] : 1.0f;
            vf df = w * ((drop ? x * f : x) - q->out[m]) * (s - s * s);
            gx += drop ? w * f : w;
            ga += df;
            q->gb[m] += df;
        }
        store(r->gx + i * VL, gx);
        store(r->ga + i * VL, ga);
    }
}

static void row_backward(Row *r, const Task *t, int64_t b, int64_t mask, int64_t feature, int64_t n) {
    memset(r->gx, 0, r->keys * VL * sizeof(float));
    memset(r->ga, 0, r->keys * VL * sizeof(float));
    for (int64_t j = 0; j < r->queries; j += Q) {
        Span s = span_of(r, j);
        Slopes q = {};
        UNROLL if (j + m < r->queries) {
            int64_t token = r->position[j + m];
            prefetch_later(t->out, b, token, feature);
            prefetch_later(t->grad, b, token, feature);
            prefetch_later(t->inverse, b, token, feature);
            prefetch_later(t->gb, b, token, feature);
            q.query[m] = load(r->query + (j + m) * VL);
            q.out[m] = load_part(at(t->out, b, token) + feature, n);
            q.grad[m] = load_part(at(t->grad, b, token) + feature, n) *
                        load_part(at(t->inverse, b, token) + feature, n);
        }
        int drop = t->keep < 1;
        if (drop) fill_drop(r, t, b, mask, j, s.lo, s.hi);
        int64_t part[] = {s.lo, s.all, s.end, s.hi};
        BY_PART(backward_keys);
        for (int64_t m = 0; m < Q && j + m < r->queries; m++)
            store_part(at(t->gb, b, r->position[j + m]) + feature, 4.0f * q.gb[m], n);
    }
    for (int64_t i = 0; i < r->keys; i++) {
        int64_t token = r->key_position[i];
        prefetch_later(t->gx, b, token, feature);
        prefetch_later(t->ga, b, token, feature);
        vf gx = load(r->gx + i * VL);
        if (t->keep < 1) gx *= value_factors(t, b, token, feature);
        store_part(at(t->gx, b, token) + feature, gx, n);
        store_part(at(t->ga, b, token) + feature, 4.0f * load(r->ga + i * VL), n);
    }
}

/* Vectors of features in all groups of a sentence. */
static int64_t vectors(const Task *t) {
    int64_t count = 0;
    for (int64_t g = 0; g < t->groups; g++) count += round_up(t->begin[g + 1] - t->begin[g], VL) / VL;
    return count;
}

static void *work(void *argument) {
    Work *w = argument;
    const Task *t = w->task;
    Row r = {0};
    w->failed |= !row_alloc(&r, t);
    int64_t each = vectors(t);
    for (int64_t unit; !w->failed && (unit = take(w)) >= 0;) {
        int64_t b = unit / each, vector = unit % each, group = 0;
        for (;; group++) {
            int64_t here = round_up(t->begin[group + 1] - t->begin[group], VL) / VL;
            if (vector < here) break;
            vector -= here;
        }
        int64_t feature = t->begin[group] + vector * VL, n = t->begin[group + 1] - feature;
        row_ranges(&r, t, b, group);
        row_pack(&r, t, b, feature, n);
        (w->backward ? row_backward : row_forward)(&r, t, b, t->mask[group], feature, n);
    }
    row_free(&r);
    return NULL;
}

/* Run a task; 0, or 1 where memory ran out. Padded tokens are not written: the caller gives zeros. */
int disa_run(const Task *task, int backward) {
    Work w = {.task = task, .backward = backward, .units = task->batch * vectors(task)};
    /* A thread should have at least some tens of microseconds of work. */
    int64_t useful = w.units * task->length * task->length / 10000 + 1;
    return share(&w, work, task->threads, useful);
}
