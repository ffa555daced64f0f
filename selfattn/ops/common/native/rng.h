/* Dropout factors from a counter: the same in forward, backward and in `dropout.py`, which computes
 * them again in Python. Change both. */
#ifndef SELFATTN_RNG_H
#define SELFATTN_RNG_H
#include "simd.h"

static inline uint32_t mix(uint32_t x) { /* the finaliser of MurmurHash3, a bijection */
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* The key of one line of factors; kind 0 is (query, key) pairs, 1 is (key, feature) pairs. */
static inline void line_key(uint64_t seed, uint64_t line, uint32_t kind, uint32_t key[2]) {
    uint32_t a = mix((uint32_t)seed ^ mix((uint32_t)line + kind * 0x9e3779b9u));
    uint32_t b = mix((uint32_t)(seed >> 32) ^ mix((uint32_t)(line >> 32) ^ a));
    key[0] = a ^ b;
    key[1] = mix(a + 0x9e3779b9u) ^ b;
}

/* Factor i of a line: 1 / keep or 0. */
static inline float factor(const uint32_t key[2], uint32_t i, uint32_t threshold, float scale) {
    return mix(mix(i ^ key[0]) + key[1]) < threshold ? scale : 0.0f;
}

/* Factors of a line in the columns index[0], index[1], ... or, without an index, first, first + 1, ... */
static inline void fill_factors(float *restrict out, uint64_t seed, uint64_t line, uint32_t kind,
                                const int64_t *restrict index, uint32_t first, int64_t count,
                                float keep) {
    uint32_t key[2], threshold = (uint32_t)(keep * 4294967296.0);
    float scale = 1 / keep;
    line_key(seed, line, kind, key);
    if (index)
        for (int64_t i = 0; i < count; i++) out[i] = factor(key, index[i], threshold, scale);
    else
        for (int64_t i = 0; i < count; i++) out[i] = factor(key, first + i, threshold, scale);
}
#endif
