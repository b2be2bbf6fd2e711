// Shared by the tests of calls that write files: options, progress, and what is left in a folder.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/capi/capi_support.h"

namespace tessera::testing {

/// Options with their defaults.
template <class Options>
Options made(void (*init)(Options*, size_t)) {
  Options options;
  init(&options, sizeof options);
  return options;
}

/// A result struct with its size.
template <class Info>
Info sized() {
  Info info{};
  info.size = sizeof info;
  return info;
}

/// A progress function that keeps all shares, and stops at call number `stop_at`.
struct Shares {
  std::vector<float> values;
  size_t stop_at = 0;  // 0: never

  static int32_t note(void* user, float share) {
    auto& of = *static_cast<Shares*>(user);
    of.values.push_back(share);
    return of.values.size() == of.stop_at ? 1 : 0;
  }
  bool is_complete() const {
    return !values.empty() && std::ranges::is_sorted(values) && values.front() >= 0 && values.back() == 1.0f;
  }
};

/// A new folder for the outputs of a test.
inline std::string fresh_folder(const std::string& name) {
  const std::filesystem::path folder = temporary_path(name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder.string();
}

inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

inline CancelHandle create_cancel_handle(bool is_set = false) {
  tessera_cancel* cancel = nullptr;
  EXPECT_SUCCESS(tessera_cancel_create(&cancel, error));
  if (is_set) tessera_cancel_set(cancel);
  return {cancel, tessera_cancel_release};
}

/// A handle of another kind than the wanted one.
template <class T>
T* as_other(tessera_cancel* cancel) {
  return reinterpret_cast<T*>(cancel);
}

}  // namespace tessera::testing
