/* Decay attention of float32: y_j = sum_i p_ij v_i, and backward the transposed product. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* in, out: (batch, length, width), contiguous; out holds zeros. hidden: (batch, length) or null. */
int decay_run(const float *in, float *out, const uint8_t *hidden, int64_t batch, int64_t length,
              int64_t width, float rate, int backward) {
  for (int64_t b = 0; b < batch; b++) {
    const uint8_t *gone = hidden ? hidden + b * length : 0;
    const float *from = in + b * length * width;
    float *to = out + b * length * width;
    for (int64_t j = 0; j < length; j++) {
      if (gone && gone[j]) continue;
      float sum = 0;
      for (int64_t i = 0; i < length; i++)
        if (!gone || !gone[i]) sum += expf(-rate * (float)llabs(i - j));
      for (int64_t i = 0; i < length; i++) {
        if (gone && gone[i]) continue;
        float p = expf(-rate * (float)llabs(i - j)) / sum;
        const float *read = from + (backward ? j : i) * width;
        float *write = to + (backward ? i : j) * width;
        for (int64_t f = 0; f < width; f++) write[f] += p * read[f];
      }
    }
  }
  return 0;
}
