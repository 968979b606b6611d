// Attention over packed sequences, and linear layers with what follows them.
#include <omp.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "kernels.h"
#include "shares.h"
#include "vectors.h"

namespace {

constexpr int MOST_ROWS = 12;  // with two vectors of columns each: 24 of 32 registers hold sums
constexpr std::make_integer_sequence<int, MOST_ROWS> COUNTS;  // of rows, less one

// What is computed for `rows` rows at a time, as equally as can be: each row on its own.
struct Division {
  long steps, step;

  explicit Division(long rows)
      : steps((rows + MOST_ROWS - 1) / MOST_ROWS), step(steps ? (rows + steps - 1) / steps : 0) {}
};

// One head of one sequence. Strides and widths are in words.
struct Head {
  const Word* queries;
  Word* attended;
  long query_stride, attended_stride;
  const Word* keys;    // [tokens / 16][words of a head][16]
  const Word* values;  // [tokens / PER_WORD][columns]
  float* scores;
  long tokens, words, head_dim, columns;
  const float* added;  // to scaled scores, by key - query, times log2(e)
  const Attention* layer;
};

INLINE void transpose(__m512i (&rows)[16]) {
#pragma GCC unroll 4
  for (int step = 8; step; step >>= 1) {
    alignas(64) int low[16], high[16];
    for (int i = 0; i < 16; i++) {
      low[i] = i & step ? 16 + (i ^ step) : i;
      high[i] = i & step ? 16 + i : i | step;
    }
    __m512i pick_low = _mm512_load_si512(low), pick_high = _mm512_load_si512(high);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
      if (i & step) continue;
      __m512i a = rows[i], b = rows[i + step];
      rows[i] = _mm512_permutex2var_epi32(a, pick_low, b);
      rows[i + step] = _mm512_permutex2var_epi32(a, pick_high, b);
    }
  }
}

// Rows behind the last token are zeros. Where `words` is no multiple of 16 a block reaches into
// the next one, which is written later, and the last one by at most 240 words into the values, which
// are 256 and more.
void pack_keys(Word* packed, const Word* keys, long stride, long tokens, long words) {
  for (long j = 0; j < tokens; j += 16)
    for (long c = 0; c < words; c += 16) {
      __m512i rows[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; i++)
        rows[i] = j + i < tokens
                      ? _mm512_maskz_loadu_epi32(lanes(words - c), keys + (j + i) * stride + c)
                      : _mm512_setzero_si512();
      transpose(rows);
#pragma GCC unroll 16
      for (int i = 0; i < 16; i++) _mm512_store_si512(packed + j * words + (c + i) * 16, rows[i]);
    }
}

void pack_values(Float32, Word* packed, const Word* values, long stride, const Head& head) {
  for (long j = 0; j < head.tokens; j++)
    for (long c = 0; c < head.columns; c += 16)
      _mm512_store_si512(packed + j * head.columns + c,
                         _mm512_maskz_loadu_epi32(lanes(head.head_dim - c), values + j * stride + c));
}

// Two tokens side by side in each word.
void pack_values(BFloat16, Word* packed, const Word* values, long stride, const Head& head) {
  alignas(64) uint16_t low[32], high[32];
  for (int i = 0; i < 16; i++) {
    low[2 * i] = i, low[2 * i + 1] = 32 + i;
    high[2 * i] = 16 + i, high[2 * i + 1] = 48 + i;
  }
  __m512i pick_low = _mm512_load_si512(low), pick_high = _mm512_load_si512(high);
  for (long j = 0; j < head.tokens; j += 2)
    for (long c = 0; c < head.columns; c += 32) {
      Lanes of = lanes((head.head_dim - c) / 2);
      const Word* row = values + j * stride + c / 2;
      __m512i a = _mm512_maskz_loadu_epi32(of, row), b = _mm512_setzero_si512();
      if (j + 1 < head.tokens) b = _mm512_maskz_loadu_epi32(of, row + stride);
      Word* pair = packed + j / 2 * head.columns + c;
      _mm512_store_si512(pair, _mm512_permutex2var_epi16(a, pick_low, b));
      _mm512_store_si512(pair + 16, _mm512_permutex2var_epi16(a, pick_high, b));
    }
}

