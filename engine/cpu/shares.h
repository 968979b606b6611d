// Equal steps divided among OpenMP's threads, so that one that is held up holds up no other.
#pragma once
#include <omp.h>

#include <atomic>
#include <vector>

#include "vectors.h"

// Each thread has a part, which it takes from the front, a portion at a time. When it is through it
// takes portions of others' parts. Where a part is one portion nothing is taken from others.
class Shares {
 public:
  explicit Shares(long steps)
      : steps_(steps),
        parts_(omp_get_max_threads()),
        portion_(at_least(LEAST_PORTION, steps / (PORTIONS * parts_))),
        next_(steps > parts_ * portion_ ? parts_ : 0) {
    for (size_t part = 0; part < next_.size(); part++) next_[part].step = start(part);
  }

  // Calls `run(first, last)` for steps first … last - 1 until none is left. For every thread.
  template <class Run>
  void take(Run run) {
    const long thread = omp_get_thread_num(), threads = omp_get_num_threads();
    if (next_.empty()) {  // of more parts than threads some have several
      for (long part = thread; part < parts_; part += threads) run(start(part), start(part + 1));
      return;
    }
    for (long i = 0; i < parts_; i++) {
      const long part = (thread + i) % parts_, last = start(part + 1);
      for (long first; (first = next_[part].step.fetch_add(portion_)) < last;)
        run(first, at_most(first + portion_, last));
    }
  }

 private:
  // A few microseconds: less would not be worth another thread's reading of what is multiplied.
  static constexpr long LEAST_PORTION = 48;
  static constexpr long PORTIONS = 8;

  struct alignas(64) Next {  // each in a cache line of its own
    std::atomic<long> step;
  };

  static long at_least(long a, long b) { return a > b ? a : b; }
  long start(long part) const { return steps_ * part / parts_; }

  const long steps_, parts_, portion_;
  std::vector<Next> next_;  // of each part; empty where nothing is taken from others
};
