/* Vectors, 2^x and the one matrix product of the CPU kernels, in the compiler's vector types, so that
 * one text serves AVX-512, AVX2 and anything narrower. */
#ifndef SELFATTN_SIMD_H
#define SELFATTN_SIMD_H
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

/* VL floats in a vector; a product has MR rows and up to NV vectors of columns in registers. */
#if defined(__AVX512F__)
enum { VL = 16, MR = 8, NV = 3 };
#elif defined(__AVX__)
enum { VL = 8, MR = 4, NV = 3 };
#else
enum { VL = 4, MR = 4, NV = 3 };
#endif

typedef float vf __attribute__((vector_size(VL * 4), aligned(4)));
typedef int32_t vi __attribute__((vector_size(VL * 4), aligned(4)));
typedef uint32_t vu __attribute__((vector_size(VL * 4), aligned(4))); /* whose overflow C defines */

static inline vf load(const float *p) { return *(const vf *)p; }
static inline void store(float *p, vf x) { *(vf *)p = x; }
static inline vf splat(float x) { return x - (vf){}; } /* x + 0 would be a real addition */
/* The first n floats, zeros after them; and the reverse. n may be above VL, or 0. */
#if defined(__AVX512F__)
static inline __mmask16 first(int64_t n) { return n >= VL ? 0xffff : (1u << n) - 1; }
static inline vf load_part(const float *p, int64_t n) {
    return (vf)_mm512_maskz_loadu_ps(first(n), p);
}
static inline void store_part(float *p, vf x, int64_t n) {
    _mm512_mask_storeu_ps(p, first(n), (__m512)x);
}
#else
static inline vf load_part(const float *p, int64_t n) {
    if (n >= VL) return load(p);
    float buffer[VL] = {0};
    for (int64_t i = 0; i < n; i++) buffer[i] = p[i];
    return load(buffer);
}
static inline void store_part(float *p, vf x, int64_t n) {
    if (n >= VL) {
        store(p, x);
        return;
    }
    float buffer[VL];
    store(buffer, x);
    for (int64_t i = 0; i < n; i++) p[i] = buffer[i];
}
#endif
static inline vf pick(vi yes, vf a, vf b) { return (vf)((yes & (vi)a) | (~yes & (vi)b)); }
static inline vf vmax(vf a, vf b) { return pick(a < b, b, a); } /* keeps a NaN in a */

static inline float largest(const float *p, int64_t n) {
    vf top = splat(-INFINITY);
    int64_t i = 0;
    for (; i + VL <= n; i += VL) top = vmax(top, load(p + i));
    float found = -INFINITY;
    for (int x = 0; x < VL; x++) found = top[x] > found ? top[x] : found;
    for (; i < n; i++) found = p[i] > found ? p[i] : found;
    return found;
}
static inline float total(vf x) {
    float sum = 0;
    for (int i = 0; i < VL; i++) sum += x[i];
    return sum;
}

/* Ask for n floats that are needed soon, such as AHEAD tokens later: rows of a head lie far apart, and
 * processors do not foresee the next one. Behind the end of a tensor it does no harm. */
enum { AHEAD = 8 };
static inline void prefetch(const float *p, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) __builtin_prefetch(p + i); /* lines of 64 bytes */
    __builtin_prefetch(p + n - 1);
}

static inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* 2^f for f in [-1/2, 1/2]: a polynomial fitted at Chebyshev's points, relative error 3e-9 and rounding. */
static inline vf exp2_fraction(vf f) {
    vf y = splat(1.54697320e-4f);
    y = y * f + 1.34004322e-3f;
    y = y * f + 9.61802560e-3f;
    y = y * f + 5.55032721e-2f;
    y = y * f + 2.40226512e-1f;
    y = y * f + 6.93147207e-1f;
    return y * f + 1.0f;
}

/* 2^x, relative error 1e-7; 0 below x = -126, so that no result is denormal. From 128 on it means
 * nothing: so large are weights of keys that are not seen, and cleared later. */
static inline vf exp2v(vf x) {
    const vf tiny = splat(-126.0f), magic = splat(12582912.0f); /* 1.5 * 2^23 rounds to integers */
    vi small = x < tiny;
    x = vmax(x, tiny);
    vf whole = (x + magic) - magic, y = exp2_fraction(x - whole);
    y = (vf)((vu)y + ((vu)__builtin_convertvector(whole, vi) << 23));
    return (vf)(~small & (vi)y);
}