// Scores become weights in place, as the second product reads them: 2^(scale · score - largest).
// Returns 1 / Σ weights.
template <class T>
INLINE float soften(float* scores, long keys, float scale, float largest) {
  auto* weights = reinterpret_cast<typename T::Stored*>(scores);
  __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  __m512 by = splat(scale), less = splat(largest * scale);
  long j = 0;
  for (; j + 32 <= keys; j += 32) {
    __m512 a = exp2_of(T(), _mm512_fmsub_ps(_mm512_load_ps(scores + j), by, less));
    __m512 b = exp2_of(T(), _mm512_fmsub_ps(_mm512_load_ps(scores + j + 16), by, less));
    sums[0] = _mm512_add_ps(sums[0], a), sums[1] = _mm512_add_ps(sums[1], b);
    store(T(), weights + j, a), store(T(), weights + j + 16, b);
  }
  if (j < keys) {
    __m512 a = exp2_of(T(), _mm512_fmsub_ps(_mm512_load_ps(scores + j), by, less));
    sums[0] = _mm512_add_ps(sums[0], a);
    store(T(), weights + j, a);
  }
  return 1 / _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1]));
}

// Queries first … first + ROWS - 1. Of keys that none of them sees no score is computed.
template <class T, bool ADDED, int ROWS>
void attend_rows(const Head& head, long first) {
  const Attention& layer = *head.layer;
  const long from = layer.before < first ? (first - layer.before) & -16 : 0;
  const long behind = at_most(layer.behind, head.tokens);
  const long to = at_most(head.tokens, first + ROWS + behind);
  const long keys = rounded_up(to, 16) - from, pitch = keys + 16;
  const Word* queries = head.queries + first * head.query_stride;
  const __m512 scale = splat(layer.scale), unseen = splat(-INFINITY);
  __m512 largest[ROWS];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++) largest[r] = unseen;

  auto score = [&](auto columns, auto masks, long j) __attribute__((always_inline)) {
    constexpr int COLUMNS = decltype(columns)::value;
    __m512 sums[ROWS][COLUMNS];
    multiply<T, ROWS, COLUMNS>(sums, queries, head.query_stride, head.keys + j * head.words, 16,
                               16 * head.words, head.words);
#pragma GCC unroll 2
    for (int c = 0; c < COLUMNS; c++, j += 16) {
      const Lanes of = lanes(head.tokens - j);
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; r++) {
        __m512 x = sums[r][c];
        if (ADDED) x = _mm512_fmadd_ps(x, scale, load(Float32(), head.added + j - first - r));
        if (decltype(masks)::value) x = _mm512_mask_mov_ps(unseen, of, x);
        _mm512_store_ps(head.scores + r * pitch + j - from, x);
        largest[r] = _mm512_max_ps(largest[r], x);
      }
    }
  };
  const std::integral_constant<int, 1> one;
  const std::integral_constant<int, 2> two;
  long j = from;
  for (; j + 32 < to; j += 32) score(two, std::false_type(), j);
  if (j + 16 < to)
    score(two, std::true_type(), j);
  else
    score(one, std::true_type(), j);

  float shares[ROWS];
  for (int r = 0; r < ROWS; r++)
    shares[r] = soften<T>(head.scores + r * pitch, keys, ADDED ? 1 : layer.scale,
                          _mm512_reduce_max_ps(largest[r]));
  const long depth = (to - from + T::PER_WORD - 1) / T::PER_WORD;
  const Word* values = head.values + from / T::PER_WORD * head.columns;
  for (long c = 0; c < head.columns; c += 32) {
    __m512 sums[ROWS][2];
    multiply<T, ROWS, 2>(sums, reinterpret_cast<Word*>(head.scores), pitch, values + c,
                         head.columns, 16, depth);
    for (int r = 0; r < ROWS; r++) {
      auto* row = reinterpret_cast<typename T::Stored*>(head.attended +
                                                        (first + r) * head.attended_stride);
      __m512 share = splat(shares[r]);
      store(T(), row + c, _mm512_mul_ps(sums[r][0], share), lanes(head.head_dim - c));
      store(T(), row + c + 16, _mm512_mul_ps(sums[r][1], share), lanes(head.head_dim - c - 16));
    }
  }
}

