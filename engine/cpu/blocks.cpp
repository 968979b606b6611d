// All layers of a model in one call: between two kernels nothing waits for the interpreter's lock.
#include "kernels.h"

struct Block {
  Linear qkv;
  Norm qk_norm;
  const float* turns;  // the table of `turn`; null: nothing is turned
  Attention attention;
  int64_t kind;  // of attention: which of Added
  Linear output;
  Join attention_join;
  Linear up, down;
  Join mlp_join;
};

// To the scores of one kind of attention, as `attention` has it.
struct Added {
  const float* scores;
  int64_t stride;
};

struct Tokens {
  const int64_t* offsets;
  int64_t sequences;
  const int32_t* places;
  int64_t rows, width;
};

// Of tokens, each [rows, …]. `hidden` and `entered` are read; the others are written, and may hold
// anything before.
struct States {
  const void *hidden, *entered;
  void* wide;             // as wide as queries, keys and values together, and as `up` makes it
  void* attended;         // all heads
  void *attention, *mlp;  // the two branches of the last layer; then hidden states of the next
  void* normed;           // null where no join has a norm for what follows
};

extern "C" {

// Leaves in `mlp` the last branch, not joined yet, and in `attention` what it is to be joined with.
void run_blocks(const Block* blocks, int64_t count, const Added* added, const Tokens* tokens,
                const States* states, int bfloat16) {
  const void *hidden = states->hidden, *entered = states->entered;
  const int64_t rows = tokens->rows, width = tokens->width;
  for (const Block* block = blocks; block < blocks + count; block++) {
    const Attention& attend = block->attention;
    linear(&block->qkv, entered, states->wide, rows, bfloat16);
    if (block->turns != nullptr)
      turn(&block->qk_norm, states->wide, attend.heads + attend.kv_heads, attend.head_dim,
           (attend.heads + 2 * attend.kv_heads) * attend.head_dim, block->turns, tokens->places,
           rows, bfloat16);
    attention(&attend, states->wide, states->attended, tokens->offsets, tokens->sequences,
              added[block->kind].scores, added[block->kind].stride, bfloat16);
    linear(&block->output, states->attended, states->attention, rows, bfloat16);

    void* follows = block->attention_join.next.weight ? states->normed : states->attention;
    join(&block->attention_join, states->attention, hidden, follows, rows, width, bfloat16);
    linear(&block->up, follows, states->wide, rows, bfloat16);
    linear(&block->down, states->wide, states->mlp, rows, bfloat16);
    if (block == blocks + count - 1) break;

    follows = block->mlp_join.next.weight ? states->normed : states->mlp;
    join(&block->mlp_join, states->mlp, states->attention, follows, rows, width, bfloat16);
    hidden = states->mlp, entered = follows;
  }
}

}
