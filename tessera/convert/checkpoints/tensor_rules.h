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
#include "tessera/convert/source/hub_config.h"

namespace tessera::convert {

enum class Change : uint8_t {
  same,
  drop,              // not part of the result
  spare,             // used only if no other tensor has the name in the result: copies of the token embedding
  add_one,           // values + 1: norms that store the difference from 1
  add_fifth,         // values + 1/5
  add_fifth_to_1_5,  // values + (1/5)^1.5
  minus_exp,         // -exp(values): decays that are stored as logarithms
  ternary,           // each value -s, 0 or s, whichever is nearest, where s is the mean of the absolute values
  rope_q,            // rows of q in the order of GGUF (rope_pairs_together), for all heads
  rope_k,            // the same for k and the KV heads
  integers,          // stored as i32, such as numbers of experts. The class has checked that they fit
  transpose,         // rows and columns of a matrix, or of each matrix, exchanged
  squeeze,           // without extents of 1
  first_half,        // of the rows of a matrix, or of each matrix
  second_half,       // the other rows
};

struct HeadCounts {
  int64_t q = 0, kv = 0;
};

/// Facts of a model that rules depend on.
struct RuleFacts {
  HeadCounts heads{};
  const HubConfig* config = nullptr;
  std::string_view prefix{};  // of hub names, which rules leave out. Names without it are the same tensors
  int64_t n_layers = 0;
  bool drops_later_layers = false;  // tensors of layer n_layers and later ones are not part of the result
};

/// Views whose elements, one view after another, are the elements of a tensor of this shape.
struct TensorPieces {
  std::vector<StoredTensor> views{};
  std::vector<int64_t> shape{};
  std::vector<float> factors{};  // of the values of each view; empty: 1
};

/// An order of elements that only one class of models has. Errors: mismatch (a shape that it does not allow).
using MakePieces = Result<TensorPieces> (*)(const StoredTensor& tensor, const RuleFacts& facts);

/// Adjacent rules of the same hub pattern make several tensors of one.
struct TensorRule {
  std::string_view hub;   // pattern of the name in the checkpoint
  std::string_view gguf;  // pattern of the name in the result. With {e} only in the first pattern, experts are stacked
  Change change = Change::same;
  MakePieces pieces = nullptr;   // done before the change
  bool is_after_layers = false;  // layer i of the hub is block n_layers + i
  int32_t member = -1;           // tensors of several names are stacked: the number of this one
};

/// A change of the values when they are read.
enum class ValueChange : uint8_t { none, add_one, add_fifth, add_fifth_to_1_5, minus_exp, ternary, integers };

/// A tensor of the result: views of tensors in files, one after another along the first dimension.
struct ConvertedTensor {
  struct Part {
    size_t file = 0;
    StoredTensor view;
    float factor = 1.0f;  // the values are multiplied by it after ValueChange; ternary: the scale of the three values
  };

  std::string name{};
  std::vector<int64_t> shape{};  // outermost first
  std::vector<Part> parts{};
  ValueChange values = ValueChange::none;
  std::vector<float> computed{};  // all values of a tensor without parts, such as factors of frequencies
};

/// A tensor whose values are computed.
ConvertedTensor computed_tensor(std::string name, std::vector<float> values);

/// The values of a tensor's parts as they are stored, for tensors that are small.
std::vector<float> stored_floats(const Checkpoint& checkpoint, const ConvertedTensor& tensor);

/// Returns the first rule that fits a name of the checkpoint, and the rules after it with the same pattern. Empty if no
/// rule fits. Names may lack the prefix. If no rule fits a name as it is, it may lack "model." too.
std::span<const TensorRule> find_rules(std::string_view name, std::span<const TensorRule> rules,
                                       std::string_view prefix);

/// Applies the first rule that fits to each tensor. The result is in the order of the checkpoint.
/// Errors: unsupported (no rule fits a tensor); mismatch (a shape that a change does not allow; experts of different
/// shapes or types, or some of them missing); format (two tensors of one name).
Result<std::vector<ConvertedTensor>> apply_rules(std::span<const CheckpointTensor> tensors,
                                                 std::span<const TensorRule> rules, const RuleFacts& facts);

}  // namespace tessera::convert
