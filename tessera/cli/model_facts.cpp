#include "tessera/cli/model_facts.h"

#include <vector>

#include "tessera/cli/console.h"
#include "tessera/gguf/printable.h"

namespace tessera::cli {

std::string model_name(const Engine& engine) {
  const ModelInfo& model = engine.model().info();
  return printable(model.name.empty() ? model.architecture : model.name);
}

std::string_view purpose_of(MemoryPart::Kind kind) {
  switch (kind) {
    case MemoryPart::Kind::weights:
      return "weights";
    case MemoryPart::Kind::cache:
      return "kv";
    case MemoryPart::Kind::compute:
      return "compute";
    case MemoryPart::Kind::output:
      return "output";
  }
  return "";
}

std::string memory_table(const MemoryReport& report) {
  std::vector<std::vector<std::string>> rows = {{"device", "buffer", "what", "bytes", "size"}};
  for (const MemoryPart& part : report.parts)
    rows.push_back({part.device, part.buffer, std::string(purpose_of(part.kind)), std::to_string(part.bytes),
                    human_bytes(static_cast<double>(part.bytes))});
  rows.push_back({"total", "", "", std::to_string(report.total()), human_bytes(static_cast<double>(report.total()))});
  return format_table(rows, "lllrr");
}

}  // namespace tessera::cli
