#include "tessera/convert/vocabulary_keys.h"

namespace tessera::convert {

Result<> add_vocabulary(const Checkpoint& /*checkpoint*/, const HubConfig& /*config*/, GgufBuilder& /*builder*/,
                        std::vector<std::string>& /*warnings*/) {
  return {};
}

}  // namespace tessera::convert
