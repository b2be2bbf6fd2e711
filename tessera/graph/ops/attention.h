#pragma once

namespace tessera {

struct AttentionParams {
  float scale = 1.0f;  // scores are multiplied by this before the softmax
};

}  // namespace tessera
