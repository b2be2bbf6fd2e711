// SHA-256 digests, which name what was computed: a block of keys and values by all tokens up to its end, and by all
// else that its bits depend on. Files of the disk tier have these names, and slot files contain one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tessera/engine/session.h"

namespace tessera::server {

using Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  /// Throws std::bad_alloc.
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& add(std::span<const std::byte> bytes);
  Sha256& add(uint64_t number);
  /// Adds the length as well, so that neighbours do not run together.
  Sha256& add_text(std::string_view text);
  Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hex_text(std::span<const std::byte> bytes);

/// All that keys and values depend on besides tokens: model, rope, cache types, activations, devices with their
/// instruction sets, adapters and the order of float operations.
Digest session_digest(const Session& session);
/// The digest before the first block. Sequences of other salts share nothing.
Digest root_digest(const Digest& session, std::string_view salt);
/// The digest of a block after `parent`, which is that of the block before it, or the root's.
Digest block_digest(const Digest& parent, std::span<const int32_t> tokens);

}  // namespace tessera::server
