/* What one call is about, and what one (sentence, head) row of it needs before and after the tiles. */
#ifndef SELFATTN_TASK_H
#define SELFATTN_TASK_H
#include <stdlib.h>
#include "simd.h"
#include "work.h"

static const float LOG2E = 1.44269504f;
/* A denominator above this has lost at most T * 1e-13 of its weight to underflow. */
static const float SMALLEST = 1e-25f;

/* Mirrored by `_Task` in __init__.py: change both. */
typedef struct {
    Tensor q, k, v, s;             /* (B, H, T, .), of inner, inner, width and scores features */
    Tensor h;                      /* output, (B, H, T, width) */
    Tensor grad, gq, gk, gv, gs;   /* backward only */
    float *inverse;                /* (B, H, T, scores): 1 / denominator; 0 where nobody is seen */
    float *peak;                   /* (B, H, T): row maxima of R in units of log 2 */
    float *shift;                  /* (B, H, scores): maxima over the keys of s */
    uint8_t *exact;                /* (B, H, T): 1 where float32 lost the weights */
    const uint8_t *padding;        /* (B, T) or NULL */
    const int64_t *left, *right;   /* (H): visible offsets key - query, both ends included */
    const float *bias;             /* (H, T): added to sigma_t(R) by distance in positions, or NULL */
    float *gbias;                  /* (B, H, T): its gradient for each row; zeros at first */
    int64_t batch, heads, length, inner, width;
    int64_t scores;                /* of a key: `width`, or 1 for all of its features */
    int64_t logsigmoid;
    int64_t threads;
    float scale;                   /* 1 / sqrt(inner) */
    float keep, keep_features;     /* probabilities of keeping a pair, or a feature of a key; 1: no dropout */
    uint64_t seed;
} Task;

/* The memory of one thread, for one row at a time. Keys are packed: padding is left out. */
typedef struct {
    int64_t keys;                  /* real keys */
    int64_t base, span;            /* first key of those that are looked at, and how many */
    int64_t ld;                    /* columns of everything that has keys as columns */
    int64_t e;                     /* first column of E in u, which has `scores`: width, or beyond */
    int64_t wide, narrow;          /* columns of u and of kp */
    int64_t *position;             /* (T): packed key -> position */
    int64_t *lo, *hi;              /* (T): packed keys [lo, hi) that a query sees */
    float *kp, *kt;                /* (keys, narrow): keys; the same, transposed */
    float *u, *ut;                 /* (keys, wide): [v * E | E], the first with dropout; its transpose */
    float *drop;                   /* (keys, width): dropout factor of v * E */
    float *p, *pd, *gr;            /* (queries, ld): weights, the same with dropout, gradient */
    float *slope;                  /* (queries, ld): sigma_t's derivative, where there is a bias */
    float *far, *top;              /* (ld): bias of one query's keys in units of log 2; (T): maxima */
    float *mirror, *gmirror;       /* (mirror_size): bias by key - query, its gradient; zeros at both ends */
    float *q, *dn, *out;           /* (queries, .): scaled queries, gradients of [N | D], results */
    float *gu, *gk, *gq;           /* (keys, wide), (keys, narrow), (T, narrow): sums */
    float *memory;
} Row;

static inline float *at(Tensor t, int64_t b, int64_t h, int64_t i) {
    return t.data + b * t.stride[0] + h * t.stride[1] + i * t.stride[2];
}

/* A packed key counted from `base`, or the next one that is looked at. */
static inline int64_t inside(const Row *r, int64_t key) {
    key -= r->base;
    return key < 0 ? 0 : key < r->span ? key : r->span;
}

/* Whether the features of a key share one source2token score, so that E is a single column. */
static inline int shared(const Task *t) { return t->scores < t->width; }
/* Vector l of what has `scores` columns, for the features of a key or a query. */
static inline vf load_shared(const float *p, int64_t l, const Task *t) {
    return shared(t) ? splat(*p) : load_part(p + l, t->width - l);
}

