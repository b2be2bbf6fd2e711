#pragma once

namespace tessera {

struct LayerNormParams {
  float eps = 0.0f;
};

}  // namespace tessera
