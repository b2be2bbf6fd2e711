#pragma once

namespace tessera {

struct RmsNormParams {
  float eps = 0.0f;
};

}  // namespace tessera
