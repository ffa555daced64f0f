/* Tensors as Python hands them over, and independent units of work for several threads. */
#ifndef SELFATTN_WORK_H
#define SELFATTN_WORK_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

/* A (B, H, T, n) tensor whose last dimension is contiguous; strides count elements. `View` in Python. */
typedef struct {
    float *data;
    int64_t stride[3];
} Tensor;

typedef struct {
    const void *task;
    int backward;
    int64_t units;
    atomic_llong next; /* the unit that nobody has taken yet */
    atomic_int failed; /* 1 where memory ran out */
    int64_t wanted;    /* threads that have something to do */
    atomic_llong came; /* threads that asked */
    void *(*body)(void *);
} Work;

/* The next unit for this thread, or -1. */
static inline int64_t take(Work *w) {
    int64_t unit = atomic_fetch_add(&w->next, 1);
    return unit < w->units ? unit : -1;
}

/* OpenMP's entry for a parallel region, if the process has one: torch's threads, which spin for a
 * while when their work is done, would only be in the way of others. */
#if defined(__linux__)
extern void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned) __attribute__((weak));
#else
static void (*const GOMP_parallel)(void (*)(void *), void *, unsigned, unsigned) = NULL;
#endif

/* The process that Python imported us in: OpenMP's threads do not survive a fork, and a child would
 * wait for them forever. */
pid_t born;

static void enter(void *argument) {
    Work *w = argument;
    if (atomic_fetch_add(&w->came, 1) < w->wanted) w->body(w);
}

/* Let the `useful` ones of torch's threads, this one among them, run `body`; returns `failed`. */
static int share(Work *w, void *(*body)(void *), int64_t threads, int64_t useful) {
    pthread_t helper[256];
    int64_t wanted = useful < threads ? useful : threads, started = 0;
    if (wanted > w->units) wanted = w->units;
    if (wanted > 256) wanted = 256;
    w->wanted = wanted;
    w->body = body;
    if (wanted > 1 && GOMP_parallel && getpid() == born) {
        /* All of them: for a smaller team, libgomp ends threads that torch then starts again. */
        GOMP_parallel(enter, w, threads, 0);
        return w->failed;
    }
    while (started < wanted - 1 && !pthread_create(&helper[started], NULL, body, w)) started++;
    body(w);
    for (int64_t i = 0; i < started; i++) pthread_join(helper[i], NULL);
    return w->failed;
}
#endif
