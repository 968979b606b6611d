// What is called from Python, and by blocks.cpp: arguments as ctypes lays them out. Pointers to
// tokens are of float32, or of bfloat16 where `bfloat16` is not 0.
#pragma once
#include <cstdint>

struct Norm {
  const float* weight;  // [width], or [heads, width]; null: there is no norm
  const float* bias;    // [width] or null
  float eps;
  int32_t rms;  // the mean is not subtracted
};

struct Join {
  Norm behind, sum, next;
};

struct Attention {
  int64_t heads, kv_heads, head_dim;
  int64_t before, behind;  // how many keys are seen to each side; more than any length: all are
  int64_t biased;          // whether anything but what hides keys is added to scores
  float scale;             // of scores, times log2(e)
};

struct Linear {
  const uint32_t* weight;  // [panels][inputs / PER_WORD][32]
  const float* bias;       // [panels · 32]
  int64_t inputs, outputs;
  int64_t activation;
  int64_t gated;  // each panel: 16 columns that are activated, then those they are multiplied with
};

extern "C" {

// qkv [T, heads + 2 · kv_heads, head_dim] -> attended [T, heads, head_dim]. Sequence s owns tokens
// offsets[s] … offsets[s + 1] - 1. `added`: of the first head, where key and query are one token;
// those of the next head are `added_stride` behind. Of distances up to 15 tokens above any length.
void attention(const Attention* layer, const void* qkv, void* attended, const int64_t* offsets,
               int64_t sequences, const float* added, int64_t added_stride, int bfloat16);

// x [rows, inputs] -> out [rows, outputs]
void linear(const Linear* layer, const void* x, void* out, int64_t rows, int bfloat16);

// [rows, width] each: branch becomes the new hidden states; entered, what follows reads of them.
void join(const Join* layer, void* branch, const void* hidden, void* entered, int64_t rows,
          int64_t width, int bfloat16);

// The first `count` heads of each row, in place: normed, then turned by the row of `table`
// [positions, head_dim] of their place, cosines before sines. Rows are `stride` elements apart.
void turn(const Norm* norm, void* heads, int64_t count, int64_t head_dim, int64_t stride,
          const float* table, const int32_t* places, int64_t rows, int bfloat16);

}
