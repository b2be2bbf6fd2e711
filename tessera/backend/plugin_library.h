// Opens a plugin's file and validates it: its table is complete and its version compatible.
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
  /// Errors: io or format (not a shared library), mismatch (version, name), format (an invalid table).
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

  /// Keeps the library loaded until the process ends: it may have started threads or be inside a driver.
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

/// Returns at most max_bytes of a plugin's text, with '?' for control characters. null: "".
std::string printable_text(const char* text, size_t max_bytes = 400);

/// Calls a function of a plugin. Returns `otherwise` if it throws, which violates the interface.
template <class T, class Call>
T guarded(T otherwise, Call call) {
  try {
    return call();
  } catch (...) {
    return otherwise;
  }
}

inline constexpr int32_t kPluginThrew = -1;  // not a code of the interface
/// Converts a plugin's code and text to an error.
Result<> plugin_error(int32_t code, std::string_view who, const char* text);

/// Calls a function that returns a code and writes a text. `call` receives the buffer for the text and its size.
template <class Call>
Result<> checked_call(std::string_view who, Call call) {
  char text[512] = {};
  const int32_t code = guarded(kPluginThrew, [&] { return call(text, sizeof text - 1); });
  if (code == TESSERA_PLUGIN_OK) return {};
  return plugin_error(code, who, text);
}

}  // namespace tessera
