// The format is that of PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.4.
#include "tessera/convert/source/zip_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr uint32_t kEndMagic = 0x06054b50, kEnd64Magic = 0x06064b50, kLocator64Magic = 0x07064b50;
constexpr uint32_t kCentralMagic = 0x02014b50, kLocalMagic = 0x04034b50;
constexpr uint64_t kEndBytes = 22, kLocator64Bytes = 20, kEnd64Bytes = 56, kCentralBytes = 46, kLocalBytes = 30;
constexpr uint64_t kMaxComment = 65'535;
constexpr uint16_t kEncrypted = 1, kHasDescriptor = 8;            // flags of an entry
constexpr uint16_t kExtra64 = 1;                                  // the extra field with sizes and offsets of 64 bits
constexpr uint32_t kIn64 = std::numeric_limits<uint32_t>::max();  // the number is in that field

// Fields of a record at fixed places. The caller has checked that the record is there.
class Record {
 public:
  explicit Record(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T at(size_t offset) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  std::string_view text(size_t offset, size_t n) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + offset, n};
  }

 private:
  std::span<const std::byte> bytes_;
};

struct End {
  uint64_t n_entries = 0, directory_bytes = 0, directory_offset = 0;
};

// An entry of the directory, before its head was read.
struct Central {
  ZipEntry entry{};
  uint64_t head = 0;  // offset of its head
  uint16_t flags = 0;
};

Result<std::vector<std::byte>> read_range(const File& file, uint64_t offset, uint64_t n) {
  if (n > file.size() || offset > file.size() - n)
    return fail(ErrorCode::format, "{} bytes at {} in a file of {}", n, offset, file.size());
  std::vector<std::byte> bytes(to_size(n));
  TESSERA_TRY(file.read_at(offset, bytes));
  return bytes;
}

Result<End> read_end64(const File& file, uint64_t locator) {
  TESSERA_ASSIGN(const auto locator_bytes, read_range(file, locator, kLocator64Bytes));
  const Record place(locator_bytes);
  if (place.at<uint32_t>(0) != kLocator64Magic) return fail(ErrorCode::format, "the zip64 end is missing");
  if (place.at<uint32_t>(4) != 0 || place.at<uint32_t>(16) > 1)
    return fail(ErrorCode::unsupported, "an archive of several volumes");
  TESSERA_ASSIGN(const auto end_bytes, read_range(file, place.at<uint64_t>(8), kEnd64Bytes));
  const Record end(end_bytes);
  if (end.at<uint32_t>(0) != kEnd64Magic)
    return fail(ErrorCode::format, "no zip64 end at byte {}", place.at<uint64_t>(8));
  return End{.n_entries = end.at<uint64_t>(32),
             .directory_bytes = end.at<uint64_t>(40),
             .directory_offset = end.at<uint64_t>(48)};
}

// The record at the end is followed by a comment, so it is searched from behind.
Result<End> read_end(const File& file) {
  const uint64_t n_tail = std::min(file.size(), kEndBytes + kMaxComment);
  if (n_tail < kEndBytes) return fail(ErrorCode::format, "no zip archive");
  const uint64_t tail_offset = file.size() - n_tail;
  TESSERA_ASSIGN(const auto tail, read_range(file, tail_offset, n_tail));
  for (size_t at = to_size(n_tail - kEndBytes) + 1; at-- > 0;) {
    const Record end(std::span<const std::byte>(tail).subspan(at));
    if (end.at<uint32_t>(0) != kEndMagic || end.at<uint16_t>(20) != n_tail - kEndBytes - at) continue;
    if (end.at<uint16_t>(4) != 0 || end.at<uint16_t>(6) != 0)
      return fail(ErrorCode::unsupported, "an archive of several volumes");
    const bool is_large = end.at<uint16_t>(10) == std::numeric_limits<uint16_t>::max() ||
                          end.at<uint32_t>(12) == kIn64 || end.at<uint32_t>(16) == kIn64;
    if (is_large && tail_offset + at < kLocator64Bytes) return fail(ErrorCode::format, "the zip64 end is missing");
    if (is_large) return read_end64(file, tail_offset + at - kLocator64Bytes);
    return End{.n_entries = end.at<uint16_t>(10),
               .directory_bytes = end.at<uint32_t>(12),
               .directory_offset = end.at<uint32_t>(16)};
  }
  return fail(ErrorCode::format, "no zip archive, or a cut one: the end of its directory is missing");
}

// The numbers of 64 bits in the extra fields of an entry: those of the directory that were too large, in this order.
Result<> read_extra64(std::string_view extra, std::span<uint64_t* const> wanted) {
  while (extra.size() >= 4) {
    uint16_t id = 0, n = 0;
    std::memcpy(&id, extra.data(), sizeof id);
    std::memcpy(&n, extra.data() + 2, sizeof n);
    if (n > extra.size() - 4) break;
    if (id == kExtra64) {
      if (n / sizeof(uint64_t) < wanted.size()) break;
      for (size_t i = 0; i < wanted.size(); ++i) std::memcpy(wanted[i], extra.data() + 4 + 8 * i, sizeof(uint64_t));
      return {};
    }
    extra.remove_prefix(size_t{4} + n);
  }
  return fail(ErrorCode::format, "the sizes of 64 bits are missing");
}

