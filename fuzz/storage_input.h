// The files that storage_fuzz accepts, shared with the program that writes its seeds.
#pragma once

#include <span>
#include <vector>

#include "tessera/server/storage/block_file.h"
#include "tessera/server/storage/slot_file.h"

namespace tessera::fuzz {

inline constexpr uint64_t kPayloadBytes = 64;

inline std::vector<std::byte> joined(std::vector<std::byte> front, std::span<const std::byte> body, uint64_t checksum) {
  const auto end = std::as_bytes(std::span(&checksum, 1));
  front.insert(front.end(), body.begin(), body.end());
  front.insert(front.end(), end.begin(), end.end());
  return front;
}

inline server::SlotFileLimits slot_limits() {
  return {.session = server::Digest{}, .n_tokens = 32, .n_vocab = 100, .n_state_bytes = 512};
}

inline std::vector<std::byte> slot_file(const server::SavedSlot& slot) {
  const std::vector<std::byte> front = server::slot_file_front(slot);
  return joined(front, slot.state, server::slot_file_checksum(front, slot.state));
}

inline server::BlockKey block_key() {
  server::BlockKey key{.tokens = std::vector<int32_t>(64, 7)};
  key.digest = server::block_digest(key.parent, key.tokens);
  return key;
}

inline std::vector<std::byte> block_file(const server::BlockKey& key, std::span<const std::byte> payload) {
  const std::vector<std::byte> front = server::block_file_front(key, payload.size());
  return joined(front, payload, server::block_file_checksum(front, payload));
}

}  // namespace tessera::fuzz