using AttendRows = void (*)(const Head&, long);
template <class T, bool ADDED, int... COUNT>
AttendRows attend_rows_of(long rows, std::integer_sequence<int, COUNT...>) {
  static constexpr AttendRows of[] = {attend_rows<T, ADDED, COUNT + 1>...};
  return of[rows - 1];
}

template <class T, bool ADDED>
void attend_queries(const Head& head, long first, long last) {
  const Division division(last - first);
  for (long i = first; i < last; i += division.step)
    attend_rows_of<T, ADDED>(at_most(division.step, last - i), COUNTS)(head, i);
}

// Of one sequence and one head of keys, the queries first … last - 1.
struct Piece {
  long sequence, kv_head, first, last;
};

// The longest first. Where there are fewer than threads need, queries are divided as well, and
// every piece packs the keys for itself.
std::vector<Piece> divided(const int64_t* offsets, long sequences, long kv_heads) {
  const long wanted = 4 * omp_get_max_threads(), tokens = offsets[sequences];
  const long queries = rounded_up(tokens * kv_heads / wanted + 1, 8 * MOST_ROWS);
  std::vector<Piece> pieces;
  for (long s = sequences - 1; s >= 0; s--) {
    const long length = offsets[s + 1] - offsets[s];
    for (long h = 0; h < kv_heads; h++)
      for (long i = 0; i < length; i += queries)
        pieces.push_back({s, h, i, at_most(i + queries, length)});
  }
  return pieces;
}

template <class T>
void attend_piece(const Attention& layer, const Piece& piece, const Word* qkv, Word* attended,
                  const int64_t* offsets, const float* added, long added_stride) {
  const long words = layer.head_dim / T::PER_WORD, stride = (layer.heads + 2 * layer.kv_heads) * words;
  const long start = offsets[piece.sequence], tokens = offsets[piece.sequence + 1] - start;
  const long padded = rounded_up(tokens, 16), columns = rounded_up(layer.head_dim, 32);
  const long key_words = padded * words, value_words = padded / T::PER_WORD * columns;
  Word* memory = scratch(key_words + value_words + MOST_ROWS * (padded + 16));
  const Word* token = qkv + start * stride;
  Head head{};
  head.query_stride = stride, head.attended_stride = layer.heads * words;
  head.keys = memory, head.values = memory + key_words;
  head.scores = reinterpret_cast<float*>(memory + key_words + value_words);
  head.tokens = tokens, head.words = words, head.head_dim = layer.head_dim, head.columns = columns;
  head.layer = &layer;
  const Word* keys = token + (layer.heads + piece.kv_head) * words;
  pack_keys(memory, keys, stride, tokens, words);
  pack_values(T(), memory + key_words, keys + layer.kv_heads * words, stride, head);
  // Of each sequence by itself, so that no other changes how its scores are rounded.
  const bool adds = layer.biased || at_most(layer.before, layer.behind) < tokens - 1;
  const long shared = layer.heads / layer.kv_heads;
  for (long h = piece.kv_head * shared; h < (piece.kv_head + 1) * shared; h++) {
    head.queries = token + h * words;
    head.attended = attended + start * head.attended_stride + h * words;
    head.added = added + h * added_stride;
    (adds ? attend_queries<T, true> : attend_queries<T, false>)(head, piece.first, piece.last);
  }
}

template <class T>
void attend(const Attention& layer, const Word* qkv, Word* attended, const int64_t* offsets,
            long sequences, const float* added, long added_stride) {
  const std::vector<Piece> pieces = divided(offsets, sequences, layer.kv_heads);
  const long count = pieces.size();
#pragma omp parallel for schedule(dynamic, 1) if (count > 1)
  for (long i = 0; i < count; i++)
    attend_piece<T>(layer, pieces[i], qkv, attended, offsets, added, added_stride);
}

// Of inputs that stay in the second cache while all weights pass by.
constexpr long NEAR_BYTES = 192 * 1024;
constexpr long LEAST_NEAR_STEPS = 4;
// Of each panel. The first are not enough to hide how long the next one takes to come.
constexpr long FETCHING_STEPS = 4;

