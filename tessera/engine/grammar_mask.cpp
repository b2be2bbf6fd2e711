#include "tessera/engine/grammar_mask.h"

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/text/grammar/spelled_grammar.h"

namespace tessera {
namespace {

namespace grammar = text::grammar;

constexpr size_t kMaxForcedBytes = 256;
// A tokenizer looks back at most a few words, so these tokens are enough to write the next ones as in the whole text.
constexpr size_t kContextTokens = 16;
// A search of a smaller vocabulary takes less time than waking a thread.
constexpr size_t kManyTokens = 16'384;

}  // namespace

std::shared_ptr<const grammar::MaskVocab> mask_vocab(const Engine& engine) {
  return grammar::MaskVocab::create(engine.tokenizer(), to_size(engine.model().info().n_vocab));
}

Result<std::unique_ptr<GrammarMask>> GrammarMask::create(std::shared_ptr<const Engine> engine,
                                                         std::shared_ptr<const grammar::MaskVocab> vocab,
                                                         std::shared_ptr<const grammar::Grammar> grammar) {
  auto spelled = grammar::spelled_by(*vocab, std::move(grammar));
  if (!spelled) return fail(ErrorCode::unsupported, "grammar: {}", spelled.error().message);
  grammar::Matcher matcher(std::move(*spelled), vocab);
  std::unique_ptr<GrammarMask> mask(new GrammarMask(std::move(engine), std::move(vocab), std::move(matcher)));
  TESSERA_TRY(mask->allowed());
  return mask;
}

Result<sample::TokenMask::Allowed> GrammarMask::allowed() {
  row_ = matcher_.mask();
  if (matcher_.overflowed())
    return fail(ErrorCode::limit, "grammar: the text so far has more readings than the limits allow");
  if (row_.is_empty()) return fail(ErrorCode::unsupported, "grammar: no token of the vocabulary can follow the text");
  if (row_.is_list()) return Allowed{.ids = row_.ids()};
  words_.resize(row_.n_words());
  row_.write(words_);
  return Allowed{.is_list = false, .words = words_};
}

// If the system has no thread, allowed() searches.
void GrammarMask::prepare() {
  if (vocab_->n_tokens() < kManyTokens || !needs_search()) return;
  if (!searches_) {
    auto stream = Stream::create();
    if (!stream) return;
    searches_ = std::move(*stream);
  }
  searches_->post([matcher = std::make_shared<grammar::Matcher>(matcher_.fork())] { matcher->mask(); });
}

bool GrammarMask::is_finished() const { return matcher_.is_complete() && !matcher_.goes_on(); }

Result<> GrammarMask::accept(int32_t token) {
  if (!matcher_.accept_token(token))
    return fail(ErrorCode::invalid_argument, "grammar: token {} cannot follow the text", token);
  accepted_.push_back(token);
  return {};
}

// The tokens of a text that follows the accepted tokens, or none if a token would join the two.
std::vector<int32_t> GrammarMask::tokens_of(const std::string& text) const {
  std::string before;
  const size_t n_context = std::min(accepted_.size(), kContextTokens);
  for (const int32_t token : std::span(accepted_).last(n_context)) before += vocab_->token(token).text;
  return grammar::tokens_after(engine_->tokenizer(), *vocab_, before, text).value_or(std::vector<int32_t>());
}

// Whether a token that may follow is longer.
bool GrammarMask::may_reach_past(size_t n_bytes) {
  const grammar::TokenRow row = matcher_.mask();
  return !row.is_list() || std::ranges::any_of(row.ids(), [&](int32_t id) {
    return vocab_->token(id).text.empty() || vocab_->token(id).text.size() > n_bytes;
  });
}

// A token is kept if the tokenizer would write it whatever comes after the forced text.
std::vector<int32_t> GrammarMask::forced() {
  const std::string text = matcher_.forced_text(kMaxForcedBytes);
  if (text.empty()) return {};
  std::vector<int32_t> tokens = tokens_of(text);
  size_t n_kept = 0;
  for (size_t n_left = text.size(); n_kept < tokens.size(); ++n_kept) {
    if (may_reach_past(n_left) || !matcher_.accept_token(tokens[n_kept])) break;
    n_left -= vocab_->token(tokens[n_kept]).text.size();
  }
  matcher_.rollback(n_kept);
  tokens.resize(n_kept);
  return tokens;
}

void GrammarMask::reset() {
  matcher_.restart();
  accepted_.clear();
}

std::unique_ptr<sample::TokenMask> GrammarMask::clone() const {
  std::unique_ptr<GrammarMask> copy(new GrammarMask(engine_, vocab_, matcher_.fork()));
  copy->accepted_ = accepted_;
  copy->searches_ = searches_;
  return copy;
}

}  // namespace tessera
