// SHA-256 digests, which name what was computed: a block of keys and values by all tokens up to its end, and by all
// else that its bits depend on. Files of the disk tier have these names, and slot files contain one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/engine/prefix_cache.h"
#include "tessera/engine/session.h"
#include "tessera/server/sha256.h"

namespace tessera::server {

/// All that keys and values depend on besides tokens: model, rope, cache types, activations, devices with their
/// instruction sets and the order of float operations. Adapters are the sequences' own.
Digest session_digest(const Session& session);

/// An adapter of a sequence, by its file.
struct AdapterKey {
  uint64_t fingerprint = 0;
  float scale = 0;

  bool operator==(const AdapterKey&) const = default;
};
/// The adapters of a sequence, in their order in the session: it is the order in which their terms are added.
std::vector<AdapterKey> adapter_keys(const Session& session, std::span<const AdapterScale> adapters);
/// The adapters of a session with these files, in the same order. Errors: mismatch (the session lacks one).
Result<std::vector<AdapterScale>> find_adapters(const Session& session, std::span<const AdapterKey> keys);

/// The digest before the first block. Sequences of other salts or adapters share nothing.
Digest root_digest(const Digest& session, std::string_view salt, std::span<const AdapterKey> adapters = {});
/// The digest of a block after `parent`, which is that of the block before it, or the root's.
Digest block_digest(const Digest& parent, std::span<const int32_t> tokens);
/// The digest of a part at the end of the tokens that `block` is the digest of. A block's is `block` itself.
Digest part_digest(const Digest& block, const SavedPart& part);

}  // namespace tessera::server
