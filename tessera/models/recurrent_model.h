// The base class of architectures with recurrent layers: their keys, and the lists of weights of their mixers.
#pragma once

#include "tessera/base/index.h"
#include "tessera/models/transformer.h"
#include "tessera/nn/recurrent.h"

namespace tessera {

/// Bound of the inner width of a product with two small matrices.
inline constexpr int64_t kMaxLowRank = 4096;

/// {arch}.ssm.*
struct SsmKeys {
  int64_t conv_width = 0;
  int64_t n_inner = 0;
  int64_t n_state = 0;
  int64_t rank = 0;  // mamba: rank of dt; otherwise the number of heads
  int64_t n_groups = 0;
};

class RecurrentModel : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  /// Errors: a key is missing or out of range. Groups::wanted also reads ssm.group_count.
  enum class Groups : uint8_t { none, wanted };
  Result<> read_ssm_keys(Groups groups);
  /// The same with groups. Further errors: the number of heads does not divide the width, or the number of groups does
  /// not divide the number of heads.
  Result<> read_mamba2_keys();

  /// For the delta rule, which divides q and k by a norm of at least the eps of RMS norms. Errors: it is 0.
  Result<> require_eps() const;

  /// True for layers without KV heads.
  bool is_recurrent(int64_t il) const { return n_heads_kv_[to_size(il)] == 0; }

  /// ssm_in, ssm_conv1d, ssm_x, ssm_dt, ssm_a, ssm_d, ssm_out. The architecture adds norms.
  nn::Mamba mamba(int64_t il);
  /// ssm_in, ssm_conv1d, ssm_dt.bias, ssm_a, ssm_d, ssm_norm, ssm_out.
  nn::Mamba2 mamba2(int64_t il, bool needs_norm = true);

  /// Adds a recurrent layer whose states have the given numbers of elements. Returns its index.
  int64_t add_state_layer(std::vector<int64_t> n_elements);

  SsmKeys ssm_;
};

}  // namespace tessera
