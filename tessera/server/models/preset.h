// Presets of models: an INI file with a section per model. Keys are flags without their dashes.
//
//     version = 1
//     [*]
//     ctx-size = 8192
//     [coder]
//     model = coder-q4_k.gguf
//     temp = 0.2
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::server {

struct PresetSetting {
  std::string key{};
  std::string value{};  // without the space around it
  size_t line = 0;      // counted from 1
};

struct PresetSection {
  std::string name{};  // "*": for all models
  std::vector<PresetSetting> settings{};
  size_t line = 0;
};

inline constexpr size_t kMaxPresetBytes = size_t{1} << 20;
inline constexpr size_t kMaxPresetSections = 4096;

/// Reads the sections in their order. Lines that begin with # or ; are comments. Errors, each with the number of a
/// line: format (no section, key or value where one must be, a section or key given twice, another version than 1, a
/// control character other than a tab); limit (kMaxPresetBytes, kMaxPresetSections).
Result<std::vector<PresetSection>> parse_presets(std::string_view text);

}  // namespace tessera::server
