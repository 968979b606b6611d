// Text to the ids of a Unigram or a WordPiece vocabulary: what `tokenizers` computes, without an
// allocation for a piece. Called through ctypes, without Python's lock.
//
// What a normalizer and a pre-tokenizer make of a character is a table that pieces.py asks of
// `tokenizers` itself. A text with a character that is not in the table is given back untouched.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace {

// What becomes of a character; the lowest three bits of an entry. Above them: where in `runs` the
// characters stand that it becomes, for `RUN`.
enum Kind : uint32_t {
    UNKNOWN = 0,  // not in the table
    WORD = 1,     // part of a word, as it is
    SPACE = 2,    // between words
    ALONE = 3,    // a word by itself
    STARTS = 4,   // the first of a word: "▁"
    GONE = 5,
    RUN = 6,  // a count, and for each character its kind, its size in bytes and these
};
constexpr int KIND_BITS = 3;

struct Setup {
    const uint8_t *keys;     // of all pieces, one after another, in the order of their bytes
    const int64_t *ends;     // [pieces] where each ends in `keys`
    const int32_t *ids;      // [pieces]
    int64_t pieces;
    const uint8_t *later_keys;  // WordPiece: those within a word, without their prefix
    const int64_t *later_ends;
    const int32_t *later_ids;
    int64_t later_pieces;
    const double *scores;  // [highest id + 1]; null: WordPiece
    double unknown_score;
    const uint32_t *entries;  // by code point
    int64_t entry_count;
    const uint8_t *runs;
    int64_t run_bytes;
    uint32_t line_break;  // the entry of "\r\n", which is one character to a normalizer
    int32_t unknown_id;
    int32_t max_characters;   // of a word, above which WordPiece calls it unknown
    int32_t splits_at_space;  // Unigram: spaces are left out, and each word gets its "▁"
    int32_t joins_spaces;     // Unigram: a run of spaces is one
};

// A trie over bytes as a double array: the child of a node by a byte stands at base + byte, and
// names its parent. `tokenizers` looks pieces up byte by byte too.
class Trie {
public:
    struct Node {
        int32_t base = 0;
        int32_t parent = -1;  // -1: free
        int32_t id = -1;      // of the piece that ends here
    };

    void build(const uint8_t *keys, const int64_t *ends, const int32_t *ids, int64_t count) {
        keys_ = keys, ends_ = ends, ids_ = ids;
        nodes_.assign(512, Node{});
        nodes_[0].parent = 0;
        free_.assign(256, Gap{});
        std::vector<Range> waiting{{0, 0, count, 0}};
        std::vector<Range> children;
        // Breadth first: nodes with many children come while there is room for them.
        for (size_t next = 0; next < waiting.size(); ++next) {
            const Range range = waiting[next];
            children.clear();
            split(range, children);
            if (children.empty()) continue;
            const int32_t base = place(children);
            nodes_[range.node].base = base;
            for (Range &child : children) {
                const int32_t at = base + child.node;
                nodes_[at].parent = range.node;
                child.node = at;
                waiting.push_back(child);
            }
        }
        free_ = {};
        nodes_.shrink_to_fit();
    }

    // The array is 256 longer than the last node: no child lies beyond its end.
    int32_t child(int32_t node, uint8_t byte) const {
        const int32_t at = nodes_[node].base + byte;
        return nodes_[at].parent == node && at != 0 ? at : -1;
    }

    int32_t id(int32_t node) const { return nodes_[node].id; }

private:
    struct Range {
        int32_t node;  // of a child that has no place yet: its byte
        int64_t first, last;
        int64_t depth;
    };

    struct Gap {
        int32_t last = 0, next = 0;
    };

    int64_t start(int64_t key) const { return key ? ends_[key - 1] : 0; }

    void split(const Range &range, std::vector<Range> &children) {
        int64_t first = range.first;
        if (first < range.last && ends_[first] - start(first) == range.depth)
            nodes_[range.node].id = ids_[first++];
        while (first < range.last) {
            const uint8_t byte = keys_[start(first) + range.depth];
            int64_t last = first + 1;
            while (last < range.last && keys_[start(last) + range.depth] == byte) ++last;
            children.push_back({byte, first, last, range.depth + 1});
            first = last;
        }
    }

    // The base at which all children are free. Few places are tried, those that were free first,
    // so that an only child fills a gap; else the children go behind all that is there.
    int32_t place(const std::vector<Range> &children) {
        const int32_t lowest = children.front().node;
        int32_t at = free_[0].next;
        for (int tries = 0; tries < 32 && at != 0; ++tries, at = free_[at].next) {
            const int32_t base = at - lowest;
            if (std::all_of(children.begin(), children.end(), [&](const Range &child) {
                    return nodes_[base + child.node].parent < 0;
                }))
                return take(base, children);
        }
        return take(static_cast<int32_t>(free_.size()) - lowest, children);
    }

