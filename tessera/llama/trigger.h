// Triggers of lazy grammars: regular expressions that are searched for in a text that grows.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/text/grammar/matcher.h"

namespace tessera::llama {

/// A regular expression that starts a lazy grammar. The grammar's text begins with what the first group matches, or
/// with the whole match where there is no group.
class TriggerPattern {
 public:
  /// Errors: format (no regular expression, or one that a grammar cannot be made of).
  static Result<TriggerPattern> from_regex(std::string_view pattern);
  /// Errors: invalid_argument (empty); format (no UTF-8).
  static Result<TriggerPattern> from_word(std::string_view word);

 private:
  friend class TriggerSearch;

  std::shared_ptr<const text::grammar::Grammar> before_;  // of the text in front of the first group; null: none
  std::shared_ptr<const text::grammar::Grammar> from_;    // of the text from the group on
  bool begins_anywhere_ = true;                           // no '^' at the start
  bool ends_anywhere_ = true;                             // no '$' at the end
};

/// Searches for a pattern. Each byte is read once.
class TriggerSearch {
 public:
  /// Matches that are begun and not complete. When there are so many, no other one begins.
  static constexpr size_t kMaxOpenMatches = 4096;

  explicit TriggerSearch(const TriggerPattern& pattern);
  TriggerSearch(const TriggerSearch& other);
  TriggerSearch(TriggerSearch&&) noexcept = default;
  TriggerSearch& operator=(const TriggerSearch&) = delete;
  TriggerSearch& operator=(TriggerSearch&&) noexcept = default;
  ~TriggerSearch() = default;

  /// Reads more of the text. Returns the place in the whole text where that of the grammar begins, once the pattern has
  /// been found: the first one, if there are several. A pattern with '$' must end where this part of the text ends.
  std::optional<size_t> read(std::string_view more);

 private:
  // A match of the group that may still become complete.
  struct OpenMatch {
    size_t begin;
    text::grammar::Matcher matcher;
  };

  bool may_begin() const;
  void read_byte(std::string_view byte);
  std::optional<size_t> first_complete() const;

  text::grammar::Matcher from_;                   // of no text
  std::optional<text::grammar::Matcher> before_;  // of the text so far; empty: no group, or it cannot fit any more
  bool has_before_;
  bool begins_anywhere_, ends_anywhere_;
  size_t n_bytes_ = 0;
  std::vector<OpenMatch> open_{};  // in the order of their places
};

}  // namespace tessera::llama
