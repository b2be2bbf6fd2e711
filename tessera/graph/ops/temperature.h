#pragma once

#include <cstdint>

namespace tessera {

struct TemperatureParams {
  float beta = 0.0f;
  int64_t length = 1;  // positions of one step
};

}  // namespace tessera
