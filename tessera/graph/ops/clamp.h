#pragma once

namespace tessera {

struct ClampParams {
  float min = 0.0f;
  float max = 0.0f;
};

}  // namespace tessera
