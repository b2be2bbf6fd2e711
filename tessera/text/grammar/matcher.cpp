#include "tessera/text/grammar/matcher.h"

#include <mutex>
#include <optional>

#include "tessera/text/grammar/parser_states.h"
#include "tessera/text/grammar/token_masks.h"

namespace tessera::text::grammar {
namespace {

// After a token that ends the text. No text leads there, since the parser has no such state after a text that fits.
constexpr ParserStates::State kEnded = ParserStates::kDead;

// About 16 MiB each.
constexpr size_t kManyLexemes = 50'000, kManyStates = 100'000, kManyExpressions = 200'000;

// Of one call: a few hundred milliseconds. Nearly all calls take microseconds.
constexpr uint64_t kMaxSteps = 3'000'000;

}  // namespace

// The states of a grammar are made as texts lead to them, so those who read texts have expressions of their own.
struct Matcher::Automaton {
  Automaton(std::shared_ptr<const Grammar> of, std::shared_ptr<const MaskVocab> with)
      : grammar(std::move(of)),
        vocab(std::move(with)),
        expressions(with_steps(grammar->expressions())),
        lexemes(expressions, grammar->lexemes(), 4 * kManyLexemes),
        states(grammar->rules(), lexemes, expressions) {
    if (vocab) masks.emplace(grammar->rules(), expressions, lexemes, states, *vocab);
    note_size();
  }

  /// Remembers the present size as that of the states that are needed.
  void note_size() {
    n_first_lexemes = lexemes.size();
    n_first_states = states.size();
    n_first_expressions = expressions.n_nodes();
  }

  static ExpressionArena with_steps(ExpressionArena arena) {
    arena.limit_steps(kMaxSteps);
    return arena;
  }

  /// Whether a text that goes on should do so with fewer states.
  bool is_large() const {
    return lexemes.size() > n_first_lexemes + kManyLexemes || states.size() > n_first_states + kManyStates ||
           expressions.n_nodes() > n_first_expressions + kManyExpressions;
  }

  std::mutex mutex;
  std::shared_ptr<const Grammar> grammar;
  std::shared_ptr<const MaskVocab> vocab;
  ExpressionArena expressions;
  LexemeStates lexemes;
  ParserStates states;
  std::optional<TokenMasks> masks;
  size_t n_first_lexemes = 0, n_first_states = 0, n_first_expressions = 0;
};

Matcher::Matcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const MaskVocab> vocab)
    : automaton_(std::make_shared<Automaton>(std::move(grammar), std::move(vocab))),
      states_{automaton_->states.start()} {}
Matcher::~Matcher() = default;
Matcher::Matcher(const Matcher&) = default;
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;

// States that no other matcher needs are dropped when there are many.
std::unique_lock<std::mutex> Matcher::lock() {
  std::unique_lock lock(automaton_->mutex);
  automaton_->expressions.limit_steps(kMaxSteps);
  if (!automaton_->is_large()) return lock;
  auto fresh = std::make_shared<Automaton>(automaton_->grammar, automaton_->vocab);
  states_ = fresh->states.copies_of(states_, automaton_->states);
  fresh->note_size();
  lock.unlock();
  automaton_ = std::move(fresh);
  return std::unique_lock(automaton_->mutex);
}

size_t Matcher::accept(std::string_view text) {
  const auto locked = lock();
  if (states_.back() == kEnded) return 0;
  ParserStates::State state = states_.back();
  size_t n_read = 0;
  for (; n_read < text.size(); ++n_read) {
    const ParserStates::State then = automaton_->states.next(state, static_cast<uint8_t>(text[n_read]));
    if (then == ParserStates::kDead) break;
    state = then;
  }
  if (n_read > 0) states_.push_back(state);
  return n_read;
}

bool Matcher::accept_token(int32_t id) {
  const auto locked = lock();
  const MaskVocab* vocab = automaton_->vocab.get();
  if (vocab == nullptr || !vocab->contains(id) || states_.back() == kEnded) return false;
  const MaskVocab::Token& token = vocab->token(id);
  const std::string_view text = token.ends_text ? std::string_view() : token.text;
  const ParserStates::State then = automaton_->states.next_token(states_.back(), id, text, token.ends_text);
  const bool ends = token.ends_text && automaton_->states.is_complete(states_.back());
  if (then == ParserStates::kDead && !ends) return false;
  states_.push_back(then);
  return true;
}

TokenRow Matcher::mask() {
  const auto locked = lock();
  if (!automaton_->masks) return TokenRow(0);
  return automaton_->masks->of(states_.back());
}

bool Matcher::needs_search() const {
  const std::scoped_lock lock(automaton_->mutex);
  return automaton_->masks && automaton_->masks->needs_search(states_.back());
}

bool Matcher::is_complete() const {
  const std::scoped_lock lock(automaton_->mutex);
  return states_.back() == kEnded || automaton_->states.is_complete(states_.back());
}

bool Matcher::goes_on() const {
  const std::scoped_lock lock(automaton_->mutex);
  return automaton_->states.goes_on(states_.back());
}

std::string Matcher::forced_text(size_t max_bytes) {
  const auto locked = lock();
  std::string text;
  for (ParserStates::State state = states_.back(); text.size() < max_bytes;) {
    const ByteSet live = automaton_->states.live_bytes(state);
    if (live.size() != 1 || automaton_->states.is_complete(state) || automaton_->states.has_token_edges(state)) break;
    text.push_back(static_cast<char>(live.first()));
    state = automaton_->states.next(state, live.first());
  }
  return text;
}

void Matcher::rollback(size_t n) { states_.resize(states_.size() - std::min(n, states_.size() - 1)); }
void Matcher::restart() { states_.resize(1); }

bool Matcher::overflowed() const {
  const std::scoped_lock lock(automaton_->mutex);
  return automaton_->states.overflowed();
}

}  // namespace tessera::text::grammar
