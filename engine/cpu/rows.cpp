// What is computed row by row: embeddings, additions, norms, rotations, pooling.
#include "kernels.h"
#include "vectors.h"

struct Embeddings {
  const void* words;
  const void* positions;  // [types · max_positions, width] or null
  const void* type_rows;  // [types, width] or null
  Norm norm;
  int64_t width, max_positions;
};

enum Pooling : int64_t { MEAN, MEAN_SQRT_LEN, WEIGHTED_MEAN, MAX };

namespace {

// So few rows are done before other threads have begun.
constexpr long FEW_ROWS = 48;

template <class T>
INLINE const typename T::Stored* row_of(const void* rows, long index, long width) {
  return static_cast<const typename T::Stored*>(rows) + index * width;
}

template <class T>
INLINE void take(float* row, const typename T::Stored* from, long width) {
  for (long i = 0; i < width; i += 16)
    _mm512_store_ps(row + i, load(T(), from + i, lanes(width - i)));
}

template <class T>
INLINE void add(float* row, const typename T::Stored* from, long width) {
  for (long i = 0; i < width; i += 16)
    _mm512_store_ps(row + i,
                    _mm512_add_ps(_mm512_load_ps(row + i), load(T(), from + i, lanes(width - i))));
}

template <class T>
INLINE void give(typename T::Stored* to, const float* row, long width) {
  for (long i = 0; i < width; i += 16) store(T(), to + i, _mm512_load_ps(row + i), lanes(width - i));
}

// In place. Lanes behind the width hold zeros before, and anything afterwards.
INLINE void apply(const Norm& norm, float* row, long width, long weights = 0) {
  if (norm.weight == nullptr) return;
  __m512 mean = splat(0), squares = splat(0);
  if (!norm.rms) {
    for (long i = 0; i < width; i += 16) mean = _mm512_add_ps(mean, _mm512_load_ps(row + i));
    mean = splat(_mm512_reduce_add_ps(mean) / width);
  }
  for (long i = 0; i < width; i += 16) {
    __m512 x = _mm512_maskz_sub_ps(lanes(width - i), _mm512_load_ps(row + i), mean);
    squares = _mm512_fmadd_ps(x, x, squares);
  }
  __m512 scale = splat(1 / std::sqrt(_mm512_reduce_add_ps(squares) / width + norm.eps));
  for (long i = 0; i < width; i += 16) {
    Lanes of = lanes(width - i);
    __m512 x = _mm512_mul_ps(_mm512_sub_ps(_mm512_load_ps(row + i), mean), scale);
    __m512 weight = load(Float32(), norm.weight + weights + i, of);
    __m512 bias = norm.bias ? load(Float32(), norm.bias + i, of) : splat(0);
    _mm512_store_ps(row + i, _mm512_maskz_fmadd_ps(of, x, weight, bias));
  }
}

INLINE float* scratch_row(long width) {
  return reinterpret_cast<float*>(scratch(rounded_up(width, 16)));
}

template <class T>
void join_rows(const Join& layer, typename T::Stored* branch, const typename T::Stored* hidden,
               typename T::Stored* entered, long rows, long width) {
#pragma omp parallel for schedule(static) if (rows > FEW_ROWS)
  for (long i = 0; i < rows; i++) {
    float* row = scratch_row(width);
    take<T>(row, branch + i * width, width);
    apply(layer.behind, row, width);
    add<T>(row, hidden + i * width, width);
    apply(layer.sum, row, width);
    give<T>(branch + i * width, row, width);
    if (layer.next.weight == nullptr) continue;
    apply(layer.next, row, width);
    give<T>(entered + i * width, row, width);
  }
}

template <class T>
void norm_rows(const Norm& norm, const void* x, typename T::Stored* out, long rows, long width) {
#pragma omp parallel for schedule(static) if (rows > FEW_ROWS)
  for (long i = 0; i < rows; i++) {
    float* row = scratch_row(width);
    take<T>(row, row_of<T>(x, i, width), width);
    apply(norm, row, width);
    give<T>(out + i * width, row, width);
  }
}

template <class T>
void embed_rows(const Embeddings& tables, const int32_t* ids, const int32_t* places,
                const int32_t* types, typename T::Stored* out, long rows) {
  const long width = tables.width;
#pragma omp parallel for schedule(static) if (rows > FEW_ROWS)
  for (long i = 0; i < rows; i++) {
    const long type = types == nullptr ? 0 : types[i];
    float* row = scratch_row(width);
    take<T>(row, row_of<T>(tables.words, ids[i], width), width);
    if (tables.positions != nullptr)
      add<T>(row, row_of<T>(tables.positions, places[i] + type * tables.max_positions, width), width);
    if (tables.type_rows != nullptr) add<T>(row, row_of<T>(tables.type_rows, type, width), width);
    apply(tables.norm, row, width);
    give<T>(out + i * width, row, width);
  }
}

template <class T>
INLINE void turn_head(typename T::Stored* head, const float* row, const float* table, long half) {
  for (long i = 0; i < half; i += 16) {
    Lanes of = lanes(half - i);
    __m512 left = load(Float32(), row + i, of), right = load(Float32(), row + half + i, of);
    __m512 cosine = load(Float32(), table + i, of), sine = load(Float32(), table + half + i, of);
    store(T(), head + i, _mm512_fmsub_ps(left, cosine, _mm512_mul_ps(right, sine)), of);
    store(T(), head + half + i, _mm512_fmadd_ps(right, cosine, _mm512_mul_ps(left, sine)), of);
  }
}

template <class T>
void turn_rows(const Norm& norm, typename T::Stored* heads, long count, long head_dim, long stride,
               const float* table, const int32_t* places, long rows) {
#pragma omp parallel for schedule(static) if (rows > FEW_ROWS)
  for (long i = 0; i < rows; i++)
    for (long h = 0; h < count; h++) {
      float* row = scratch_row(head_dim);
      typename T::Stored* head = heads + i * stride + h * head_dim;
      take<T>(row, head, head_dim);
      apply(norm, row, head_dim, h * head_dim);
      turn_head<T>(head, row, table + places[i] * head_dim, head_dim / 2);
    }
}

template <class T>
__m512 summed(const typename T::Stored* x, long rows, long width, long first_weight, Lanes of) {
  __m512 sum = splat(0);
  for (long i = 0; i < rows; i++, x += width) {
    __m512 weight = splat(first_weight ? first_weight + i : 1);
    sum = _mm512_fmadd_ps(load(T(), x, of), weight, sum);
  }
  return sum;
}

template <class T>
__m512 largest(const typename T::Stored* x, long rows, long width, Lanes of) {
  __m512 most = splat(-INFINITY);
  Lanes broken = 0;  // of a NaN and a number VMAXPS takes the number
  for (long i = 0; i < rows; i++, x += width) {
    __m512 next = load(T(), x, of);
    broken |= _mm512_cmp_ps_mask(next, next, _CMP_UNORD_Q);
    most = _mm512_max_ps(most, next);
  }
  return _mm512_mask_mov_ps(most, broken, splat(NAN));
}

// `before`: tokens of its sequence before the first row.
INLINE float divisor(int64_t pooling, long rows, long before) {
  switch (pooling) {
    case MEAN: return rows;
    case MEAN_SQRT_LEN: return std::sqrt(static_cast<float>(rows));
    case WEIGHTED_MEAN: return rows * (before + (rows + 1) / 2.0f);
    default: return 1;
  }
}

template <class T>
void pool_rows(const void* hidden, const int64_t* starts, const int64_t* lengths,
               const int64_t* before, int64_t pooling, float* out, long segments, long width) {
#pragma omp parallel for schedule(dynamic, 4) if (segments > 4)
  for (long s = 0; s < segments; s++) {
    const auto* x = row_of<T>(hidden, starts[s], width);
    const long rows = lengths[s], first = before == nullptr ? 0 : before[s];
    const __m512 by = splat(divisor(pooling, rows, first));
    for (long c = 0; c < width; c += 16) {
      Lanes of = lanes(width - c);
      __m512 row = pooling == MAX ? largest<T>(x + c, rows, width, of)
                                  : summed<T>(x + c, rows, width,
                                              pooling == WEIGHTED_MEAN ? first + 1 : 0, of);
      store(Float32(), out + s * width + c, _mm512_div_ps(row, by), of);
    }
  }
}

}  // namespace

