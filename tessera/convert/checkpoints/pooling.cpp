#include "tessera/convert/checkpoints/pooling.h"

#include <nlohmann/json.hpp>
#include <string>

namespace tessera::convert {

namespace {

/// Modes of 1_Pooling/config.json, and their numbers in GGUF.
struct PoolingMode {
  const char* name;
  uint32_t number;
};
constexpr PoolingMode kPoolingModes[] = {
    {"pooling_mode_mean_tokens", 1}, {"pooling_mode_cls_token", 2}, {"pooling_mode_lasttoken", 3}};

}  // namespace

Result<> add_pooling(ModelDraft& draft) {
  const Checkpoint& checkpoint = draft.checkpoint;
  TESSERA_ASSIGN(const JsonTree modules, checkpoint.read_json_file("modules.json"));
  if (!modules || !modules->is_array()) return {};
  for (const Json& module : *modules) {
    if (!module.is_object() || module.value("type", Json()) != "sentence_transformers.models.Pooling") continue;
    const Json path = module.value("path", Json());
    if (!path.is_string() || !is_plain_name(path.get_ref<const std::string&>()))
      return fail(ErrorCode::format, "{}/modules.json: path of the pooling, want the name of a folder",
                  checkpoint.folder());
    const std::string file = path.get<std::string>() + "/config.json";
    TESSERA_ASSIGN(const JsonTree config, checkpoint.read_json_file(file));
    if (!config || !config->is_object()) return {};
    for (const PoolingMode& mode : kPoolingModes) {
      if (config->value(mode.name, Json(false)) != true) continue;
      draft.builder.set(draft.key("pooling_type"), mode.number);
      return {};
    }
    return fail(ErrorCode::unsupported, "{}/{}: pooling is neither of mean, cls and last token", checkpoint.folder(),
                file);
  }
  return {};
}

}  // namespace tessera::convert
