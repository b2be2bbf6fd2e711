// A text of a grammar that grows, by bytes or by tokens, and the tokens that may follow it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/grammar/grammar.h"
#include "tessera/text/grammar/mask_vocab.h"

namespace tessera::text::grammar {

/// Matchers that are forked from one another share their states and may be used by different threads. One matcher is
/// used by one thread at a time.
class Matcher {
 public:
  /// vocab: for tokens; without it, only text can be accepted.
  explicit Matcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const MaskVocab> vocab = nullptr);
  ~Matcher();
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;

  /// A matcher with the same text. It copies no states.
  Matcher fork() const { return *this; }

  /// Reads bytes as long as some text of the grammar begins with all that was read. Returns how many it read.
  size_t accept(std::string_view text);
  /// Adds a token. Returns false if it does not fit; then the text stays as it was. A token that ends a text fits where
  /// the text is complete, and nothing fits after it.
  bool accept_token(int32_t id);

  /// The tokens that fit. They are the same for every way in which the text was read.
  TokenRow mask();
  /// Whether mask() has to search the vocabulary, which may take milliseconds. Otherwise it takes microseconds.
  bool needs_search() const;

  /// Whether the text so far is a text of the grammar.
  bool is_complete() const;
  /// Whether a byte or a token without text can follow.
  bool goes_on() const;
  /// The bytes that must follow, at most max_bytes of them: at each place of it exactly one byte can follow, and the
  /// text is not complete.
  std::string forced_text(size_t max_bytes);

  /// Takes back the last n calls of accept() and accept_token() that added something, or all if there are fewer.
  void rollback(size_t n);
  /// Takes back all.
  void restart();

  /// Whether the grammar needed more memory than the limits allow. Then some texts are refused that belong to it.
  bool overflowed() const;

 private:
  struct Automaton;
  Matcher(const Matcher&);
  std::unique_lock<std::mutex> lock();

  std::shared_ptr<Automaton> automaton_;
  std::vector<uint32_t> states_;  // of the parser, after each call
};

}  // namespace tessera::text::grammar
