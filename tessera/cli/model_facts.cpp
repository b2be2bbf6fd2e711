#include "tessera/cli/model_facts.h"

#include <algorithm>
#include <vector>

#include "tessera/cli/console.h"
#include "tessera/gguf/printable.h"

namespace tessera::cli {

std::map<DType, FormatShare> shares_of_formats(const ModelFiles& files) {
  std::map<DType, FormatShare> shares;
  for (const ModelFiles::Tensor& tensor : files.tensors()) {
    FormatShare& share = shares[tensor.info.dtype];
    ++share.n_tensors;
    share.n_bytes += tensor.info.n_bytes;
  }
  return shares;
}

uint64_t count_parameters(const ModelFiles& files) {
  uint64_t n = 0;
  for (const ModelFiles::Tensor& tensor : files.tensors()) n += static_cast<uint64_t>(tensor.info.shape.n_elements());
  return n;
}

std::string model_name(const Engine& engine) {
  const ModelInfo& model = engine.model().info();
  return printable(model.name.empty() ? model.architecture : model.name);
}

std::string_view main_format(const ModelFiles& files) {
  const std::map<DType, FormatShare> shares = shares_of_formats(files);
  const auto largest = std::ranges::max_element(shares, {}, [](const auto& entry) { return entry.second.n_bytes; });
  return largest == shares.end() ? "" : info(largest->first).name;
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
