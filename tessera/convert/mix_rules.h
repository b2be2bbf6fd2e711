// The rules of the mixes: the tensors of a model that get another type than the default. choose_types() calls them for
// one tensor after the other, because some rules count.
#pragma once

#include "tessera/convert/mix.h"

namespace tessera::convert {

/// The role of a tensor, derived from its name.
enum class Role : uint8_t { output, embedding, v, k, q, attn_output, up, gate, down, other };

Role role_of(std::string_view tensor_name);

class MixRules {
 public:
  /// Borrows all arguments.
  MixRules(std::span<const MixTensor> tensors, const MixModel& model, const MixOptions& options);

  /// Returns the type of the next tensor to which the rules apply.
  DType next(const MixTensor& tensor);

 private:
  // Position of a layer among all layers, for rules such as "the first eighth" and "more bits".
  struct Position {
    int64_t i = 0;
    int64_t n = 0;
    bool is_in_first(int64_t share) const { return i < n / share; }
    bool gets_more_bits() const { return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2; }
  };

  Position position(const MixTensor& tensor, int64_t& n_seen) const;
  DType output_type(const MixTensor& tensor) const;
  DType embedding_type() const;
  DType tiny_type(Role role);
  DType v_type();
  DType q_or_k_type(Role role) const;
  DType attn_output_type() const;
  DType down_type(const MixTensor& tensor);
  DType gate_or_up_type(const MixTensor& tensor, int64_t& n_seen);

  const MixModel& model_;
  const MixOptions& options_;
  const DType base_;
  bool has_output_ = false;
  bool is_falcon_ = false;
  bool is_70b_ = false;
  bool has_8_experts_ = false;
  int64_t n_query_groups_ = 0;  // heads per KV head
  int64_t n_v_ = 0;             // tensors of role v in the model
  int64_t n_v_seen_ = 0, n_down_seen_ = 0, n_gate_seen_ = 0, n_up_seen_ = 0;
};

}  // namespace tessera::convert
