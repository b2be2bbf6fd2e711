// A part of what the cache keeps of a prefix, for tiers beyond this memory. A whole block of group 0 is a part. At a
// mark there are more: a last block with fewer tokens, the blocks of windows and of entries, and the recurrent state.
//
// A part depends only on the tokens up to its last row. So marks share the blocks of their windows and entries.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/cache/kv_group.h"

namespace tessera {

struct SavedPart {
  enum class Kind : uint8_t {
    block,   // K and V rows of group 0
    window,  // K and V rows of another group: one with a window, or one of entries
    state,   // the recurrent state after the last row
  };
  // The rows of entries are those in one block of the group, up to the entry that the last position completes. They are
  // named by that position: begin_row is 0.
  Kind kind = Kind::block;
  size_t group = 0;     // of a window or of entries
  int64_t logical = 0;  // the rows are in this block of 64 positions
  int32_t begin_row = 0;
  int32_t end_row = static_cast<int32_t>(kKvBlockTokens);  // of a state: its place

  int64_t begin() const { return logical * kKvBlockTokens + begin_row; }
  int64_t end() const { return logical * kKvBlockTokens + end_row; }
  bool operator==(const SavedPart&) const = default;
};

}  // namespace tessera
