// libFuzzer target for the matchers of grammars. The input has a grammar and operations: text, tokens, masks, forced
// text, steps back, forks. Masks are what brute force finds, steps back restore what was before, and a text has the
// same mask however it was read. grammar_input.h has the form of the input, and fuzz/CMakeLists.txt explains how to run
// it.
#include <algorithm>
#include <set>
#include <vector>

#include "fuzz/grammar_input.h"
#include "tessera/text/grammar/matcher.h"
#include "tests/text/grammar_support.h"

namespace {

using namespace tessera::fuzz;
using namespace tessera::text::grammar;
namespace testing = tessera::testing;
using testing::ids_of;

constexpr int32_t kEnd = 0;
constexpr size_t kMaxOperations = 64, kMaxFullChecks = 4;

/// A vocabulary with usual pieces of text, and pieces of the input.
std::shared_ptr<const MaskVocab> vocab_of(const GrammarInput& input) {
  std::set<std::string> pieces = {"{\"",  "\"}", "\":",   "\": ",     "\",\"",  "\", \"",   "},{",          "]]",
                                  "[]",   "{}",  "\":[",  "\n  ",     "  ",     ", ",       "1,1",          "10",
                                  "0.5",  "-1",  "e+1",   "ab",       "abab",   "aaaa",     "true",         "false",
                                  "null", "\\n", "\\u00", "\xc3\xa9", "\xa9\"", "\xf0\x9f", "\"a\":1,\"a\""};
  for (const std::string_view text : {input.source, input.operations})
    for (size_t i = 0; i < std::min<size_t>(text.size(), 64); i += 2) pieces.emplace(text.substr(i, 2 + i % 3));
  return testing::vocab_of(pieces);
}

bool has_token_edges(const Rules& rules) {
  for (RuleState state = 0; state < rules.n_states(); ++state)
    for (const Edge& edge : rules.edges(state))
      if (edge.kind == Edge::Kind::tokens) return true;
  return false;
}

class Session {
 public:
  Session(std::shared_ptr<const Grammar> grammar, const GrammarInput& input)
      : grammar_(std::move(grammar)),
        vocab_(vocab_of(input)),
        operations_(input.operations),
        has_token_edges_(has_token_edges(grammar_->rules())),
        matcher_(grammar_, vocab_),
        fork_(matcher_.fork()) {}

  void run() {
    check();
    for (size_t i = 0; i < kMaxOperations && !operations_.empty() && !matcher_.overflowed(); ++i) {
      const uint8_t operation = take();
      apply(operation % 8, operation / 8);
    }
    check();
    if (!has_token_edges_ && !steps_.back().has_ended) compare_with_fresh();
  }

 private:
  // What is known after each call that added something.
  struct Step {
    std::string text{};
    bool has_ended = false;
    std::vector<int32_t> mask{};  // if it was asked for
    bool has_mask = false;
  };

  uint8_t take() {
    const auto byte = operations_.empty() ? uint8_t{0} : static_cast<uint8_t>(operations_[0]);
    operations_.remove_prefix(std::min<size_t>(operations_.size(), 1));
    return byte;
  }

  void apply(int operation, size_t n) {
    switch (operation) {
      case 0:
        return accept_token(static_cast<int32_t>((take() + 256 * n) % vocab_->n_tokens()));
      case 1: {
        const std::string_view text = operations_.substr(0, n + 1);
        operations_.remove_prefix(text.size());
        return accept(text);
      }
      case 2:
        return check();
      case 3:
        return check_forced(n + 1);
      case 4:
        return roll_back(n % 4);
      case 5:
        std::swap(matcher_, fork_);
        std::swap(steps_, fork_steps_);
        if (n % 2 == 0) {
          fork_ = matcher_.fork();
          fork_steps_ = steps_;
        }
        return;
      case 6:
        matcher_.restart();
        steps_.resize(1);
        return;
      default: {
        const std::vector<int32_t> ids = ids_of(matcher_.mask());
        if (!ids.empty()) accept_token(ids[(take() + 256 * n) % ids.size()]);
      }
    }
  }