extern "C" {

// What of this processor the kernels need, and what is better than they are: 1 AVX-512, 2 bfloat16
// in it, 4 tiles (AMX) of bfloat16.
int features() {
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  const bool bfloat16 = avx512 && __builtin_cpu_supports("avx512bf16");
  return avx512 + 2 * bfloat16 + 4 * (__builtin_cpu_supports("amx-bf16") != 0);
}

void join(const Join* layer, void* branch, const void* hidden, void* entered, int64_t rows,
          int64_t width, int bfloat16) {
  if (bfloat16)
    join_rows<BFloat16>(*layer, static_cast<uint16_t*>(branch),
                        static_cast<const uint16_t*>(hidden), static_cast<uint16_t*>(entered), rows,
                        width);
  else
    join_rows<Float32>(*layer, static_cast<float*>(branch), static_cast<const float*>(hidden),
                       static_cast<float*>(entered), rows, width);
}

// [rows, width] each
void norm(const Norm* norm, const void* x, void* out, int64_t rows, int64_t width, int bfloat16) {
  if (bfloat16)
    norm_rows<BFloat16>(*norm, x, static_cast<uint16_t*>(out), rows, width);
  else
    norm_rows<Float32>(*norm, x, static_cast<float*>(out), rows, width);
}

// [rows] each, types perhaps null, -> [rows, width]
void embed(const Embeddings* tables, const int32_t* ids, const int32_t* places,
           const int32_t* types, void* out, int64_t rows, int bfloat16) {
  if (bfloat16)
    embed_rows<BFloat16>(*tables, ids, places, types, static_cast<uint16_t*>(out), rows);
  else
    embed_rows<Float32>(*tables, ids, places, types, static_cast<float*>(out), rows);
}

void turn(const Norm* norm, void* heads, int64_t count, int64_t head_dim, int64_t stride,
          const float* table, const int32_t* places, int64_t rows, int bfloat16) {
  if (bfloat16)
    turn_rows<BFloat16>(*norm, static_cast<uint16_t*>(heads), count, head_dim, stride, table,
                        places, rows);
  else
    turn_rows<Float32>(*norm, static_cast<float*>(heads), count, head_dim, stride, table, places,
                       rows);
}

// Each segment's rows of `hidden` [T, width] to one of `out` [segments, width]. `before` [segments]
// tells of how many tokens its sequence has before it; null: none.
void pool(const void* hidden, const int64_t* starts, const int64_t* lengths, const int64_t* before,
          int64_t pooling, float* out, int64_t segments, int64_t width, int bfloat16) {
  auto run = bfloat16 ? pool_rows<BFloat16> : pool_rows<Float32>;
  run(hidden, starts, lengths, before, pooling, out, segments, width);
}

}
