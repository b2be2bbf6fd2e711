#include "tessera/convert/checkpoints/pooling.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace tessera::convert {

namespace {

/// Modes of 1_Pooling/config.json, and their numbers in GGUF.
struct PoolingMode {
  const char* name;
  uint32_t number;
};
constexpr PoolingMode kPoolingModes[] = {
    {"pooling_mode_mean_tokens", 1}, {"pooling_mode_cls_token", 2}, {"pooling_mode_lasttoken", 3}};

// The folders of the modules of a kind that modules.json names, in their order.
Result<std::vector<std::string>> folders_of(const Checkpoint& checkpoint, std::string_view kind) {
  std::vector<std::string> folders;
  TESSERA_ASSIGN(const JsonTree modules, checkpoint.read_json_file("modules.json"));
  if (!modules || !modules->is_array()) return folders;
  for (const Json& module : *modules) {
    if (!module.is_object() || module.value("type", Json()) != "sentence_transformers.models." + std::string(kind))
      continue;
    const Json path = module.value("path", Json());
    if (!path.is_string() || !is_plain_name(path.get_ref<const std::string&>()))
      return fail(ErrorCode::format, "{}/modules.json: path of a module, want the name of a folder",
                  checkpoint.folder());
    folders.push_back(path.get<std::string>());
  }
  return folders;
}

// A matrix without bias, as a tensor of the result with this name.
Result<> add_dense_layer(ModelDraft& draft, const std::string& folder, const std::string& name) {
  TESSERA_ASSIGN(const JsonTree config, draft.checkpoint.read_json_file(folder + "/config.json"));
  const std::string path = draft.checkpoint.folder() + "/" + folder;
  const Json activation = config && config->is_object() ? config->value("activation_function", Json()) : Json();
  if (!activation.is_string() || !activation.get_ref<const std::string&>().ends_with("Identity"))
    return fail(ErrorCode::unsupported, "{}/config.json: activation_function, want the identity", path);
  TESSERA_ASSIGN(const Checkpoint layer, Checkpoint::open(path));
  const CheckpointTensor* const weight = layer.find("linear.weight");
  if (weight == nullptr || layer.tensors().size() != 1 || weight->tensor.shape.size() != 2)
    return fail(ErrorCode::unsupported, "{}: want one matrix, linear.weight", path);
  const std::vector<int64_t>& shape = weight->tensor.shape;
  ConvertedTensor stored{.parts = {{weight->file, weight->tensor}}};
  ConvertedTensor tensor = computed_tensor(name + ".weight", stored_floats(layer, stored));
  tensor.shape = shape;
  draft.tensors.push_back(std::move(tensor));
  draft.builder.set(draft.key(name + "_feat_in"), static_cast<uint32_t>(shape[1]));
  draft.builder.set(draft.key(name + "_feat_out"), static_cast<uint32_t>(shape[0]));
  return {};
}

}  // namespace

Result<> add_pooling(ModelDraft& draft) {
  TESSERA_ASSIGN(const std::vector<std::string> folders, folders_of(draft.checkpoint, "Pooling"));
  if (folders.empty()) return {};
  const std::string file = folders[0] + "/config.json";
  TESSERA_ASSIGN(const JsonTree config, draft.checkpoint.read_json_file(file));
  if (!config || !config->is_object()) return {};
  for (const PoolingMode& mode : kPoolingModes) {
    if (config->value(mode.name, Json(false)) != true) continue;
    draft.builder.set(draft.key("pooling_type"), mode.number);
    return {};
  }
  return fail(ErrorCode::unsupported, "{}/{}: pooling is neither of mean, cls and last token",
              draft.checkpoint.folder(), file);
}

Result<> add_dense_layers(ModelDraft& draft) {
  TESSERA_ASSIGN(const std::vector<std::string> folders, folders_of(draft.checkpoint, "Dense"));
  if (folders.empty()) return {};
  if (folders.size() != 2)
    return fail(ErrorCode::unsupported, "{}/modules.json: {} dense layers, want two", draft.checkpoint.folder(),
                folders.size());
  TESSERA_TRY(add_dense_layer(draft, folders[0], "dense_2"));
  return add_dense_layer(draft, folders[1], "dense_3");
}

}  // namespace tessera::convert
