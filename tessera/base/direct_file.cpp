#include "tessera/base/direct_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"

namespace tessera {

// Some file systems refuse direct reads only when they are tried, others ask for another alignment.
bool DirectFile::can_read(int fd) {
  alignas(kAlignment) std::byte bytes[kAlignment];
  return ::pread(fd, bytes, kAlignment, 0) >= 0;
}

// The descriptor's path in /proc names the same file, even if another one has taken its name.
Result<DirectFile> DirectFile::open(const File& file) {
  const std::string path = fmt::format("/proc/self/fd/{}", file.descriptor());
  const int direct = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (direct >= 0 && can_read(direct)) return DirectFile(direct, true, file.path());
  if (direct >= 0) ::close(direct);
  const int plain = ::fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (plain >= 0) return DirectFile(plain, false, file.path());
  return fail(ErrorCode::io, "{}: cannot open: {}", file.path(), std::generic_category().message(errno));
}

DirectFile::DirectFile(DirectFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), is_direct_(other.is_direct_), path_(std::move(other.path_)) {}

DirectFile::~DirectFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::span<const std::byte>> DirectFile::read(uint64_t offset, size_t n, std::span<std::byte> staging) const {
  const uint64_t begin = offset / kAlignment * kAlignment;
  const size_t skipped = offset - begin, needed = skipped + n, wanted = round_up(needed, kAlignment);
  if (reinterpret_cast<uintptr_t>(staging.data()) % kAlignment != 0 || staging.size() < wanted)
    return fail(ErrorCode::invalid_argument, "{}: {} bytes of staging memory for a read of {}", path_, staging.size(),
                n);
  // Only the end of the file can cut a direct read off between two multiples of the alignment.
  for (size_t done = 0; done < needed;) {
    const bool is_at_end = done % kAlignment != 0;
    const ssize_t got = is_at_end && is_direct_
                            ? 0
                            : ::pread(fd_, staging.data() + done, wanted - done, static_cast<off_t>(begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(ErrorCode::io, "{}: cannot read: {}", path_, std::generic_category().message(errno));
    if (got == 0)
      return fail(ErrorCode::io, "{}: ends at byte {}: the file changed while it was read", path_, begin + done);
    done += to_size(got);
  }
  return std::span<const std::byte>(staging.subspan(skipped, n));
}

}  // namespace tessera
