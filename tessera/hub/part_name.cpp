#include "tessera/hub/part_name.h"

#include <fmt/format.h>

#include <charconv>

namespace tessera::hub {

namespace {

constexpr size_t kDigits = 5;
constexpr std::string_view kEnd = ".gguf", kOf = "-of-", kBefore = "-";

// Removes an ending from a text. Returns false if the text ends otherwise.
bool remove_end(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

std::optional<uint32_t> remove_number(std::string_view& text) {
  if (text.size() < kDigits) return std::nullopt;
  uint32_t value = 0;
  const char* begin = text.data() + text.size() - kDigits;
  const auto [end, error] = std::from_chars(begin, begin + kDigits, value);
  if (error != std::errc() || end != begin + kDigits) return std::nullopt;
  text.remove_suffix(kDigits);
  return value;
}

}  // namespace

std::optional<PartName> parse_part_name(std::string_view path) {
  PartName part;
  if (!remove_end(path, kEnd)) return std::nullopt;
  const auto count = remove_number(path);
  if (!count || !remove_end(path, kOf)) return std::nullopt;
  const auto number = remove_number(path);
  if (!number || !remove_end(path, kBefore) || *number < 1 || *number > *count) return std::nullopt;
  return PartName{.prefix = std::string(path), .number = *number, .count = *count};
}

std::string part_path(const PartName& part) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", part.prefix, part.number, part.count);
}

}  // namespace tessera::hub
