// A file of the disk tier: one part of a prefix (cache/saved_part.h), such as a block of 64 tokens with its keys and
// values. Little-endian:
//   u64 magic "TSRAPFX1", u32 version, u32 kind (0: a block, 1: of a window, 2: a state), u8[32] digest,
//   u8[32] digest of the block before it, u32 number of tokens, u32 number of groups (1), u64 bytes of the payload
//   i32 tokens of the block, up to the end of the part
//   the payload, as Session::save_part() gives it
//   u64 checksum (base/hash.h) of all before
//
// A reader knows all but the payload and the checksum beforehand, so it compares the front byte by byte.
#pragma once

#include <span>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/cache/saved_part.h"
#include "tessera/server/storage/digest.h"

namespace tessera::server {

/// A part and its place: under the digest of its root, after the block of the digest `parent`.
struct BlockKey {
  SavedPart::Kind kind = SavedPart::Kind::block;
  Digest root{};
  Digest parent{};
  Digest digest{};
  std::vector<int32_t> tokens{};

  /// The path of its file: the first 8 bytes of the root, the first byte of the digest, the digest.
  std::string path() const;
};

/// The bytes before the payload, and the checksum after it.
std::vector<std::byte> block_file_front(const BlockKey& key, uint64_t n_payload_bytes);
uint64_t block_file_checksum(std::span<const std::byte> front, std::span<const std::byte> payload);
/// The size of a whole file.
uint64_t block_file_bytes(const BlockKey& key, uint64_t n_payload_bytes);

/// The payload in the bytes of a file. Errors: format (anything in it is not as it must be).
Result<std::span<const std::byte>> block_payload(std::span<const std::byte> file, const BlockKey& key,
                                                 uint64_t n_payload_bytes);

}  // namespace tessera::server
