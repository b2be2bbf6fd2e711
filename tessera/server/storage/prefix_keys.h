// The keys of the parts of a prefix: under which names the disk tier has them.
#pragma once

#include <span>
#include <vector>

#include "tessera/cache/saved_part.h"
#include "tessera/server/storage/block_file.h"

namespace tessera::server {

class PrefixKeys {
 public:
  /// The tokens must outlive the result.
  PrefixKeys(const Digest& root, std::span<const int32_t> tokens) : tokens_(tokens), before_{root} {}

  /// The part must end within the tokens. The first call for a block takes time linear in the blocks before it.
  Digest digest(const SavedPart& part);
  BlockKey key(const SavedPart& part);

 private:
  const Digest& before(int64_t block);
  std::span<const int32_t> tokens_of(const SavedPart& part) const;

  std::span<const int32_t> tokens_;
  std::vector<Digest> before_;  // by block: of the blocks before it, as far as they were asked for
};

}  // namespace tessera::server