/* Distance in positions between query j and packed key i. */
static inline int64_t distance(const Row *r, int64_t j, int64_t i) {
    int64_t offset = r->position[i] - j;
    return offset < 0 ? -offset : offset;
}

/* Where `mirror` has the distance 0, and how long it is: a vector may begin or end beside its keys. */
static inline int64_t middle(const Task *t) { return 2 * VL + t->length - 1; }
static inline int64_t mirror_size(const Task *t) { return 2 * middle(t) + 1; }

/* Where the packed keys [lo, hi) that query j sees begin in `mirror`; -1 if padding lies between them. */
static inline int64_t mirrored(const Row *r, const Task *t, int64_t j, int64_t lo, int64_t hi) {
    int64_t first = r->position[lo];
    return r->position[hi - 1] - first == hi - 1 - lo ? middle(t) + first - j : -1;
}

static int row_alloc(Row *r, const Task *t, int64_t queries, int64_t span, int backward) {
    int64_t T = t->length, D = t->width;
    r->span = span < T ? span : T;
    r->e = t->keep < 1 ? round_up(D, VL) : D;
    r->wide = round_up(r->e + t->scores, VL);
    r->narrow = round_up(t->inner, VL);
    r->ld = round_up(r->span, VL) + VL; /* more than a power of 2, where rows would collide */
    int64_t keys = round_up(T, VL), size[] = {
        keys * r->narrow, keys * r->narrow, keys * r->wide, backward ? keys * r->wide : 0,
        t->keep_features < 1 ? keys * D : 0, queries * r->ld, t->keep < 1 ? queries * r->ld : 0,
        backward ? queries * r->ld : 0, queries * r->narrow, queries * r->wide,
        MR * r->wide, backward ? keys * r->wide : 0, backward ? keys * r->narrow : 0,
        backward ? round_up(T, MR) * r->narrow : 0, t->bias && backward ? queries * r->ld : 0,
        t->bias ? r->ld : 0, t->bias ? T : 0, t->bias ? mirror_size(t) : 0,
        t->bias && backward ? mirror_size(t) : 0};
    float **part[] = {&r->kp, &r->kt, &r->u, &r->ut, &r->drop, &r->p, &r->pd, &r->gr, &r->q, &r->dn,
                      &r->out, &r->gu, &r->gk, &r->gq, &r->slope, &r->far, &r->top,
                      &r->mirror, &r->gmirror};
    int64_t total = 0, count = sizeof(size) / sizeof(*size);
    for (int64_t i = 0; i < count; i++) total += round_up(size[i], 16);
    r->memory = calloc(total + 16, sizeof(float));
    r->position = malloc(3 * T * sizeof(int64_t));
    if (!r->memory || !r->position) return 0;
    r->lo = r->position + T;
    r->hi = r->lo + T;
    float *next = (float *)(((uintptr_t)r->memory + 63) / 64 * 64);
    for (int64_t i = 0; i < count; i++) {
        *part[i] = next;
        next += round_up(size[i], 16);
    }
    return 1;
}

static void row_free(Row *r) {
    free(r->memory);
    free(r->position);
}

/* Which packed keys each query sees: an interval again, because padding only takes keys away. */
static void row_ranges(Row *r, const Task *t, int64_t b, int64_t h) {
    const uint8_t *hidden = t->padding ? t->padding + b * t->length : NULL;
    int64_t T = t->length, left = t->left[h], right = t->right[h], before = 0, lo = 0, hi = 0;
    int64_t first = 0, last = 0; /* how far lo and hi have counted */
    for (int64_t i = 0; i < T; i++)
        if (!hidden || !hidden[i]) r->position[before++] = i;
    r->keys = before;
    for (int64_t j = 0; j < T; j++) {
        int64_t begin = j + left < 0 ? 0 : j + left, end = j + right + 1 > T ? T : j + right + 1;
        for (; first < begin && first < T; first++) lo += !hidden || !hidden[first];
        for (; last < end; last++) hi += !hidden || !hidden[last];
        r->lo[j] = lo;
        r->hi[j] = hi > lo ? hi : lo;
    }
}
#endif
