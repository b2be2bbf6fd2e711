// Finds special tokens (control, unknown, user-defined) that are spelled out in a text. Called by Tokenizer before it
// tokenizes the text between them. Borrows the vocabulary's texts, which must outlive this object.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/text/marked_text.h"
#include "tessera/text/vocab.h"

namespace tessera::text {

/// Longest text of a special token that is recognised in a text. It bounds the work per byte.
inline constexpr size_t kMaxSpecialBytes = 256;

/// The places of a text where control and unknown tokens are recognised. User-defined tokens are recognised everywhere.
struct ControlTokenPlaces {
  bool anywhere = false;               // false: nowhere
  std::span<const ByteRange> given{};  // but not on these bytes, in ascending order

  bool include(size_t begin, size_t end) const;
};

class SpecialMatcher {
 public:
  struct Match {
    size_t begin;
    size_t end;
    int32_t id;
  };

  explicit SpecialMatcher(const Vocab& vocab);

  /// Returns the first special token in text at or after `from`; among tokens that start at the same byte, the longest.
  std::optional<Match> find(std::string_view text, size_t from, const ControlTokenPlaces& places) const;

 private:
  struct Entry {
    std::string_view text;
    int32_t id;
    bool is_user_defined;
  };

  std::optional<Match> match_at(std::string_view text, size_t begin, const ControlTokenPlaces& places) const;

  std::vector<Entry> entries_;      // sorted by text
  std::array<bool, 256> starts_{};  // by first byte
};

}  // namespace tessera::text