  void accept(std::string_view text) {
    const size_t n_read = matcher_.accept(text);
    require(n_read <= text.size() && (!steps_.back().has_ended || n_read == 0));
    if (n_read > 0) steps_.push_back({.text = steps_.back().text + std::string(text.substr(0, n_read))});
  }

  void accept_token(int32_t id) {
    const bool fits = matcher_.mask().contains(id), is_accepted = matcher_.accept_token(id);
    require(fits == is_accepted || matcher_.overflowed());
    if (!is_accepted) return;
    const MaskVocab::Token& token = vocab_->token(id);
    // Where a grammar names tokens by id, a token that ends texts need not be the last one.
    const bool has_ended = token.ends_text && !matcher_.goes_on() && !has_token_edges_;
    steps_.push_back({.text = steps_.back().text + (token.ends_text ? "" : token.text), .has_ended = has_ended});
  }

  // The mask is what brute force finds, and agrees with what the matcher says.
  void check() {
    const std::vector<int32_t> mask = ids_of(matcher_.mask());
    const bool is_complete = matcher_.is_complete(), goes_on = matcher_.goes_on();
    const bool has_ended = steps_.back().has_ended;
    if (matcher_.overflowed()) return;
    if (!has_token_edges_) {
      const bool has_end = std::ranges::binary_search(mask, kEnd);
      require(has_ended ? mask.empty() && is_complete && !goes_on : !mask.empty());
      require(has_ended || (has_end == is_complete && (mask.size() > (has_end ? 1U : 0U)) == goes_on));
    }
    if (steps_.back().has_mask) require(steps_.back().mask == mask);
    steps_.back().mask = mask;
    steps_.back().has_mask = true;
    if (n_full_checks_++ >= kMaxFullChecks) return;
    std::vector<int32_t> found;
    for (int32_t id = 0; vocab_->contains(id); ++id)
      if (matcher_.fork().accept_token(id)) found.push_back(id);
    require(found == mask || matcher_.overflowed());
  }

  void check_forced(size_t n) {
    const std::string forced = matcher_.forced_text(n);
    require(forced.size() <= n && (forced.empty() || !matcher_.is_complete()));
    const bool is_read = matcher_.fork().accept(forced) == forced.size();
    if (forced.empty() || matcher_.overflowed()) return;
    require(is_read);
    for (int byte = 0; byte < 256; ++byte) {
      const auto c = static_cast<char>(byte);
      require((matcher_.fork().accept({&c, 1}) == 1) == (c == forced[0]) || matcher_.overflowed());
    }
  }

  void roll_back(size_t n) {
    matcher_.rollback(n);
    steps_.resize(steps_.size() - std::min(n, steps_.size() - 1));
    check();
  }

  // The text at once, by another matcher that finds what it needs in the cache of the vocabulary.
  void compare_with_fresh() {
    Matcher fresh(grammar_, vocab_);
    const std::string& text = steps_.back().text;
    const size_t n_read = fresh.accept(text);
    const std::vector<int32_t> mask = ids_of(fresh.mask()), other = ids_of(matcher_.mask());
    if (matcher_.overflowed() || fresh.overflowed()) return;
    require(n_read == text.size() && mask == other);
    require(fresh.is_complete() == matcher_.is_complete() && fresh.goes_on() == matcher_.goes_on());
  }

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const MaskVocab> vocab_;
  std::string_view operations_;
  bool has_token_edges_;
  Matcher matcher_, fork_;
  std::vector<Step> steps_ = {Step()}, fork_steps_ = {Step()};
  size_t n_full_checks_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  const auto input = GrammarInput::parse({reinterpret_cast<const char*>(data), n});
  if (!input) return 0;
  const auto grammar = input->compile();
  if (grammar) Session(*grammar, *input).run();
  return 0;
}