/* Keep a value in a register: with 16 of them, GCC reads B from memory again for every row. */
#if defined(__AVX__) && !defined(__AVX512F__)
#define KEEP(x) __asm__("" : "+x"(x))
#else
#define KEEP(x)
#endif

/* C[MR][n vectors] (+)= A[MR][K] B[K][n vectors]; A's element (m, k) is a[m * am + k * ak], and B's vector
 * (k, x) begins at b[k * bk + x * bx]. */
#define MICRO(NAME, COUNT)                                                                        \
    static inline void NAME(int64_t K, const float *a, int64_t am, int64_t ak, const float *b,    \
                            int64_t bk, int64_t bx, float *c, int64_t ldc, int add) {             \
        vf sum[MR][COUNT];                                                                        \
        _Pragma("GCC unroll 8") for (int m = 0; m < MR; m++)                                      \
            _Pragma("GCC unroll 4") for (int x = 0; x < COUNT; x++)                               \
                sum[m][x] = add ? load(c + m * ldc + x * VL) : (vf){};                            \
        for (int64_t k = 0; k < K; k++, a += ak, b += bk) {                                       \
            vf row[COUNT];                                                                        \
            _Pragma("GCC unroll 4") for (int x = 0; x < COUNT; x++) {                             \
                row[x] = load(b + x * bx);                                                        \
                KEEP(row[x]);                                                                     \
            }                                                                                     \
            _Pragma("GCC unroll 8") for (int m = 0; m < MR; m++) {                                \
                vf left = splat(a[m * am]);                                                       \
                _Pragma("GCC unroll 4") for (int x = 0; x < COUNT; x++) sum[m][x] += left * row[x];\
            }                                                                                     \
        }                                                                                         \
        _Pragma("GCC unroll 8") for (int m = 0; m < MR; m++)                                      \
            _Pragma("GCC unroll 4") for (int x = 0; x < COUNT; x++)                               \
                store(c + m * ldc + x * VL, sum[m][x]);                                           \
    }
MICRO(micro1, 1)
MICRO(micro2, 2)
MICRO(micro3, 3)

/* The same for any number of columns that is a multiple of VL. */
static inline void gemm(int64_t n, int64_t K, const float *a, int64_t am, int64_t ak, const float *b,
                        int64_t bk, int64_t bx, float *c, int64_t ldc, int add) {
    for (; n >= NV * VL && n != 4 * VL; n -= NV * VL, b += NV * bx, c += NV * VL)
        micro3(K, a, am, ak, b, bk, bx, c, ldc, add);
    for (; n >= 2 * VL; n -= 2 * VL, b += 2 * bx, c += 2 * VL)
        micro2(K, a, am, ak, b, bk, bx, c, ldc, add);
    if (n) micro1(K, a, am, ak, b, bk, bx, c, ldc, add);
}

/* The transpose of a matrix whose sides are multiples of VL, VL of its columns after the other:
 * out[i / VL][c][i % VL] = in[i][c], so that a product reads memory in order. In blocks of VL x VL: in
 * each of log2(VL) steps, pairs of rows exchange the lanes that are `d` apart. */
static inline void transpose(const float *in, int64_t rows, int64_t columns, float *out) {
    for (int64_t i = 0; i < rows; i += VL)
        for (int64_t c = 0; c < columns; c += VL, out += VL * VL) {
#if defined(__clang__)
            for (int64_t y = 0; y < VL; y++)
                for (int64_t x = 0; x < VL; x++) out[x * VL + y] = in[(i + y) * columns + c + x];
#else
            vf row[VL];
            _Pragma("GCC unroll 16") for (int y = 0; y < VL; y++)
                row[y] = load(in + (i + y) * columns + c);
            _Pragma("GCC unroll 4") for (int d = VL / 2; d > 0; d /= 2) {
                vi low, high;
                _Pragma("GCC unroll 16") for (int x = 0; x < VL; x++) {
                    low[x] = x & d ? VL + x - d : x;
                    high[x] = x & d ? VL + x : x + d;
                }
                _Pragma("GCC unroll 16") for (int y = 0; y < VL; y++) {
                    if (y & d) continue;
                    vf a = row[y], b = row[y + d];
                    row[y] = __builtin_shuffle(a, b, low);
                    row[y + d] = __builtin_shuffle(a, b, high);
                }
            }
            _Pragma("GCC unroll 16") for (int x = 0; x < VL; x++) store(out + x * VL, row[x]);
#endif
        }
}
#endif
