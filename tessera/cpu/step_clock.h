// When each thread of a run prepared and finished each step.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "tessera/base/index.h"

namespace tessera::cpu {

class StepClock {
 public:
  StepClock(size_t n_steps, int n_threads)
      : n_steps_(n_steps), marks_(n_steps * to_size(n_threads)), begin_(Clock::now()) {}

  void prepared(size_t step, int thread) { marks_[to_size(thread) * n_steps_ + step].prepared_us = now_us(); }
  void ended(size_t step, int thread) { marks_[to_size(thread) * n_steps_ + step].end_us = now_us(); }

  struct Times {
    double begin_us, us, prepare_us, wait_us;  // as in NodeTime
  };
  /// The times of all steps. A step ends, and the next one begins, when its last thread finishes. The time at which a
  /// thread leaves the barrier would be too late: the first thread to wake up may already have finished the next step.
  /// A thread that does not take part in a step waits for its whole time.
  std::vector<Times> times() const {
    std::vector<Times> times;
    double begin = 0;
    for (size_t step = 0; step < n_steps_; ++step) {
      double end = begin, prepare = 0, wait = 0;
      for (size_t i = step; i < marks_.size(); i += n_steps_) end = std::max(end, marks_[i].end_us);
      for (size_t i = step; i < marks_.size(); i += n_steps_) {
        prepare += std::max(marks_[i].prepared_us - begin, 0.0);
        wait += end - std::max(begin, marks_[i].end_us);
      }
      const auto n_threads = static_cast<double>(marks_.size() / n_steps_);
      times.push_back({begin, end - begin, prepare / n_threads, wait / n_threads});
      begin = end;
    }
    return times;
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Marks {
    double prepared_us = 0, end_us = 0;  // 0: the thread did not take part
  };

  double now_us() const { return std::chrono::duration<double, std::micro>(Clock::now() - begin_).count(); }

  size_t n_steps_;
  std::vector<Marks> marks_;  // of thread 0 in all steps, then of thread 1, ...: two threads rarely share a cache line
  Clock::time_point begin_;
};

}  // namespace tessera::cpu
