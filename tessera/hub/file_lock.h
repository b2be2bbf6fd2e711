// Locks between processes, as the hub's own tools hold them: flock of a file that stays.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tessera/base/cancel.h"
#include "tessera/base/result.h"
#include "tessera/hub/clock.h"

namespace tessera::hub {

class FileLock {
 public:
  /// Waits for the lock. The folder of the path is created. on_wait is called once if another holder has it.
  /// Errors: io; cancelled.
  static Result<FileLock> acquire(const std::string& path, Clock& clock, const CancelToken& cancel,
                                  const std::function<void()>& on_wait);
  /// Takes the lock if nobody holds it. Returns nothing otherwise. Errors: io.
  static Result<std::optional<FileLock>> try_acquire(const std::string& path);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace tessera::hub