Result<Central> read_central(std::span<const std::byte> directory, size_t& at) {
  if (directory.size() - at < kCentralBytes) return fail(ErrorCode::format, "the directory is cut at byte {}", at);
  const Record record(directory.subspan(at));
  if (record.at<uint32_t>(0) != kCentralMagic)
    return fail(ErrorCode::format, "no entry at byte {} of the directory", at);
  const size_t n_name = record.at<uint16_t>(28), n_extra = record.at<uint16_t>(30), n_comment = record.at<uint16_t>(32);
  const size_t n_record = kCentralBytes + n_name + n_extra + n_comment;
  if (n_record > directory.size() - at) return fail(ErrorCode::format, "the directory is cut at byte {}", at);
  at += n_record;
  Central central{.entry = {.name = std::string(record.text(kCentralBytes, n_name))},
                  .head = record.at<uint32_t>(42),
                  .flags = record.at<uint16_t>(8)};
  const std::string shown = text::quote_text(central.entry.name);
  if ((central.flags & kEncrypted) != 0) return fail(ErrorCode::unsupported, "{}: encrypted", shown);
  if (record.at<uint16_t>(10) != 0)
    return fail(ErrorCode::unsupported, "{}: compressed; save the checkpoint again without compression", shown);
  uint64_t n_packed = record.at<uint32_t>(20);
  central.entry.n_bytes = record.at<uint32_t>(24);
  std::vector<uint64_t*> in_extra;
  for (uint64_t* number : {&central.entry.n_bytes, &n_packed, &central.head})
    if (*number == kIn64) in_extra.push_back(number);
  if (!in_extra.empty())
    if (auto read = read_extra64(record.text(kCentralBytes + n_name, n_extra), in_extra); !read)
      return forward_error(read, shown);
  if (n_packed != central.entry.n_bytes)
    return fail(ErrorCode::format, "{}: {} stored bytes of {}", shown, n_packed, central.entry.n_bytes);
  return central;
}

// Finds the bytes of an entry behind its head, which must agree with the directory.
Result<> place_entry(const File& file, Central& central) {
  TESSERA_ASSIGN(const auto bytes, read_range(file, central.head, kLocalBytes));
  const Record head(bytes);
  if (head.at<uint32_t>(0) != kLocalMagic) return fail(ErrorCode::format, "no entry at byte {}", central.head);
  const uint64_t n_name = head.at<uint16_t>(26), n_extra = head.at<uint16_t>(28);
  TESSERA_ASSIGN(const auto name, read_range(file, central.head + kLocalBytes, n_name));
  const uint32_t n_bytes = head.at<uint32_t>(22);
  const bool agrees = Record(name).text(0, name.size()) == central.entry.name && head.at<uint16_t>(8) == 0 &&
                      (head.at<uint16_t>(6) & kEncrypted) == 0 &&
                      (n_bytes == central.entry.n_bytes || n_bytes == kIn64 || (central.flags & kHasDescriptor) != 0);
  if (!agrees) return fail(ErrorCode::format, "its head contradicts the directory");
  central.entry.offset = central.head + kLocalBytes + n_name + n_extra;
  if (central.entry.offset > file.size() || central.entry.n_bytes > file.size() - central.entry.offset)
    return fail(ErrorCode::format, "{} bytes at {} in a file of {}", central.entry.n_bytes, central.entry.offset,
                file.size());
  return {};
}

Result<> require_disjoint(std::vector<Central>& all) {
  std::ranges::sort(all, {}, &Central::head);
  for (size_t i = 0; i + 1 < all.size(); ++i)
    if (all[i].entry.offset + all[i].entry.n_bytes > all[i + 1].head)
      return fail(ErrorCode::format, "{} and {} overlap", text::quote_text(all[i].entry.name),
                  text::quote_text(all[i + 1].entry.name));
  return {};
}

}  // namespace

Result<ZipDirectory> ZipDirectory::read(const File& file) {
  TESSERA_ASSIGN(const End end, read_end(file));
  if (end.n_entries > kMaxZipEntries)
    return fail(ErrorCode::limit, "{} entries, limit {}", end.n_entries, kMaxZipEntries);
  if (end.directory_bytes > kMaxZipDirectory)
    return fail(ErrorCode::limit, "a directory of {} bytes, limit {}", end.directory_bytes, kMaxZipDirectory);
  TESSERA_ASSIGN(const auto directory, read_range(file, end.directory_offset, end.directory_bytes));
  std::vector<Central> all;
  for (size_t at = 0; all.size() < end.n_entries;) {
    TESSERA_ASSIGN(Central central, read_central(directory, at));
    if (auto placed = place_entry(file, central); !placed)
      return forward_error(placed, text::quote_text(central.entry.name));
    all.push_back(std::move(central));
  }
  TESSERA_TRY(require_disjoint(all));
  ZipDirectory result;
  result.entries_.reserve(all.size());
  for (Central& central : all) result.entries_.push_back(std::move(central.entry));
  std::ranges::sort(result.entries_, {}, &ZipEntry::name);
  const auto twice = std::ranges::adjacent_find(result.entries_, {}, &ZipEntry::name);
  if (twice != result.entries_.end()) return fail(ErrorCode::format, "two entries {}", text::quote_text(twice->name));
  return result;
}

const ZipEntry* ZipDirectory::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(entries_, name, {}, &ZipEntry::name);
  return at != entries_.end() && at->name == name ? &*at : nullptr;
}

}  // namespace tessera::convert
