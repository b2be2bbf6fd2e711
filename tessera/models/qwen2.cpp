// qwen2: Qwen 1.5 to 2.5. Like llama with biases on q, k and v, and rope over halves.
#include "tessera/models/transformer.h"

namespace tessera {

Result<std::unique_ptr<Model>> create_qwen2(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Transformer>(files, rope, {.architecture = "qwen2", .pairs = RopePairs::halves});
}

}  // namespace tessera
