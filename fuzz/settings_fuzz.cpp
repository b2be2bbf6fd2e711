// libFuzzer target for texts of the server's settings: presets of models, files of API keys, and targets of requests.
// The first byte chooses the form. Any bytes are read within the limits, or refused without showing a key.
// fuzz/CMakeLists.txt explains how to run it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "tessera/server/http/keys.h"
#include "tessera/server/http/target.h"
#include "tessera/server/models/preset.h"

namespace {

using namespace tessera::server;

// libFuzzer reports the input of a violation.
void require(bool holds) {
  if (!holds) std::abort();
}

bool has_control_characters(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7F; });
}

// The same sections as an INI file.
std::string preset_text(const std::vector<PresetSection>& sections) {
  std::string text;
  for (const PresetSection& section : sections) {
    text += "[" + section.name + "]\n";
    for (const PresetSetting& setting : section.settings) text += setting.key + " = " + setting.value + "\n";
  }
  return text;
}

void check_presets(std::string_view text) {
  const auto sections = parse_presets(text);
  if (!sections) return require(!sections.error().message().empty());
  require(sections->size() <= kMaxPresetSections);
  std::set<std::string> names;
  for (const PresetSection& section : *sections) {
    require(names.insert(section.name).second && !has_control_characters(section.name));
    for (const PresetSetting& setting : section.settings) {
      require(!setting.key.empty() && !has_control_characters(setting.key + setting.value));
      require(setting.line > section.line);
    }
  }
  const auto again = parse_presets(preset_text(*sections));
  require(again.has_value() && preset_text(*again) == preset_text(*sections));
}

void check_keys(std::string_view text) {
  KeyRing ring;
  const auto added = ring.add_lines(text);
  const std::string first(text.substr(0, text.find_first_of(" \t\r\n")));
  if (!added) {
    const std::string message = added.error().message();
    require(!message.empty() && (first.size() < 16 || message.find(first) == std::string::npos));
  } else if (!first.empty() && first.front() != '#') {
    require(ring.find(first) != nullptr);
  }
  require(ring.find("") == nullptr);
}

// A target in which every byte is escaped decodes to the same. Heads with zero bytes never come this far.
void check_target(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return;
  const auto target = parse_target(text);
  if (!target) return;
  require(target->query.size() <= kMaxQueryValues && target->path.find('\0') == std::string::npos);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string escaped;
  for (const unsigned char c : target->path) (escaped += '%').append({kDigits[c / 16], kDigits[c % 16]});
  const auto again = parse_target(escaped);
  require(again.has_value() && again->path == target->path && again->query.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  if (n == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, n - 1);
  switch (data[0] % 3) {
    case 0:
      check_presets(text);
      break;
    case 1:
      check_keys(text);
      break;
    default:
      check_target(text);
      break;
  }
  return 0;
}
