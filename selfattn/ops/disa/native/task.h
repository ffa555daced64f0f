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
    const uint8_t *padding;      /* (B, T) or NULL: what does not attend */
    const uint8_t *unseen;       /* (B, T) or NULL: what is no key */
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

/* VL features of one sentence, a vector for each token. Queries and keys are packed, each for
 * themselves: what is hidden is left out. */
typedef struct {
    int64_t queries, keys;       /* how many */
    int64_t *position;           /* packed query -> position */
    int64_t *key_position;       /* packed key -> position */
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

/* Ask for the vector of a later token. */
static inline void prefetch_later(Tensor t, int64_t b, int64_t token, int64_t feature) {
    prefetch(at(t, b, token + AHEAD) + feature, VL);
}

static int row_alloc(Row *r, const Task *t) {
    int64_t T = t->length, vectors = round_up(T * VL, 16);
    r->memory = calloc(5 * vectors + Q * T + 16, sizeof(float));
    r->position = calloc(4 * T + 2 * Q, sizeof(int64_t));
    if (!r->memory || !r->position) return 0;
    r->key_position = r->position + T;
    r->lo = r->key_position + T;
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

/* The positions of sentence b that are not hidden; returns how many. */
static int64_t pack(const uint8_t *hidden, int64_t b, int64_t length, int64_t *position) {
    int64_t count = 0;
    for (int64_t i = 0; i < length; i++)
        if (!hidden || !hidden[b * length + i]) position[count++] = i;
    return count;
}

/* Which packed keys each query sees: an interval again, because hiding only takes keys away. */
static void row_ranges(Row *r, const Task *t, int64_t b, int64_t group) {
    int64_t left = t->left[group], right = t->right[group], lo = 0, hi = 0;
    r->queries = pack(t->padding, b, t->length, r->position);
    r->keys = pack(t->unseen, b, t->length, r->key_position);
    for (int64_t j = 0; j < r->queries; j++) {
        while (lo < r->keys && r->key_position[lo] < r->position[j] + left) lo++;
        while (hi < r->keys && r->key_position[hi] <= r->position[j] + right) hi++;
        r->lo[j] = lo;
        r->hi[j] = hi > lo ? hi : lo;
    }
    for (int64_t j = r->queries; j < r->queries + Q; j++) r->lo[j] = r->hi[j] = 0;
}
#endif
