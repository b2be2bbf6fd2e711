#include "tessera/cli/line_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tessera/base/index.h"

namespace tessera::cli {

Result<LineInput> LineInput::open(const std::string& path, size_t max_line_bytes, const CancelToken& cancel) {
  LineInput input(max_line_bytes);
  if (path.empty()) return input;
  input.name_ = path;
  do {
    input.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  } while (input.fd_ < 0 && errno == EINTR && !cancel.cancelled());
  if (input.fd_ >= 0) return input;
  if (cancel.cancelled()) return fail(ErrorCode::cancelled, "stopped");
  return fail(ErrorCode::io, "{}: {}", path, std::strerror(errno));
}

LineInput::LineInput(LineInput&& other) noexcept
    : max_line_bytes_(other.max_line_bytes_),
      fd_(std::exchange(other.fd_, STDIN_FILENO)),
      name_(std::move(other.name_)),
      pending_(std::move(other.pending_)),
      begin_(other.begin_),
      n_searched_(other.n_searched_) {}

LineInput::~LineInput() {
  if (fd_ > STDIN_FILENO) ::close(fd_);
}

Result<bool> LineInput::fill(const CancelToken& cancel) {
  std::array<char, size_t{1} << 16> buffer;
  while (true) {
    if (cancel.cancelled()) return fail(ErrorCode::cancelled, "stopped");
    const ssize_t n = ::read(fd_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(ErrorCode::io, "{}: {}", name_, std::strerror(errno));
    pending_.erase(0, begin_);
    begin_ = 0;
    pending_.append(buffer.data(), to_size(n));
    return n > 0;
  }
}

Result<std::optional<std::string>> LineInput::next(const CancelToken& cancel) {
  while (true) {
    const size_t end = pending_.find('\n', begin_ + n_searched_);
    if (end != std::string::npos) {
      std::string line = pending_.substr(begin_, end - begin_);
      if (line.ends_with('\r')) line.pop_back();
      begin_ = end + 1;
      n_searched_ = 0;
      return line;
    }
    n_searched_ = pending_.size() - begin_;
    if (n_searched_ > max_line_bytes_) return fail(ErrorCode::limit, "{}: line above {} bytes", name_, max_line_bytes_);
    TESSERA_ASSIGN(const bool has_more, fill(cancel));
    if (has_more) continue;
    if (n_searched_ == 0) return std::nullopt;
    std::string line = pending_.substr(begin_);
    pending_.clear();
    begin_ = n_searched_ = 0;
    return line;
  }
}

}  // namespace tessera::cli
