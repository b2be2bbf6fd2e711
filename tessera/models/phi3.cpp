// phi3: Phi 3 to 4. RMS norms, fused gate and up, and rope over a part of the head, with factors per pair for long
// contexts. The sliding window in its files is not used, as in llama.cpp.
#include "tessera/models/transformer.h"

namespace tessera {

Result<std::unique_ptr<Model>> create_phi3(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Transformer>(files, rope,
                                         {.architecture = "phi3", .ffn = FfnForm::fused, .pairs = RopePairs::halves});
}

}  // namespace tessera
