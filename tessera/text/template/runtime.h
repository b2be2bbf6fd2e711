// State that the operations of a render share: its memory, its limits and its clock.
#pragma once

#include <cstdint>
#include <ctime>

#include "tessera/base/result.h"
#include "tessera/text/template/value.h"

namespace tessera::text::jinja {

class Runtime {
 public:
  static constexpr uint64_t kMaxSteps = 1'000'000;
  static constexpr uint64_t kMaxValues = uint64_t{1} << 20;  // of one list or dict
  static constexpr size_t kMaxCalls = 64;

  Runtime(Heap& heap, const std::tm& now) : heap_(heap), now_(now) {}

  Heap& heap() { return heap_; }
  const std::tm& now() const { return now_; }

  /// Counts steps: an instruction, an element visited. Errors: limit.
  Result<> spend(uint64_t n_steps);
  /// Counts bytes read or written; 64 bytes are a step. Errors: limit.
  Result<> spend_bytes(uint64_t n_bytes) { return spend(n_bytes / 64); }
  /// Counts new elements of lists and dicts, which are steps too. Errors: limit.
  Result<> spend_values(uint64_t n_values);

  /// Creates a text. Errors: limit.
  Result<Value> text(std::string_view bytes, Origin origin = Origin::trusted);
  Result<Value> text(const MarkedTextBuilder& builder);
  Result<Value> slice(const MarkedView& text, size_t begin, size_t end);

  /// Creates an empty list or dict with room for n elements, which it counts. Errors: limit.
  Result<List*> create_list(size_t n);
  Result<Dict*> create_dict(size_t n);

  /// Guards calls of filters by filters (map('map', ...)). Errors: limit.
  Result<> enter_call();
  void leave_call() { --n_calls_; }

 private:
  Heap& heap_;
  std::tm now_;
  uint64_t n_steps_ = 0;
  size_t n_calls_ = 0;
};

}  // namespace tessera::text::jinja
