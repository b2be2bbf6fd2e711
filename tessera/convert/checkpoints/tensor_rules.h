// Rules that turn the tensors of a checkpoint into those of a GGUF file: other names, other orders of the elements,
// experts in one tensor. A rule is a row of a table; each class of models has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/convert/checkpoints/name_pattern.h"
#include "tessera/convert/source/checkpoint.h"

namespace tessera::convert {

enum class Change : uint8_t {
  same,
  drop,       // not part of the result
  add_one,    // values + 1: norms that store the difference from 1
  minus_exp,  // -exp(values): decays that are stored as logarithms
  rope_q,     // rows of q in the order of GGUF (rope_pairs_together), for all heads
  rope_k,     // the same for k and the KV heads
  transpose,
  squeeze,
};

struct TensorRule {
  std::string_view hub;   // pattern of the name in the checkpoint
  std::string_view gguf;  // pattern of the name in the result. With {e} only in the first pattern, experts are stacked
  Change change = Change::same;
};

struct HeadCounts {
  int64_t q = 0, kv = 0;
};

/// The change of values when they are read.
enum class ValueChange : uint8_t { none, add_one, minus_exp };

/// A tensor of the result: views of tensors in files, one after another along the first dimension.
struct ConvertedTensor {
  struct Part {
    size_t file = 0;
    StoredTensor view;
  };

  std::string name{};
  std::vector<int64_t> shape{};  // outermost first
  std::vector<Part> parts{};
  ValueChange values = ValueChange::none;
};

/// Applies the first rule that fits to each tensor. The result is in the order of the checkpoint.
/// Errors: unsupported (no rule fits a tensor); mismatch (a shape that a change does not allow; experts of different
/// shapes or types, or some of them missing); format (two tensors of one name).
Result<std::vector<ConvertedTensor>> apply_rules(const Checkpoint& checkpoint, std::span<const TensorRule> rules,
                                                 const HeadCounts& heads);

}  // namespace tessera::convert