template <class T, int ACTIVATION>
void finish_rows(const Linear& layer, const __m512* sums, long rows, typename T::Stored* out,
                 long panel) {
  const __m512 first = load(Float32(), layer.bias + 32 * panel);
  const __m512 second = load(Float32(), layer.bias + 32 * panel + 16);
  const long column = layer.gated ? 16 * panel : 32 * panel, left = layer.outputs - column;
  for (long r = 0; r < rows; r++, sums += 2, out += layer.outputs) {
    __m512 a = activated<T, ACTIVATION>(_mm512_add_ps(sums[0], first));
    __m512 b = _mm512_add_ps(sums[1], second);
    if (layer.gated) {
      store(T(), out + column, _mm512_mul_ps(a, b), lanes(left));
    } else {
      store(T(), out + column, a, lanes(left));
      store(T(), out + column + 16, activated<T, ACTIVATION>(b), lanes(left - 16));
    }
  }
}

// `FETCHES`: the next panel is asked for meanwhile, or few rows would wait for it.
template <class T, bool FETCHES, int ROWS>
void linear_rows(const Linear& layer, const Word* x, typename T::Stored* out, long panel) {
  const long depth = layer.inputs / T::PER_WORD;
  __m512 sums[ROWS][2];
  multiply<T, ROWS, 2>(sums, x, depth, layer.weight + panel * depth * 32, 32, 16, depth,
                       FETCHES ? depth * 32 : 0);
  switch (layer.activation) {
    case GELU: return finish_rows<T, GELU>(layer, sums[0], ROWS, out, panel);
    case GELU_TANH: return finish_rows<T, GELU_TANH>(layer, sums[0], ROWS, out, panel);
    case RELU: return finish_rows<T, RELU>(layer, sums[0], ROWS, out, panel);
    case SILU: return finish_rows<T, SILU>(layer, sums[0], ROWS, out, panel);
    default: return finish_rows<T, IDENTITY>(layer, sums[0], ROWS, out, panel);
  }
}

template <class T>
using LinearRows = void (*)(const Linear&, const Word*, typename T::Stored*, long);
template <class T, bool FETCHES, int... COUNT>
LinearRows<T> linear_rows_of(long rows, std::integer_sequence<int, COUNT...>) {
  static constexpr LinearRows<T> of[] = {linear_rows<T, FETCHES, COUNT + 1>...};
  return of[rows - 1];
}

// Steps are those of a block of rows, for one panel after another, then those of the next block.
template <class T>
void multiply_weights(const Linear& layer, const Word* x, typename T::Stored* out, long rows) {
  const long depth = layer.inputs / T::PER_WORD;
  const long panels = (layer.outputs + (layer.gated ? 15 : 31)) / (layer.gated ? 16 : 32);
  const Division division(rows);
  const long fitting = NEAR_BYTES / (depth * sizeof(Word)) / MOST_ROWS;
  const long near = fitting < LEAST_NEAR_STEPS ? LEAST_NEAR_STEPS : fitting;
  Shares shares(division.steps * panels);
#pragma omp parallel if (rows * panels * depth > 1 << 15)
  shares.take([&](long i, long last) {
    while (i < last) {
      const long block = i / (near * panels) * near, size = at_most(near, division.steps - block);
      const long panel = (i - block * panels) / size;
      for (long step = (i - block * panels) % size; step < size && i < last; step++, i++) {
        const long row = (block + step) * division.step;
        const long count = at_most(division.step, rows - row);
        auto of = step < FETCHING_STEPS ? linear_rows_of<T, true>(count, COUNTS)
                                        : linear_rows_of<T, false>(count, COUNTS);
        of(layer, x + row * depth, out + row * layer.outputs, panel);
      }
    }
  });
}

}  // namespace

extern "C" {

void attention(const Attention* layer, const void* qkv, void* attended, const int64_t* offsets,
               int64_t sequences, const float* added, int64_t added_stride, int bfloat16) {
  auto run = bfloat16 ? attend<BFloat16> : attend<Float32>;
  run(*layer, static_cast<const Word*>(qkv), static_cast<Word*>(attended), offsets, sequences,
      added, added_stride);
}

void linear(const Linear* layer, const void* x, void* out, int64_t rows, int bfloat16) {
  auto* words = static_cast<const Word*>(x);
  if (bfloat16)
    multiply_weights<BFloat16>(*layer, words, static_cast<uint16_t*>(out), rows);
  else
    multiply_weights<Float32>(*layer, words, static_cast<float*>(out), rows);
}

}
