#include "tessera/convert/partial_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "tessera/base/folder.h"

namespace tessera::convert {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnd = ".part";
constexpr size_t kHexDigits = 16;

std::string hex_of(uint64_t fingerprint) { return fmt::format("{:016x}", fingerprint); }

// The fingerprint in the name of a partial file of an output; nothing if it is none.
std::optional<std::string_view> fingerprint_in(std::string_view name, std::string_view output) {
  if (!name.starts_with(output) || !name.ends_with(kEnd)) return std::nullopt;
  name.remove_prefix(output.size());
  if (name.size() < 1 + kHexDigits + kEnd.size() || name[0] != '.') return std::nullopt;
  const std::string_view hex = name.substr(1, kHexDigits);
  std::string_view part = name.substr(1 + kHexDigits, name.size() - 1 - kHexDigits - kEnd.size());
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_hex = [&](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); };
  if (!std::ranges::all_of(hex, is_hex)) return std::nullopt;
  if (part.empty()) return hex;
  if (part.size() < 2 || part[0] != '-' || !std::ranges::all_of(part.substr(1), is_digit)) return std::nullopt;
  return hex;
}

// Returns whether the file is gone.
bool remove_unless_locked(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const bool is_removed = ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::unlink(path.c_str()) == 0;
  ::close(fd);
  return is_removed;
}

}  // namespace

void Fingerprint::mix(std::span<const std::byte> bytes) {
  constexpr uint64_t kPrime = 0x100000001b3;
  for (const std::byte byte : bytes) hash_ = (hash_ ^ static_cast<uint64_t>(byte)) * kPrime;
}

// The length comes first, so that texts are told apart from their parts.
Fingerprint& Fingerprint::add(std::span<const std::byte> bytes) {
  add(uint64_t{bytes.size()});
  mix(bytes);
  return *this;
}

Fingerprint& Fingerprint::add(uint64_t number) {
  mix(std::as_bytes(std::span(&number, 1)));
  return *this;
}

Fingerprint& Fingerprint::add_file(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) return add(UINT64_MAX);
  const auto time = fs::last_write_time(path, error).time_since_epoch().count();
  return add(fs::path(path).filename().string()).add(uint64_t{size}).add(static_cast<uint64_t>(time));
}

Result<PartialOutput> PartialOutput::open(const std::string& path, uint64_t fingerprint, bool resumes) {
  PartialOutput partial(path, fingerprint, resumes);
  const fs::path output(path), folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  const std::string name = output.filename().string(), ours = hex_of(fingerprint);
  const auto entries = names_in_folder(folder.string(), SIZE_MAX);
  if (!entries) return fail(ErrorCode::io, "{}", entries.error().message());
  for (const std::string& entry : *entries) {
    const auto hex = fingerprint_in(entry, name);
    if (!hex) continue;
    const std::string found = (folder / entry).string();
    std::error_code unknown;
    if (resumes && *hex == ours) {
      if (const auto size = fs::file_size(found, unknown); !unknown) partial.n_bytes_found_ += size;
    } else if (remove_unless_locked(found) && *hex != ours) {
      partial.other_ = found;
    }
  }
  return partial;
}

std::string PartialOutput::path_of(uint32_t part, uint32_t n_parts) const {
  const std::string number = n_parts == 1 ? "" : fmt::format("-{:05}", part + 1);
  return fmt::format("{}.{}{}{}", path_, hex_of(fingerprint_), number, kEnd);
}

}  // namespace tessera::convert
