/* What one call is about, and what one sentence of it needs in the memory of a thread. */
#ifndef SELFATTN_DISA_TASK_H
#define SELFATTN_DISA_TASK_H
#include <stdlib.h>
#include "rng.h"
#include "simd.h"
#include "work.h"

enum { Q = 4 }; /* queries that run over the keys together, in registers */

/* Mirrored by `_Task` in __init__.py: change both. A group is neighbouring features of one mask. */
typedef struct {
    Tensor x, a, b, out;         /* inputs and output, (B, 1, T, C) */
    Tensor grad, gx, ga, gb;     /* backward only */
    Tensor inverse;              /* 1 / denominator, relative to exp(c); 0 where nobody is seen */
    const uint8_t *padding;      /* (B, T) or NULL */
    const int64_t *left, *right; /* (groups): visible offsets key - query, both ends included */
    const int64_t *begin;        /* (groups + 1): first feature */
    const int64_t *mask;         /* (groups): number of its first mask, which dropout counts */
    int64_t batch, length, groups, masks;
    int64_t threads;
    float gain;                  /* 2 / c in units of log 2 */
    float low;                   /* -2c in units of log 2 */
    float keep;                  /* probability of keeping each dropout factor; 1: no dropout */
    uint64_t seed;
} Task;

/* VL features of one sentence, a vector for each token. Tokens are packed: padding is left out. */
typedef struct {
    int64_t tokens;              /* real tokens */
    int64_t *position;           /* packed token -> position */
    int64_t *lo, *hi;            /* packed keys [lo, hi) that a query sees; Q more that see none */
    float *key, *query;          /* a and b; or exp(2a/c) and exp(2b/c) where `factors` */
    float *value;                /* x, times its dropout factor */
    float *gx, *ga;              /* sums over the queries */
    float *drop;                 /* (Q, T): dropout factors of pairs */
    float *memory;
    int factors;
} Row;

static inline float *at(Tensor t, int64_t b, int64_t i) {
    return t.data + b * t.stride[0] + i * t.stride[2];
}

static int row_alloc(Row *r, const Task *t) {
    int64_t T = t->length, vectors = round_up(T * VL, 16);
    r->memory = calloc(5 * vectors + Q * T + 16, sizeof(float));
    r->position = calloc(3 * T + 2 * Q, sizeof(int64_t));
    if (!r->memory || !r->position) return 0;
    r->lo = r->position + T;
    r->hi = r->lo + T + Q;
    r->key = (float *)(((uintptr_t)r->memory + 63) / 64 * 64);
    r->query = r->key + vectors;
    r->value = r->query + vectors;
    r->gx = r->value + vectors;
    r->ga = r->gx + vectors;
    r->drop = r->ga + vectors;
    return 1;
}

static void row_free(Row *r) {
    free(r->memory);
    free(r->position);
}

/* Which packed keys each query sees: an interval again, because padding only takes keys away. */
static void row_ranges(Row *r, const Task *t, int64_t b, int64_t group) {
    const uint8_t *hidden = t->padding ? t->padding + b * t->length : NULL;
    int64_t left = t->left[group], right = t->right[group], lo = 0, hi = 0;
    r->tokens = 0;
    for (int64_t i = 0; i < t->length; i++)
        if (!hidden || !hidden[i]) r->position[r->tokens++] = i;
    for (int64_t j = 0; j < r->tokens; j++) {
        while (lo < r->tokens && r->position[lo] < r->position[j] + left) lo++;
        while (hi < r->tokens && r->position[hi] <= r->position[j] + right) hi++;
        r->lo[j] = lo;
        r->hi[j] = hi > lo ? hi : lo;
    }
    for (int64_t j = r->tokens; j < r->tokens + Q; j++) r->lo[j] = r->hi[j] = 0;
}
#endif
