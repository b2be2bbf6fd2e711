// What architectures with recurrent layers have in common: their keys, and the lists of their mixers' weights.
#pragma once

#include "tessera/models/decoder.h"
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

class RecurrentDecoder : public Decoder {
 public:
  using Decoder::Decoder;

 protected:
  /// Errors: a key that is missing or out of range. A key that is not wanted is not read.
  enum class Groups : uint8_t { none, wanted };
  Result<> read_ssm_keys(Groups groups);
  /// Also that heads divide the width and groups the heads.
  Result<> read_mamba2_keys();

  /// Layers without KV heads are recurrent.
  bool is_recurrent(int64_t il) const { return n_heads_kv_[static_cast<size_t>(il)] == 0; }

  /// ssm_in, ssm_conv1d, ssm_x, ssm_dt, ssm_a, ssm_d, ssm_out; norms are the architecture's.
  nn::Mamba mamba(int64_t il);
  /// ssm_in, ssm_conv1d, ssm_dt.bias, ssm_a, ssm_d, ssm_norm, ssm_out.
  nn::Mamba2 mamba2(int64_t il);

  /// The next recurrent layer, which keeps states of so many elements each.
  int64_t add_state_layer(std::vector<int64_t> n_elements);

  SsmKeys ssm_;
};

}  // namespace tessera
