#pragma once

namespace tessera {

struct SoftCapParams {
  float cap = 1.0f;
};

}  // namespace tessera
