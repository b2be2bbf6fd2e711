// A file with the tokens and the state of a slot, as clients save and restore them. Little-endian:
//   u64 magic "TSRASLT1", u32 version, u32 number of tokens, u8[32] session_digest(), u32 bytes of the salt, u32 number
//   of adapters, u64 bytes of the state
//   the salt; for each adapter u64 fingerprint, f32 scale, u32 0; i32 tokens; the state as Session::save_state() gives
//   it u64 checksum (base/hash.h) of all before
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/server/storage/digest.h"

namespace tessera::server {

struct SavedSlot {
  Digest session{};
  std::string salt{};
  std::vector<AdapterKey> adapters{};  // with which the tokens were computed
  std::vector<int32_t> tokens{};
  std::vector<std::byte> state{};
};

/// Bounds of a file that is read, checked before anything is allocated.
struct SlotFileLimits {
  Digest session{};            // of the session that reads it
  int64_t n_tokens = 0;        // most tokens
  int64_t n_vocab = 0;         // tokens are below
  uint64_t n_state_bytes = 0;  // most bytes of the state
};

inline constexpr size_t kMostSaltBytes = 256;
inline constexpr size_t kMostSlotAdapters = 64;  // as in AdapterSet

/// The bytes before the state. The file is these, the state and the checksum.
std::vector<std::byte> slot_file_front(const SavedSlot& slot);
uint64_t slot_file_checksum(std::span<const std::byte> front, std::span<const std::byte> state);

/// Errors: format (damaged, or no such file); unsupported (its version); mismatch (another model or other settings);
/// limit; io.
Result<SavedSlot> read_slot_file(const File& file, const SlotFileLimits& limits);
/// The same for the bytes of a file.
Result<SavedSlot> parse_slot_file(std::vector<std::byte> bytes, const SlotFileLimits& limits);

}  // namespace tessera::server
