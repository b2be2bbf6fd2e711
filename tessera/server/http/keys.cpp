#include "tessera/server/http/keys.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

#include "tessera/server/http/head.h"

namespace tessera::server {
namespace {

constexpr int kMostUrgent = -10, kLeastUrgent = 10;
constexpr size_t kMaxOwnerBytes = 64;
constexpr size_t kIdBytes = 16;

Digest digest_of(std::string_view key) { return Sha256().add(std::as_bytes(std::span(key))).finish(); }

bool is_key_char(char c) { return c > ' ' && c < 0x7f; }

bool is_owner_name(std::string_view name) {
  const auto is_name_char = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kMaxOwnerBytes && std::ranges::all_of(name, is_name_char);
}

std::string_view take_word(std::string_view& line) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = std::min(line.find_first_not_of(kBlanks), line.size());
  line.remove_prefix(begin);
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  if (word.starts_with('#')) line = {};
  return word.starts_with('#') ? std::string_view() : word;
}

Result<> parse_owner_option(std::string_view option, KeyOwner& owner) {
  if (option.starts_with("name=")) {
    owner.name = std::string(option.substr(5));
    if (is_owner_name(owner.name)) return {};
    return fail(ErrorCode::invalid_argument, "name=: want 1 to {} of A-Z a-z 0-9 . _ -", kMaxOwnerBytes);
  }
  if (!option.starts_with("best=")) return fail(ErrorCode::invalid_argument, "after the key: want name= or best=");
  const std::string_view digits = option.substr(5);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), owner.best_priority);
  if (error != std::errc() || end != digits.data() + digits.size() || owner.best_priority < kMostUrgent ||
      owner.best_priority > kLeastUrgent)
    return fail(ErrorCode::invalid_argument, "best=: want {} to {}", kMostUrgent, kLeastUrgent);
  return {};
}

Result<> add_key_line(KeyRing& ring, std::string_view line, KeyOwner owner) {
  const std::string_view key = take_word(line);
  if (key.empty()) return {};
  for (std::string_view option = take_word(line); !option.empty(); option = take_word(line))
    TESSERA_TRY(parse_owner_option(option, owner));
  return ring.add(key, std::move(owner));
}

// Closes a descriptor at the end of a block.
struct DescriptorGuard {
  int fd;
  ~DescriptorGuard() {
    if (fd >= 0) ::close(fd);
  }
};

// The text of a file that only its owner and group may read.
Result<std::string> read_private_file(const std::string& path) {
  // O_NONBLOCK: a pipe in place of the file must not stop the server.
  const DescriptorGuard file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.fd < 0) return fail(ErrorCode::io, "{}: {}", path, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) return fail(ErrorCode::io, "{}: {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::invalid_argument, "{}: want a regular file", path);
  if ((status.st_mode & S_IRWXO) != 0)
    return fail(ErrorCode::invalid_argument, "{}: mode {:04o}, but other users may not access it (chmod o= {})", path,
                status.st_mode & 07777, path);
  std::string text(kMaxKeyFileBytes + 1, '\0');
  size_t n = 0;
  while (n < text.size()) {
    const ssize_t got = ::read(file.fd, text.data() + n, text.size() - n);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(ErrorCode::io, "{}: {}", path, std::strerror(errno));
    if (got == 0) break;
    n += static_cast<size_t>(got);
  }
  if (n > kMaxKeyFileBytes) return fail(ErrorCode::invalid_argument, "{}: over {} bytes", path, kMaxKeyFileBytes);
  text.resize(n);
  return text;
}

}  // namespace

Result<> KeyRing::add(std::string_view key, KeyOwner owner) {
  if (key.empty() || key.size() > kMaxKeyBytes)
    return fail(ErrorCode::invalid_argument, "key: {} bytes, want 1 to {}", key.size(), kMaxKeyBytes);
  if (!std::ranges::all_of(key, is_key_char))
    return fail(ErrorCode::invalid_argument, "key: want visible ASCII characters");
  if (find(key) != nullptr) return fail(ErrorCode::invalid_argument, "key: was given before");
  if (owner.name.empty()) owner.name = fmt::format("key-{}", entries_.size() + 1);
  const Digest digest = digest_of(key);
  owner.id = hex_text(std::span(digest).first(kIdBytes));
  entries_.push_back({digest, std::move(owner)});
  return {};
}

Result<> KeyRing::add_lines(std::string_view text) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    auto added = add_key_line(*this, text.substr(0, end), {});
    if (!added) return forward_error(added, fmt::format("line {}", number));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

const KeyOwner* KeyRing::find(std::string_view key) const {
  const Digest digest = digest_of(key);
  const KeyOwner* found = nullptr;
  for (const Entry& entry : entries_)
    if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) found = &entry.owner;
  return found;
}

Result<> add_key_file(KeyRing& ring, const std::string& path) {
  TESSERA_ASSIGN(std::string text, read_private_file(path));
  KeyRing extended = ring;
  auto added = extended.add_lines(text);
  OPENSSL_cleanse(text.data(), text.size());
  if (!added) return forward_error(added, path);
  if (extended.empty()) return fail(ErrorCode::invalid_argument, "{}: no key", path);
  ring = std::move(extended);
  return {};
}

const KeyOwner* find_sent_key(const KeyRing& ring, const HttpRequest& request) {
  constexpr std::string_view kScheme = "Bearer ";
  if (const auto value = request.field("authorization");
      value && equal_ignoring_case(value->substr(0, kScheme.size()), kScheme)) {
    if (const KeyOwner* owner = ring.find(trim_blanks(value->substr(kScheme.size())))) return owner;
  }
  const auto key = request.field("x-api-key");
  return key ? ring.find(*key) : nullptr;
}

}  // namespace tessera::server
