// The access log: a line of JSON for each request, written by a thread of its own. Requests never wait for the file:
// lines beyond the buffer are dropped and counted. Texts and keys are in no line.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tessera/base/result.h"
#include "tessera/server/http/message.h"

namespace tessera::server {

class AccessLog {
 public:
  /// Appends to a file, which is created for its owner only; "-" is standard output. Errors: io; out_of_memory (the
  /// system refuses a thread).
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path);
  /// Writes the lines that wait.
  ~AccessLog();

  /// Adds a line. From any thread; does not wait.
  void add(const HttpRequest& request, int status);
  /// Opens the file again, under its name. Errors: io; then the old one stays in use.
  Result<> reopen();

  static constexpr size_t kBufferBytes = size_t{1} << 20;

 private:
  explicit AccessLog(std::string path) : path_(std::move(path)) {}
  Result<int> open_file() const;
  void write_lines();

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string lines_;       // that wait
  uint64_t n_dropped_ = 0;  // since the last line
  int descriptor_ = -1;
  bool is_closing_ = false;
  std::thread thread_;
};

/// A line of the log, with a line feed.
std::string access_log_line(const HttpRequest& request, int status, std::chrono::system_clock::time_point now);

}  // namespace tessera::server
