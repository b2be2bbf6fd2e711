#pragma once

namespace tessera {

struct ScaleParams {
  float factor = 1.0f;
};

}  // namespace tessera