    int32_t take(int32_t base, const std::vector<Range> &children) {
        grow(base + children.back().node + 1);
        for (const Range &child : children) {
            const Gap gap = free_[base + child.node];
            free_[gap.last].next = gap.next;
            free_[gap.next].last = gap.last;
        }
        return base;
    }

    // Behind the free nodes there are always 256 more.
    void grow(int32_t end) {
        if (end <= static_cast<int32_t>(free_.size())) return;
        nodes_.resize(end + 256);
        for (int32_t at = static_cast<int32_t>(free_.size()); at < end; ++at) {
            const int32_t last = free_[0].last;
            free_.push_back({last, 0});
            free_[last].next = free_[0].last = at;
        }
    }

    std::vector<Node> nodes_;
    // While it is built: which nodes are free, in a ring that begins and ends at the root. Those
    // below 256 are left out, so that no base is negative.
    std::vector<Gap> free_;
    const uint8_t *keys_ = nullptr;
    const int64_t *ends_ = nullptr;
    const int32_t *ids_ = nullptr;
};

struct Vocabulary {
    Trie pieces, later;
    std::vector<double> scores;
    std::vector<uint32_t> entries;
    std::vector<uint8_t> runs;
    Setup setup;
};

constexpr uint8_t META[] = {0xE2, 0x96, 0x81};  // "▁"

size_t size_of(uint8_t first) { return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4; }

// One call's work: texts after another, with memory that grows to the longest word and stays.
class Encoder {
public:
    Encoder(const Vocabulary &vocabulary, int32_t *ids, int64_t room)
        : vocabulary_(vocabulary), setup_(vocabulary.setup), unigram_(!vocabulary.scores.empty()),
          ids_(ids), room_(room) {}

    // How many ids the text has; -1 where it is not covered, or they have no room.
    int64_t encode(const uint8_t *text, int64_t bytes) {
        const int64_t before = count_;
        word_.clear();
        characters_ = 0, fits_ = true, behind_space_ = false;
        if (read(text, bytes)) {
            flush();
            // What is nothing but characters that go is left to `tokenizers`.
            if (fits_ && count_ > before) return count_ - before;
        }
        count_ = before;
        return -1;
    }

private:
    bool read(const uint8_t *text, int64_t bytes) {
        const uint32_t *entries = vocabulary_.entries.data();
        for (int64_t at = 0; at < bytes;) {
            const uint8_t *here = text + at;
            const size_t size = size_of(*here);
            if (at + static_cast<int64_t>(size) > bytes) return false;
            const uint32_t code = code_point(here, size);
            if (code >= vocabulary_.entries.size()) return false;
            uint32_t entry = entries[code];
            at += size;
            if (code == '\r' && at < bytes && text[at] == '\n') {
                entry = setup_.line_break;
                ++at;
            }
            const uint32_t kind = entry & ((1u << KIND_BITS) - 1);
            if (kind == UNKNOWN) return false;
            if (kind != RUN) {
                put(kind, here, size);
                continue;
            }
            const uint8_t *run = vocabulary_.runs.data() + (entry >> KIND_BITS);
            for (int left = *run++; left > 0; --left) {
                put(run[0], run + 2, run[1]);
                run += 2 + run[1];
            }
        }
        return true;
    }

    static uint32_t code_point(const uint8_t *at, size_t size) {
        switch (size) {
        case 1: return at[0];
        case 2: return (at[0] & 0x1Fu) << 6 | (at[1] & 0x3Fu);
        case 3: return (at[0] & 0x0Fu) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
        default:
            return (at[0] & 0x07u) << 18 | (at[1] & 0x3Fu) << 12 | (at[2] & 0x3Fu) << 6 |
                   (at[3] & 0x3Fu);
        }
    }

    void put(uint32_t kind, const uint8_t *bytes, size_t size) {
        switch (kind) {
        case WORD:
            if (unigram_ && word_.empty()) append(META, sizeof META);
            append(bytes, size);
            break;
        case SPACE:
            if (unigram_ && !setup_.splits_at_space) {
                if (behind_space_ && setup_.joins_spaces) return;
                flush();
                append(META, sizeof META);
                behind_space_ = true;
                return;
            }
            flush();
            break;
        case ALONE:
            flush();
            append(bytes, size);
            flush();
            break;
        case STARTS:
            flush();
            append(bytes, size);
            break;
        default: return;  // GONE
        }
        behind_space_ = false;
    }

    void append(const uint8_t *bytes, size_t size) {
        word_.insert(word_.end(), bytes, bytes + size);
        ++characters_;
    }

