#include "tessera/server/access_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "tessera/server/api/time_text.h"
#include "tessera/server/json/writer.h"

namespace tessera::server {

namespace {

// To thousandths, as more says nothing.
void write_ms(JsonWriter& writer, std::string_view name, double ms) {
  writer.key(name);
  ms < 0 ? writer.value(nullptr) : writer.value(std::round(ms * 1e3) / 1e3);
}

// Writes all bytes, as far as the file takes them.
void write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

std::string access_log_line(const HttpRequest& request, int status, std::chrono::system_clock::time_point now) {
  const GenerationNote& note = request.note;
  const double total_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - request.received).count();
  std::string line;
  JsonWriter writer(line);
  writer.begin_object().member("t", rfc3339(now)).member("id", request.id).member("client", request.client.name);
  writer.member("route", request.route).member("status", status);
  if (!note.reason.empty()) {
    writer.member("model", note.model).member("prompt_n", note.n_prompt).member("cache_n", note.n_cached);
    writer.member("predicted_n", note.n_generated);
    write_ms(writer, "queue_ms", note.queue_ms);
    write_ms(writer, "ttft_ms", note.first_token_ms);
    write_ms(writer, "itl_p99_ms", note.gap_p99_ms);
    writer.member("reason", note.reason);
  }
  write_ms(writer, "total_ms", total_ms);
  writer.end_object();
  return line += '\n';
}

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& path) {
  std::unique_ptr<AccessLog> log(new AccessLog(path));
  TESSERA_ASSIGN(log->descriptor_, log->open_file());
  try {
    log->thread_ = std::thread([self = log.get()] { self->write_lines(); });
  } catch (const std::system_error& e) {
    return fail(ErrorCode::out_of_memory, "cannot start the thread of the access log: {}", e.what());
  }
  return log;
}

AccessLog::~AccessLog() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<int> AccessLog::open_file() const {
  constexpr mode_t kOwnerOnly = 0600;
  const int descriptor = path_ == "-" ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                                      : ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kOwnerOnly);
  if (descriptor < 0) return fail(ErrorCode::io, "{}: cannot open for appending: {}", path_, std::strerror(errno));
  return descriptor;
}

Result<> AccessLog::reopen() {
  TESSERA_ASSIGN(const int fresh, open_file());
  int old = fresh;
  {
    const std::lock_guard lock(mutex_);
    std::swap(descriptor_, old);
  }
  ::close(old);
  return {};
}

void AccessLog::add(const HttpRequest& request, int status) {
  std::string line = access_log_line(request, status, std::chrono::system_clock::now());
  const std::lock_guard lock(mutex_);
  if (lines_.size() + line.size() > kBufferBytes) {
    ++n_dropped_;
    return;
  }
  if (const uint64_t n = std::exchange(n_dropped_, 0); n > 0) lines_ += fmt::format("{{\"dropped\":{}}}\n", n);
  lines_ += line;
  changed_.notify_one();
}

// The descriptor is duplicated for each write, so that reopen() does not wait for a slow file.
void AccessLog::write_lines() {
  // A pipe without a reader is an error of write(), not a signal.
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_closing_ || !lines_.empty(); });
    if (lines_.empty()) return;
    const std::string lines = std::exchange(lines_, {});
    const int descriptor = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
    lock.unlock();
    if (descriptor >= 0) {
      write_all(descriptor, lines);
      ::close(descriptor);
    }
    lock.lock();
  }
}

}  // namespace tessera::server
