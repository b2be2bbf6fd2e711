// The file in which tunings are kept, as JSON: one for each model and machine.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/cli/tuning.h"
#include "tessera/hub/file_lock.h"

namespace tessera::cli {

class TuningFile {
 public:
  /// state_file_path("tuning.json").
  static std::string default_path();

  /// Reads a file, which need not exist. Errors: io; format, limit (the contents).
  static Result<TuningFile> read(const std::string& path);

  /// Checks that keep() can read and write the file. Errors: those of keep().
  static Result<> require_usable(const std::string& path, const CancelToken& cancel);

  bool is_empty() const { return tunings_.empty(); }
  /// Returns the tuning of a model on a machine; null: none.
  const Tuning* find(std::string_view machine, std::string_view model) const;

  /// Reads the file again, sets or removes one tuning, and writes it. Other processes wait meanwhile. Errors: those of
  /// read(); cancelled.
  static Result<> keep(const std::string& path, std::string_view machine, std::string_view model, const Tuning& tuning,
                       const CancelToken& cancel);
  /// Returns whether there was one.
  static Result<bool> remove(const std::string& path, std::string_view machine, std::string_view model,
                             const CancelToken& cancel);

 private:
  using Key = std::pair<std::string, std::string>;  // machine, model

  static Result<hub::FileLock> lock(const std::string& path, const CancelToken& cancel);

  Result<> write(const std::string& path) const;

  std::map<Key, Tuning, std::less<>> tunings_;
};

}  // namespace tessera::cli
