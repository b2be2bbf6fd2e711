// The base of architectures with recurrent layers: their keys, and the lists of weights of their mixers.
#pragma once

#include "tessera/models/transformer.h"
#include "tessera/nn/recurrent.h"

namespace tessera {

/// {arch}.ssm.*
struct SsmKeys {
  int64_t conv_width = 0;
  int64_t n_inner = 0;
  int64_t n_state = 0;
  int64_t rank = 0;  // mamba: of dt; else the number of heads
  int64_t n_groups = 0;
};

class RecurrentModel : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  /// Errors: a key is missing or out of range. ssm.group_count is read only if wanted.
  enum class Groups : uint8_t { none, wanted };
  Result<> read_ssm_keys(Groups groups);
  /// The same with groups. Errors also: heads do not divide the width, or groups the heads.
  Result<> read_mamba2_keys();

  /// Layers without KV heads are recurrent.
  bool is_recurrent(int64_t il) const { return n_heads_kv_[static_cast<size_t>(il)] == 0; }

  /// ssm_in, ssm_conv1d, ssm_x, ssm_dt, ssm_a, ssm_d, ssm_out; norms are the architecture's.
  nn::Mamba mamba(int64_t il);
  /// ssm_in, ssm_conv1d, ssm_dt.bias, ssm_a, ssm_d, ssm_norm, ssm_out.
  nn::Mamba2 mamba2(int64_t il);

  /// Adds a recurrent layer with states of these numbers of elements; returns its index.
  int64_t add_state_layer(std::vector<int64_t> n_elements);

  SsmKeys ssm_;
};

}  // namespace tessera
