// Sixteen lanes of float32, whatever precision memory holds: loads, stores, products, functions.
//
// Products read 32-bit words: one float32, or two bfloat16 that VDPBF16PS multiplies and adds at
// once. Everything else is computed in float32 and rounded when it is stored.
#pragma once
#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <new>

#define INLINE static inline __attribute__((always_inline))

using Word = uint32_t;
using Lanes = __mmask16;

struct Float32 {
  using Stored = float;
  static constexpr long PER_WORD = 1;
};
struct BFloat16 {
  using Stored = uint16_t;
  static constexpr long PER_WORD = 2;
};

// What ctypes passes: pointers and sizes, which are never negative.
enum Activation : int64_t { IDENTITY, GELU, GELU_TANH, RELU, SILU };

INLINE long at_most(long a, long b) { return a < b ? a : b; }
INLINE long rounded_up(long n, long step) { return (n + step - 1) / step * step; }

// The first `left` of 16 lanes, at most all; none where `left` is not positive.
INLINE Lanes lanes(long left) { return left >= 16 ? 0xffff : left > 0 ? (1u << left) - 1 : 0; }

INLINE __m512 splat(float x) { return _mm512_set1_ps(x); }

INLINE __m512 widened(__m256i x) {  // bfloat16 is the upper half of float32
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

INLINE __m512 load(Float32, const float* from) { return _mm512_loadu_ps(from); }
INLINE __m512 load(BFloat16, const uint16_t* from) {
  return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
INLINE void store(Float32, float* to, __m512 x) { _mm512_storeu_ps(to, x); }
INLINE void store(BFloat16, uint16_t* to, __m512 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(x));
}

// Some of the lanes: zeros are loaded in place of the others. Masked stores are slow on Zen 4 and 5.
INLINE __m512 load(Float32 type, const float* from, Lanes of) {
  return of == 0xffff ? load(type, from) : _mm512_maskz_loadu_ps(of, from);
}
INLINE __m512 load(BFloat16 type, const uint16_t* from, Lanes of) {
  return of == 0xffff ? load(type, from) : widened(_mm256_maskz_loadu_epi16(of, from));
}
INLINE void store(Float32 type, float* to, __m512 x, Lanes of) {
  if (of == 0xffff) return store(type, to, x);
  _mm512_mask_storeu_ps(to, of, x);
}
INLINE void store(BFloat16 type, uint16_t* to, __m512 x, Lanes of) {
  if (of == 0xffff) return store(type, to, x);
  _mm256_mask_storeu_epi16(to, of, (__m256i)_mm512_cvtneps_pbh(x));
}

INLINE __m512 multiply_add(Float32, __m512 sum, __m512i a, __m512i b) {
  return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
}
INLINE __m512 multiply_add(BFloat16, __m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

// sums[r][c] = Σ_k a[r · a_stride + k] · b[k · b_stride + c · column_stride + (0 … 15)], in words.
// The order of a row's sums is that of k: no other row has a part in it. What lies `ahead` of b, for
// the next product, is fetched meanwhile; 0: nothing is.
template <class T, int ROWS, int COLUMNS>
INLINE void multiply(__m512 (&sums)[ROWS][COLUMNS], const Word* a, long a_stride, const Word* b,
                     long b_stride, long column_stride, long depth, const long ahead = 0) {
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
    for (int c = 0; c < COLUMNS; c++) sums[r][c] = _mm512_setzero_ps();
  for (long k = 0; k < depth; k++) {
    __m512i columns[COLUMNS];
#pragma GCC unroll 4
    for (int c = 0; c < COLUMNS; c++)
      columns[c] = _mm512_loadu_si512(b + k * b_stride + c * column_stride);
    if (ahead) {
#pragma GCC unroll 4
      for (int c = 0; c < COLUMNS; c++)
        _mm_prefetch(b + k * b_stride + c * column_stride + ahead, _MM_HINT_T1);
    }
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++) {
      __m512i row = _mm512_set1_epi32(a[r * a_stride + k]);
#pragma GCC unroll 4
      for (int c = 0; c < COLUMNS; c++) sums[r][c] = multiply_add(T(), sums[r][c], row, columns[c]);
    }
  }
}

// 2^x. VREDUCEPS gives x - floor(x), also 0 for -inf; VSCALEFPS multiplies by 2^floor(x). The
// polynomials are minimax on [0, 1): 7.5e-8 of the value, 7.5e-5 where 8 bits are kept.
template <int DEGREE>
INLINE __m512 exp2_by(const float (&coefficients)[DEGREE + 1], __m512 x) {
  __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 p = splat(coefficients[DEGREE]);
#pragma GCC unroll 8
  for (int i = DEGREE - 1; i >= 0; i--) p = _mm512_fmadd_ps(p, f, splat(coefficients[i]));
  return _mm512_scalef_ps(p, x);
}
INLINE __m512 exp2_of(Float32, __m512 x) {
  const float c[6] = {0.99999994f,   0.693153083f,   0.240153611f,
                      0.0558263175f, 0.00898934063f, 0.00187757669f};
  return exp2_by<5>(c, x);
}
INLINE __m512 exp2_of(BFloat16, __m512 x) {
  const float c[4] = {0.999925196f, 0.695833564f, 0.226067156f, 0.0780245215f};
  return exp2_by<3>(c, x);
}

INLINE __m512 reciprocal(Float32, __m512 x) { return _mm512_div_ps(splat(1), x); }
INLINE __m512 reciprocal(BFloat16, __m512 x) { return _mm512_rcp14_ps(x); }

template <class T>
INLINE __m512 sigmoid(__m512 x) {
  __m512 e = exp2_of(T(), _mm512_mul_ps(x, splat(-1.44269504f)));
  return reciprocal(T(), _mm512_add_ps(splat(1), e));
}

// x · Φ(x), with erf by Abramowitz and Stegun 7.1.26, within 1.5e-7.
INLINE __m512 gelu(Float32, __m512 x) {
  const float c[5] = {0.254829592f, -0.284496736f, 1.421413741f, -1.453152027f, 1.061405429f};
  __m512 z = _mm512_mul_ps(x, splat(0.707106781f)), a = _mm512_abs_ps(z);
  __m512 t = _mm512_div_ps(splat(1), _mm512_fmadd_ps(a, splat(0.3275911f), splat(1)));
  __m512 p = splat(c[4]);
#pragma GCC unroll 4
  for (int i = 3; i >= 0; i--) p = _mm512_fmadd_ps(p, t, splat(c[i]));
  __m512 e = exp2_of(Float32(), _mm512_mul_ps(_mm512_mul_ps(a, a), splat(-1.44269504f)));
  __m512 erf = _mm512_fnmadd_ps(_mm512_mul_ps(p, t), e, splat(1));  // of |z|
  erf = _mm512_mask_sub_ps(erf, _mm512_movepi32_mask(_mm512_castps_si512(z)), splat(0), erf);
  return _mm512_mul_ps(_mm512_mul_ps(x, splat(0.5f)), _mm512_add_ps(splat(1), erf));
}

// Φ(x) - 1/2 as an odd polynomial up to |x| = 4.2, where it is 1/2: x · Φ(x) is within 9e-5, an
// eighth of what rounding adds to 0.2 and more.
INLINE __m512 gelu(BFloat16, __m512 x) {
  const float c[8] = {0.398465872f,    -0.0655282065f,   0.00929823052f,  -0.000950657763f,
                      6.68907305e-05f, -3.03793399e-06f, 7.9413482e-08f, -9.01754504e-10f};
  __m512 near = _mm512_min_ps(splat(4.2f), _mm512_max_ps(splat(-4.2f), x));  // NaN stays NaN
  __m512 square = _mm512_mul_ps(near, near), p = splat(c[7]);
#pragma GCC unroll 8
  for (int i = 6; i >= 0; i--) p = _mm512_fmadd_ps(p, square, splat(c[i]));
  return _mm512_mul_ps(x, _mm512_fmadd_ps(near, p, splat(0.5f)));
}

// (1 + tanh(u)) / 2 = σ(2 · u), with u = √(2 / π) · (x + 0.044715 · x³).
template <class T>
INLINE __m512 gelu_tanh(__m512 x) {
  __m512 inner = _mm512_fmadd_ps(_mm512_mul_ps(x, x), splat(0.044715f), splat(1));
  return _mm512_mul_ps(x, sigmoid<T>(_mm512_mul_ps(_mm512_mul_ps(x, inner), splat(1.595769122f))));
}

template <class T, int ACTIVATION>
INLINE __m512 activated(__m512 x) {
  switch (ACTIVATION) {
    case GELU: return gelu(T(), x);
    case GELU_TANH: return gelu_tanh<T>(x);
    case RELU: return _mm512_max_ps(splat(0), x);  // the second where one is NaN
    case SILU: return _mm512_mul_ps(x, sigmoid<T>(x));
    default: return x;
  }
}

// Memory of the calling thread, kept until it ends: fresh pages are zeroed first, which takes
// longer than what is computed in them. Its content is that of the last call.
class Scratch {
 public:
  ~Scratch() { std::free(words_); }

  Word* take(long words) {
    if (words > size_) {
      std::free(words_);
      size_ = rounded_up(words + words / 2, 16);
      words_ = static_cast<Word*>(std::aligned_alloc(64, size_ * sizeof(Word)));
      if (words_ == nullptr) throw std::bad_alloc();
    }
    return words_;
  }

 private:
  Word* words_ = nullptr;
  long size_ = 0;
};

INLINE Word* scratch(long words) {
  static thread_local Scratch memory;
  return memory.take(words);
}
