#include "tessera/convert/checkpoints/output_labels.h"

#include <nlohmann/json.hpp>

namespace tessera::convert {

Result<std::optional<std::vector<std::string>>> output_labels_of(const HubConfig& config) {
  const Json* labels = config.find({"id2label"});
  if (labels == nullptr || !labels->is_object()) return std::nullopt;
  std::vector<std::string> texts;
  for (size_t i = 0; i < labels->size(); ++i) {
    const auto label = labels->find(std::to_string(i));
    if (label == labels->end() || !label->is_string())
      return fail(ErrorCode::format, "{}: id2label: no text for {}", config.path(), i);
    texts.push_back(label->get<std::string>());
  }
  return texts;
}

}  // namespace tessera::convert
