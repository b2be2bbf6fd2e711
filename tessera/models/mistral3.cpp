// mistral3: Ministral 3 and Mistral Large 3 dense. Like llama, except that q is multiplied by a factor that grows with
// the logarithm of the position beyond the trained context. YaRN's bounds and magnitude are read from the file.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Mistral3 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(read_yarn_keys());
    return read_temperature(info_.ropes[0].config.original_context);
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_mistral3(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Mistral3>(files, rope,
                                      {.architecture = "mistral3",
                                       .rope = RopePart::whole,
                                       .ffn_scales = FfnScales::all,
                                       .mixture = {.layers = ExpertLayers::if_counted, .width = ExpertWidth::dense}});
}

}  // namespace tessera
