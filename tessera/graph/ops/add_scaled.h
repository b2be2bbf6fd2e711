#pragma once

#include <cstdint>

namespace tessera {

struct AddScaledParams {
  float factor = 1.0f;    // of every row, besides its scale
  int64_t n_experts = 0;  // of the routes; 0: there are none
};

}  // namespace tessera
