#include "tessera/server/models/preset.h"

#include <algorithm>

#include "tessera/text/utf8.h"

namespace tessera::server {

namespace {

constexpr std::string_view kSpace = " \t\r";

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7F; });
}

// A setting before the first section. It is about the file.
Result<> check_file_setting(const PresetSetting& setting) {
  if (setting.key != "version")
    return fail(ErrorCode::format, "line {}: {}: a setting before the first [section]", setting.line,
                text::quote_text(setting.key));
  if (setting.value == "1") return {};
  return fail(ErrorCode::format, "line {}: version {}, want 1", setting.line, text::quote_text(setting.value));
}

Result<std::string> section_name(std::string_view line, size_t n) {
  if (!line.ends_with(']')) return fail(ErrorCode::format, "line {}: the section has no ]", n);
  const std::string_view name = trimmed(line.substr(1, line.size() - 2));
  if (name.empty()) return fail(ErrorCode::format, "line {}: the section has no name", n);
  return std::string(name);
}

Result<PresetSetting> setting_of(std::string_view line, size_t n) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return fail(ErrorCode::format, "line {}: want KEY = VALUE", n);
  PresetSetting setting{.key = std::string(trimmed(line.substr(0, equals))),
                        .value = std::string(trimmed(line.substr(equals + 1))),
                        .line = n};
  if (setting.key.empty()) return fail(ErrorCode::format, "line {}: no key before the =", n);
  return setting;
}

Result<> add_setting(std::vector<PresetSection>& sections, PresetSetting setting) {
  if (sections.empty()) return check_file_setting(setting);
  auto& settings = sections.back().settings;
  if (std::ranges::find(settings, setting.key, &PresetSetting::key) != settings.end())
    return fail(ErrorCode::format, "line {}: {} is given twice", setting.line, text::quote_text(setting.key));
  settings.push_back(std::move(setting));
  return {};
}

}  // namespace

Result<std::vector<PresetSection>> parse_presets(std::string_view text) {
  if (text.size() > kMaxPresetBytes)
    return fail(ErrorCode::limit, "presets of {} bytes, want at most {}", text.size(), kMaxPresetBytes);
  std::vector<PresetSection> sections;
  for (size_t n = 1; !text.empty(); ++n) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (has_control(line) || !text::is_valid_utf8(line))
      return fail(ErrorCode::format, "line {}: a control character, or bytes that are not UTF-8", n);
    if (line.front() != '[') {
      TESSERA_ASSIGN(PresetSetting setting, setting_of(line, n));
      TESSERA_TRY(add_setting(sections, std::move(setting)));
      continue;
    }
    TESSERA_ASSIGN(std::string name, section_name(line, n));
    if (sections.size() >= kMaxPresetSections)
      return fail(ErrorCode::limit, "line {}: more than {} sections", n, kMaxPresetSections);
    if (std::ranges::find(sections, name, &PresetSection::name) != sections.end())
      return fail(ErrorCode::format, "line {}: section [{}] is given twice", n, name);
    sections.push_back({.name = std::move(name), .settings = {}, .line = n});
  }
  return sections;
}

}  // namespace tessera::server
