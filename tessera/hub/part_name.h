// Names of the parts of a model in several GGUF files: PREFIX-00001-of-00005.gguf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::hub {

struct PartName {
  std::string prefix;  // with folders
  uint32_t number = 1;
  uint32_t count = 1;
};

/// Returns nothing unless the path has this form and 1 <= number <= count.
std::optional<PartName> parse_part_name(std::string_view path);

std::string part_path(const PartName& part);

}  // namespace tessera::hub
