#include "tessera/server/storage/slot_file.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/hash.h"
#include "tessera/base/index.h"

namespace tessera::server {

namespace {

constexpr uint64_t kSlotMagic = 0x31544C5341525354;  // "TSRASLT1"
constexpr uint32_t kSlotVersion = 1;

struct SlotHeader {
  uint64_t magic = kSlotMagic;
  uint32_t version = kSlotVersion;
  uint32_t n_tokens = 0;
  Digest session{};
  uint32_t n_salt_bytes = 0;
  uint32_t n_adapters = 0;
  uint64_t n_state_bytes = 0;
};
static_assert(sizeof(SlotHeader) == 64, "no padding: it is written as it is");

struct StoredAdapter {
  uint64_t fingerprint = 0;
  float scale = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(StoredAdapter) == 16, "no padding: it is written as it is");

constexpr uint64_t kLeastSlotBytes = sizeof(SlotHeader) + sizeof(uint64_t);

// The bytes before the state.
uint64_t front_bytes(const SlotHeader& header) {
  return sizeof header + header.n_salt_bytes + header.n_adapters * sizeof(StoredAdapter) +
         uint64_t{header.n_tokens} * sizeof(int32_t);
}

Result<SlotHeader> checked_header(std::span<const std::byte> front, uint64_t n_file_bytes,
                                  const SlotFileLimits& limits) {
  SlotHeader header;
  if (n_file_bytes < kLeastSlotBytes || front.size() < sizeof header)
    return fail(ErrorCode::format, "slot file: {} bytes, want at least {}", n_file_bytes, kLeastSlotBytes);
  std::memcpy(&header, front.data(), sizeof header);
  if (header.magic != kSlotMagic) return fail(ErrorCode::format, "slot file: not a saved slot of tessera");
  if (header.version != kSlotVersion)
    return fail(ErrorCode::unsupported, "slot file: version {}, want {}", header.version, kSlotVersion);
  if (header.session != limits.session)
    return fail(ErrorCode::mismatch, "slot file: saved by another model, or with other settings of the cache");
  if (header.n_tokens > limits.n_tokens)
    return fail(ErrorCode::limit, "slot file: {} tokens, the context of a slot is {}", header.n_tokens,
                limits.n_tokens);
  if (header.n_salt_bytes > kMostSaltBytes || header.n_adapters > kMostSlotAdapters ||
      header.n_state_bytes > limits.n_state_bytes)
    return fail(ErrorCode::format, "slot file: damaged (its header)");
  const uint64_t n_bytes = front_bytes(header) + sizeof(uint64_t) + header.n_state_bytes;
  if (n_file_bytes != n_bytes) return fail(ErrorCode::format, "slot file: {} bytes, want {}", n_file_bytes, n_bytes);
  return header;
}

}  // namespace

std::vector<std::byte> slot_file_front(const SavedSlot& slot) {
  const SlotHeader header{.n_tokens = static_cast<uint32_t>(slot.tokens.size()),
                          .session = slot.session,
                          .n_salt_bytes = static_cast<uint32_t>(slot.salt.size()),
                          .n_adapters = static_cast<uint32_t>(slot.adapters.size()),
                          .n_state_bytes = slot.state.size()};
  std::vector<std::byte> front;
  const auto append = [&](std::span<const std::byte> bytes) { front.insert(front.end(), bytes.begin(), bytes.end()); };
  append(std::as_bytes(std::span(&header, 1)));
  append(std::as_bytes(std::span(slot.salt)));
  for (const auto& [fingerprint, scale] : slot.adapters) {
    const StoredAdapter stored{.fingerprint = fingerprint, .scale = scale};
    append(std::as_bytes(std::span(&stored, 1)));
  }
  append(std::as_bytes(std::span(slot.tokens)));
  return front;
}

uint64_t slot_file_checksum(std::span<const std::byte> front, std::span<const std::byte> state) {
  return Hash64().add(front).add(state).value();
}

Result<SavedSlot> parse_slot_file(std::vector<std::byte> bytes, const SlotFileLimits& limits) {
  TESSERA_ASSIGN(const SlotHeader header, checked_header(bytes, bytes.size(), limits));
  const size_t n_front = to_size(front_bytes(header));
  const auto front = std::span(bytes).first(n_front);
  const auto state = std::span(bytes).subspan(n_front, to_size(header.n_state_bytes));
  uint64_t checksum;
  std::memcpy(&checksum, bytes.data() + n_front + state.size(), sizeof checksum);
  if (checksum != slot_file_checksum(front, state))
    return fail(ErrorCode::format, "slot file: damaged (the checksum differs)");
  SavedSlot slot{.session = header.session};
  std::vector<StoredAdapter> adapters(header.n_adapters);
  slot.salt.resize(header.n_salt_bytes);
  slot.tokens.resize(header.n_tokens);
  std::span<const std::byte> rest = front.subspan(sizeof header);
  const auto copy_to = [&rest](std::span<std::byte> target) {
    std::ranges::copy(rest.first(target.size()), target.begin());
    rest = rest.subspan(target.size());
  };
  copy_to(std::as_writable_bytes(std::span(slot.salt)));
  copy_to(std::as_writable_bytes(std::span(adapters)));
  copy_to(std::as_writable_bytes(std::span(slot.tokens)));
  for (const StoredAdapter& one : adapters) slot.adapters.push_back({one.fingerprint, one.scale});
  for (const int32_t token : slot.tokens)
    if (token < 0 || token >= limits.n_vocab)
      return fail(ErrorCode::format, "slot file: token {}, want 0 to {}", token, limits.n_vocab - 1);
  bytes.resize(bytes.size() - sizeof checksum);
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n_front));
  slot.state = std::move(bytes);
  return slot;
}

Result<SavedSlot> read_slot_file(const File& file, const SlotFileLimits& limits) {
  std::vector<std::byte> bytes(std::min<uint64_t>(file.size(), sizeof(SlotHeader)));
  TESSERA_TRY(file.read_at(0, bytes));
  TESSERA_TRY(checked_header(bytes, file.size(), limits));
  bytes.resize(to_size(file.size()));
  TESSERA_TRY(file.read_at(0, bytes));
  return parse_slot_file(std::move(bytes), limits);
}

}  // namespace tessera::server