    void flush() {
        if (word_.empty()) return;
        unigram_ ? best_pieces() : longest_pieces();
        word_.clear();
        characters_ = 0;
    }

    // WordPiece: the longest piece first; a word with a part that is in none is unknown whole.
    void longest_pieces() {
        const int64_t before = count_;
        if (characters_ > setup_.max_characters) return add(setup_.unknown_id);
        for (size_t at = 0; at < word_.size();) {
            const Trie &trie = at ? vocabulary_.later : vocabulary_.pieces;
            int32_t node = 0, found = -1;
            size_t end = at;
            for (size_t next = at; next < word_.size(); ++next) {
                node = trie.child(node, word_[next]);
                if (node < 0) break;
                if (trie.id(node) >= 0) found = trie.id(node), end = next + 1;
            }
            if (found < 0) {
                count_ = before;
                return add(setup_.unknown_id);
            }
            add(found);
            at = end;
        }
    }

    // Unigram: the pieces with the greatest sum of scores, the first of equals, by Viterbi.
    void best_pieces() {
        const size_t size = word_.size();
        if (best_.size() <= size) best_.resize(size + 1);
        for (size_t end = 1; end <= size; ++end) best_[end].from = -1;
        best_[0].score = 0;
        const double *scores = vocabulary_.scores.data();
        for (size_t at = 0; at < size;) {
            const size_t character = size_of(word_[at]);
            const double here = best_[at].score;
            bool whole = false;
            int32_t node = 0;
            for (size_t next = at; next < size; ++next) {
                node = vocabulary_.pieces.child(node, word_[next]);
                if (node < 0) break;
                const int32_t id = vocabulary_.pieces.id(node);
                if (id < 0) continue;
                reach(next + 1, at, scores[id] + here, id);
                whole |= next + 1 == at + character;
            }
            if (!whole) reach(at + character, at, setup_.unknown_score + here, setup_.unknown_id);
            at += character;
        }
        trace(size);
    }

    void reach(size_t end, size_t from, double score, int32_t id) {
        Best &best = best_[end];
        if (best.from >= 0 && !(score > best.score)) return;
        best = {score, static_cast<int32_t>(from), id};
    }

    // Back from the end; unknown characters that follow one another are one token.
    void trace(size_t size) {
        const int64_t first = count_;
        for (size_t end = size; end > 0; end = best_[end].from) {
            const int32_t id = best_[end].id;
            if (id == setup_.unknown_id && count_ > first && fits_ && ids_[count_ - 1] == id)
                continue;
            add(id);
        }
        if (fits_) std::reverse(ids_ + first, ids_ + count_);
    }

    void add(int32_t id) {
        if (count_ < room_)
            ids_[count_++] = id;
        else
            fits_ = false;
    }

    struct Best {
        double score;
        int32_t from;
        int32_t id;
    };

    const Vocabulary &vocabulary_;
    const Setup &setup_;
    const bool unigram_;
    int32_t *ids_;
    const int64_t room_;
    int64_t count_ = 0;
    std::vector<uint8_t> word_;
    std::vector<Best> best_;
    int64_t characters_ = 0;
    bool fits_ = true, behind_space_ = false;
};

}  // namespace

extern "C" {

// A vocabulary, whose arrays are copied; null without memory for it.
void *vocabulary_new(const Setup *setup) try {
    auto made = std::make_unique<Vocabulary>();
    made->pieces.build(setup->keys, setup->ends, setup->ids, setup->pieces);
    made->later.build(setup->later_keys, setup->later_ends, setup->later_ids, setup->later_pieces);
    if (setup->scores) {
        const int32_t highest = *std::max_element(setup->ids, setup->ids + setup->pieces);
        made->scores.assign(setup->scores, setup->scores + highest + 1);
    }
    made->entries.assign(setup->entries, setup->entries + setup->entry_count);
    made->runs.assign(setup->runs, setup->runs + setup->run_bytes);
    made->setup = *setup;
    return made.release();
} catch (const std::bad_alloc &) {
    return nullptr;
}

void vocabulary_delete(void *vocabulary) { delete static_cast<Vocabulary *>(vocabulary); }

// The ids of `count` texts in UTF-8, one after another, each ending at its `ends`. `counts` tells how
// many each has, -1 for a text that is not covered. Returns -1 without memory, else 0.
int encode(const void *vocabulary, const uint8_t *texts, const int64_t *ends, int64_t count,
           int32_t *ids, int64_t room, int64_t *counts) try {
    Encoder encoder(*static_cast<const Vocabulary *>(vocabulary), ids, room);
    for (int64_t text = 0; text < count; ++text) {
        const int64_t start = text ? ends[text - 1] : 0;
        counts[text] = encoder.encode(texts + start, ends[text] - start);
    }
    return 0;
} catch (const std::bad_alloc &) {
    return -1;
}
}
