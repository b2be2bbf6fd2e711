#include "tessera/cli/adapter_args.h"

namespace tessera::cli {

namespace {

constexpr float kMaxScale = 1e6f;
constexpr int64_t kMaxLayer = 1 << 16;

Setter add_file(std::vector<AdapterSource>& files) {
  return [&files](std::string_view text) -> Result<> {
    if (text.empty()) return fail(ErrorCode::invalid_argument, "want a file, got ''");
    files.push_back({.path = std::string(text)});
    return {};
  };
}

Setter add_scaled_file(std::vector<AdapterSource>& files) {
  return [&files](std::string_view text) -> Result<> {
    const size_t colon = text.rfind(':');
    if (colon == std::string_view::npos || colon == 0)
      return fail(ErrorCode::invalid_argument, "'{}': want FILE:SCALE, e.g. style.gguf:0.5", text);
    TESSERA_ASSIGN(const float scale, parse_real(text.substr(colon + 1), -kMaxScale, kMaxScale));
    files.push_back({.path = std::string(text.substr(0, colon)), .scale = scale});
    return {};
  };
}

Setter layers_setter(LayerSpan& layers) {
  return [&layers](std::string_view text) -> Result<> {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos)
      return fail(ErrorCode::invalid_argument, "'{}': want two numbers START END", text);
    TESSERA_ASSIGN(layers.first, parse_integer(text.substr(0, space), 0, kMaxLayer));
    TESSERA_ASSIGN(layers.last, parse_integer(text.substr(space + 1), layers.first, kMaxLayer));
    return {};
  };
}

}  // namespace

void add_lora_flags(FlagTable& table, std::vector<AdapterSource>& loras) {
  table.common("--lora", "FILE", "add a LoRA adapter; may be repeated", add_file(loras));
  table.common("--lora-scaled", "FILE:SCALE", "add a LoRA adapter, scaled by SCALE; may be repeated",
               add_scaled_file(loras));
}

void add_adapter_flags(FlagTable& table, AdapterSources& adapters) {
  add_lora_flags(table, adapters.loras);
  table.rare("--control-vector", "FILE", "add a control vector to the layers' outputs; may be repeated",
             add_file(adapters.control_vectors));
  table.rare("--control-vector-scaled", "FILE:SCALE", "add a control vector, scaled by SCALE; may be repeated",
             add_scaled_file(adapters.control_vectors));
  table.rare("--control-vector-layer-range", "START END",
             "first and last layer to which control vectors are added, counted from 0", layers_setter(adapters.layers),
             "all");
}

}  // namespace tessera::cli
