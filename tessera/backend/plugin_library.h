// A plugin's file, opened and judged: its table is complete and of a version that fits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/backend_plugin.h"
#include "tessera/base/result.h"

namespace tessera {

class PluginLibrary {
 public:
  /// Errors: io or format (no shared library), mismatch (version, name), format (a table that cannot be true).
  static Result<std::shared_ptr<PluginLibrary>> open(const std::string& path);
  PluginLibrary(const PluginLibrary&) = delete;
  PluginLibrary& operator=(const PluginLibrary&) = delete;
  ~PluginLibrary();

  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }
  const std::string& variant() const { return variant_; }
  const std::string& version() const { return version_; }
  int32_t score() const { return score_; }
  const tessera_plugin& table() const { return table_; }

  /// From now on it stays loaded until the process ends: it may have started threads, or be in the middle of a driver.
  void keep() { handle_ = nullptr; }

 private:
  explicit PluginLibrary(std::string path) : path_(std::move(path)) {}
  Result<> load();
  Result<> read_table(const tessera_plugin* raw);
  Result<> read_identity();

  std::string path_;
  void* handle_ = nullptr;
  tessera_plugin table_{};
  std::string name_, variant_, version_;
  int32_t score_ = 0;
};

/// Text of a plugin, as far as it can be printed: at most so many bytes, '?' for control characters. null: "".
std::string printable_text(const char* text, size_t max_bytes = 400);

/// What a function of a plugin returns, or `otherwise` where it throws, against the contract.
template <class T, class Call>
T guarded(T otherwise, Call call) {
  try {
    return call();
  } catch (...) {
    return otherwise;
  }
}

inline constexpr int32_t kPluginThrew = -1;  // no code of the interface
/// The error that a code and a text of a plugin mean.
Result<> plugin_error(int32_t code, std::string_view who, const char* text);

/// The result of a function that returns a code and writes a text; `call` is given room for it.
template <class Call>
Result<> checked_call(std::string_view who, Call call) {
  char text[512] = {};
  const int32_t code = guarded(kPluginThrew, [&] { return call(text, sizeof text - 1); });
  if (code == TESSERA_PLUGIN_OK) return {};
  return plugin_error(code, who, text);
}

}  // namespace tessera
