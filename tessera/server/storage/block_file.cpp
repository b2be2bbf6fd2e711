#include "tessera/server/storage/block_file.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/hash.h"

namespace tessera::server {

namespace {

constexpr uint64_t kBlockMagic = 0x3158465041525354;  // "TSRAPFX1"
constexpr uint32_t kBlockVersion = 1;

struct BlockHeader {
  uint64_t magic = kBlockMagic;
  uint32_t version = kBlockVersion;
  uint32_t kind = 0;
  Digest digest{};
  Digest parent{};
  uint32_t n_tokens = 0;
  uint32_t n_groups = 1;
  uint64_t n_payload_bytes = 0;
};
static_assert(sizeof(BlockHeader) == 96, "no padding: it is written as it is");

}  // namespace

std::string BlockKey::path() const {
  return hex_text(std::span(root).first(8)) + "/" + hex_text(std::span(digest).first(1)) + "/" + hex_text(digest);
}

std::vector<std::byte> block_file_front(const BlockKey& key, uint64_t n_payload_bytes) {
  const BlockHeader header{.kind = static_cast<uint32_t>(key.kind),
                           .digest = key.digest,
                           .parent = key.parent,
                           .n_tokens = static_cast<uint32_t>(key.tokens.size()),
                           .n_payload_bytes = n_payload_bytes};
  const auto tokens = std::as_bytes(std::span(key.tokens));
  std::vector<std::byte> front(sizeof header + tokens.size());
  std::memcpy(front.data(), &header, sizeof header);
  std::ranges::copy(tokens, front.begin() + sizeof header);
  return front;
}

uint64_t block_file_checksum(std::span<const std::byte> front, std::span<const std::byte> payload) {
  return Hash64().add(front).add(payload).value();
}

uint64_t block_file_bytes(const BlockKey& key, uint64_t n_payload_bytes) {
  return sizeof(BlockHeader) + key.tokens.size() * sizeof(int32_t) + n_payload_bytes + sizeof(uint64_t);
}

Result<std::span<const std::byte>> block_payload(std::span<const std::byte> file, const BlockKey& key,
                                                 uint64_t n_payload_bytes) {
  if (file.size() != block_file_bytes(key, n_payload_bytes))
    return fail(ErrorCode::format, "cache file: {} bytes, want {}", file.size(),
                block_file_bytes(key, n_payload_bytes));
  const std::vector<std::byte> front = block_file_front(key, n_payload_bytes);
  if (!std::ranges::equal(file.first(front.size()), front))
    return fail(ErrorCode::format, "cache file: its header is that of another block, or damaged");
  const std::span<const std::byte> payload = file.subspan(front.size(), file.size() - front.size() - sizeof(uint64_t));
  uint64_t checksum;
  std::memcpy(&checksum, payload.data() + payload.size(), sizeof checksum);
  if (checksum != block_file_checksum(front, payload))
    return fail(ErrorCode::format, "cache file: damaged (the checksum differs)");
  return payload;
}

}  // namespace tessera::server
