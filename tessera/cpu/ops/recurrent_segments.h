// Reads and checks the segments of recurrent operations (graph/ops/recurrent.h). Used by recurrent.cpp and
// recurrent_grad.cpp.
#pragma once

#include <optional>
#include <span>

#include "tessera/base/index.h"
#include "tessera/cpu/step.h"
#include "tessera/graph/ops/recurrent.h"

namespace tessera::cpu {

/// The tokens of one sequence and its states.
struct Segment {
  std::span<const int32_t> tokens;
  const float* before = nullptr;  // the initial state; null: zeros
  float* after = nullptr;
};

inline bool is_index(const Step& step, Worker& worker, const char* what, int64_t value, int64_t limit) {
  if (value >= 0 && value < limit) return true;
  worker.fault.report(step, what, value, limit);
  return false;
}

class Segments {
 public:
  Segments(const Step& step, const Operand& state, const Operand& segments, int64_t n_tokens)
      : step_(step),
        state_(state),
        fields_(segments.row<const int32_t>(0)),
        n_((segments.shape()[0] - n_tokens) / kSegmentFields),
        n_tokens_(n_tokens) {}

  int64_t size() const { return n_; }

  /// Returns segment i, or nothing if it is unused or, with a reported fault, out of range.
  std::optional<Segment> at(Worker& worker, int64_t i) const {
    const int32_t* fields = fields_ + i * kSegmentFields;
    const int32_t begin = fields[0], count = fields[1], read = fields[2], write = fields[3];
    if (count == 0) return std::nullopt;
    const int64_t n_slots = state_.shape()[1];
    if (!is_index(step_, worker, "first token", begin, n_tokens_) ||
        !is_index(step_, worker, "last token", int64_t{begin} + count - 1, n_tokens_) ||
        !is_index(step_, worker, "tokens", count, n_tokens_ + 1) ||
        (read != -1 && !is_index(step_, worker, "state", read, n_slots)) ||
        !is_index(step_, worker, "state", write, n_slots))
      return std::nullopt;
    const std::span<const int32_t> tokens(fields_ + n_ * kSegmentFields + begin, to_size(count));
    for (const int32_t token : tokens)
      if (!is_index(step_, worker, "token", token, n_tokens_)) return std::nullopt;
    return Segment{tokens, read == -1 ? nullptr : state_.row(read), state_.row(write)};
  }

 private:
  const Step& step_;
  const Operand& state_;
  const int32_t* fields_;
  int64_t n_;
  int64_t n_tokens_;
};

template <class T>
T* offset(T* p, int64_t n) {
  return p == nullptr ? nullptr : p + n;
}

}  // namespace tessera::cpu
