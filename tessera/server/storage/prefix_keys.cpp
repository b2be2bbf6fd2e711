#include "tessera/server/storage/prefix_keys.h"

#include "tessera/base/index.h"

namespace tessera::server {

std::span<const int32_t> PrefixKeys::tokens_of(const SavedPart& part) const {
  return tokens_.subspan(to_size(part.logical * kKvBlockTokens), to_size(part.end_row));
}

const Digest& PrefixKeys::before(int64_t block) {
  while (std::ssize(before_) <= block)
    before_.push_back(block_digest(before_.back(), tokens_of({.logical = std::ssize(before_) - 1})));
  return before_[to_size(block)];
}

Digest PrefixKeys::digest(const SavedPart& part) {
  const bool is_whole = part.end_row == kKvBlockTokens;
  return part_digest(is_whole ? before(part.logical + 1) : block_digest(before(part.logical), tokens_of(part)), part);
}

BlockKey PrefixKeys::key(const SavedPart& part) {
  const auto tokens = tokens_of(part);
  return {.kind = part.kind,
          .root = before_.front(),
          .parent = before(part.logical),
          .digest = digest(part),
          .tokens = {tokens.begin(), tokens.end()}};
}

}  // namespace tessera::server
