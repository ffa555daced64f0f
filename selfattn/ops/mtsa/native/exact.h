/* Equation 11 as printed, in double, for the few queries whose weights float32 lost to underflow:
 * a softmax over the keys for each feature, with a maximum of its own. */
#ifndef SELFATTN_EXACT_H
#define SELFATTN_EXACT_H
#include "rng.h"
#include "task.h"

typedef struct {
    double *score; /* (T): sigma_t(R) with the bias by distance */
    double *slope; /* (T): sigma_t's derivative */
    double *dr;    /* (T): gradient of the score */
    float *pair;   /* (T): dropout factor of the query's pairs */
} Query;

static void query_scores(Query *x, const Row *r, const Task *t, int64_t b, int64_t h, int64_t j) {
    const float *q = at(t->q, b, h, j);
    for (int64_t i = r->lo[j]; i < r->hi[j]; i++) {
        const float *k = at(t->k, b, h, r->position[i]);
        double dot = 0;
        for (int64_t c = 0; c < t->inner; c++) dot += (double)q[c] * k[c];
        dot *= t->scale;
        x->score[i] = t->logsigmoid ? (dot < 0 ? dot : 0) - log1p(exp(-fabs(dot))) : dot;
        if (t->bias) x->score[i] += t->bias[h * t->length + distance(r, j, i)];
        x->slope[i] = t->logsigmoid ? 1 / (1 + exp(dot)) : 1; /* sigmoid(-R) */
        x->dr[i] = 0;
        x->pair[i] = 1;
    }
    if (t->keep < 1)
        fill_factors(x->pair + r->lo[j], t->seed, (b * t->heads + h) * t->length + j, 0,
                     r->position + r->lo[j], 0, r->hi[j] - r->lo[j], t->keep);
}

/* Whether a query must be computed again: not if NaN is all that is wrong, and NaN went in. */
static int worth_exact(const float *den, const Row *r, const Task *t, int64_t b, int64_t h,
                       int64_t j) {
    const float *q = at(t->q, b, h, j);
    int nan = 0;
    for (int64_t l = 0; l < t->scores; l++)
        if (den[l] < SMALLEST) return 1;
    for (int64_t c = 0; c < t->inner; c++) nan |= q[c] != q[c];
    for (int64_t i = r->lo[j]; i < r->hi[j]; i++) {
        const float *k = at(t->k, b, h, r->position[i]), *s = at(t->s, b, h, r->position[i]);
        for (int64_t c = 0; c < t->inner; c++) nan |= k[c] != k[c];
        for (int64_t l = 0; l < t->scores; l++) nan |= s[l] != s[l];
    }
    return !nan;
}

/* H of one query or, in backward, its share of all gradients. */
static void exact_query(Query *x, Row *r, const Task *t, int64_t b, int64_t h, int64_t j,
                        int backward) {
    int64_t lo = r->lo[j], hi = r->hi[j];
    query_scores(x, r, t, b, h, j);
    for (int64_t l = 0; l < t->width; l++) {
        double top = -INFINITY, sum = 0, mean = 0;
        int64_t of = shared(t) ? 0 : l;
#define SCORE(i) (x->score[i] + at(t->s, b, h, r->position[i])[of])
#define DROP(i) (t->keep_features < 1 ? x->pair[i] * r->drop[(i) * t->width + l] : x->pair[i])
        for (int64_t i = lo; i < hi; i++) top = SCORE(i) > top ? SCORE(i) : top; /* eq. 10 */
        for (int64_t i = lo; i < hi; i++) {
            double weight = exp(SCORE(i) - top); /* eq. 11 */
            sum += weight;
            mean += weight * DROP(i) * at(t->v, b, h, r->position[i])[l];
        }
        mean /= sum; /* eq. 12 */
        if (!backward) {
            at(t->h, b, h, j)[l] = (float)mean;
            continue;
        }
        double g = at(t->grad, b, h, j)[l];
        for (int64_t i = lo; i < hi; i++) {
            int64_t key = r->position[i];
            double weight = exp(SCORE(i) - top) / sum, drop = DROP(i);
            double dz = weight * g * (drop * at(t->v, b, h, key)[l] - mean);
            at(t->gv, b, h, key)[l] += (float)(weight * drop * g);
            at(t->gs, b, h, key)[of] += (float)dz;
            x->dr[i] += dz;
        }
#undef SCORE
#undef DROP
    }
    for (int64_t i = lo; backward && i < hi; i++) {
        if (t->bias)
            t->gbias[(b * t->heads + h) * t->length + distance(r, j, i)] += (float)x->dr[i];
        float dr = (float)(x->dr[i] * x->slope[i] * t->scale);
        const float *q = at(t->q, b, h, j), *k = at(t->k, b, h, r->position[i]);
        float *gq = at(t->gq, b, h, j), *gk = at(t->gk, b, h, r->position[i]);
        for (int64_t c = 0; c < t->inner; c++) {
            gq[c] += dr * k[c];
            gk[c] += dr * q[c];
        }
    }
}

/* All queries of a row that are marked; 0, or 1 where memory ran out. */
static int exact_row(Row *r, const Task *t, int64_t b, int64_t h, int backward) {
    const uint8_t *marked = t->exact + (b * t->heads + h) * t->length;
    if (!memchr(marked, 1, t->length)) return 0;
    Query x;
    x.score = malloc(t->length * (3 * sizeof(double) + sizeof(float)));
    if (!x.score) return 1;
    x.slope = x.score + t->length;
    x.dr = x.slope + t->length;
    x.pair = (float *)(x.dr + t->length);
    for (int64_t j = 0; j < t->length; j++)
        if (marked[j]) exact_query(&x, r, t, b, h, j, backward);
    free(x.score);
    return 0;
}
#endif
