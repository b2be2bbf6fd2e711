// llama.h: samplers of grammars.
#include <algorithm>
#include <utility>

#include "tessera/llama/grammar_text.h"
#include "tessera/llama/objects.h"
#include "tessera/llama/sampler.h"
#include "tessera/llama/trigger.h"
#include "tessera/text/grammar/matcher.h"

namespace tessera::llama {
namespace {

constexpr size_t kMaxUntriggeredBytes = size_t{1} << 20;

// The texts and tokens with which a lazy grammar begins. Until then all tokens are allowed.
struct Triggers {
  std::vector<TriggerPattern> patterns{};
  std::vector<llama_token> tokens{};
  bool is_empty() const { return patterns.empty() && tokens.empty(); }
};

class GrammarSampler final : public SamplerObject {
 public:
  GrammarSampler(std::shared_ptr<const text::grammar::MaskVocab> vocab, text::grammar::Matcher matcher,
                 std::shared_ptr<const Triggers> triggers)
      : vocab_(std::move(vocab)), matcher_(std::move(matcher)), triggers_(std::move(triggers)) {
    begin_search();
  }
  GrammarSampler(const GrammarSampler& other)
      : SamplerObject(other),
        vocab_(other.vocab_),
        matcher_(other.matcher_.fork()),
        triggers_(other.triggers_),
        searches_(other.searches_),
        before_(other.before_),
        waits_(other.waits_) {}
  GrammarSampler& operator=(const GrammarSampler&) = delete;

  const char* name() const override { return "grammar"; }

  Result<> apply(CandidateView& view) override {
    if (waits_) return {};
    const text::grammar::TokenRow row = matcher_.mask();
    if (matcher_.overflowed())
      return fail(ErrorCode::limit, "grammar: the text so far has more readings than the limits allow");
    view.restrict_to(row);
    return {};
  }

  Result<> accept(llama_token token) override {
    if (!vocab_->contains(token)) return {};
    if (waits_) return accept_before(token);
    if (matcher_.accept_token(token)) return {};
    return fail(ErrorCode::invalid_argument, "grammar: token {} cannot follow the text", token);
  }

  void reset() override {
    matcher_.restart();
    before_.clear();
    begin_search();
  }

  Result<std::unique_ptr<SamplerObject>> clone() const override { return std::make_unique<GrammarSampler>(*this); }

 private:
  void begin_search() {
    searches_.clear();
    waits_ = triggers_ != nullptr;
    if (!waits_) return;
    for (const TriggerPattern& pattern : triggers_->patterns) searches_.emplace_back(pattern);
  }

  // The grammar begins with a trigger token, or within the text where a pattern is found.
  Result<> accept_before(llama_token token) {
    if (std::ranges::find(triggers_->tokens, token) != triggers_->tokens.end()) {
      waits_ = false;
      return accept(token);
    }
    const std::string_view more = vocab_->token(token).text;
    if (before_.size() + more.size() > kMaxUntriggeredBytes)
      return fail(ErrorCode::limit, "grammar: {} bytes without a trigger", before_.size());
    before_ += more;
    for (TriggerSearch& search : searches_) {
      const std::optional<size_t> begin = search.read(more);
      if (!begin) continue;
      waits_ = false;
      const std::string text = std::exchange(before_, {}).substr(*begin);
      if (matcher_.accept(text) == text.size()) return {};
      return fail(ErrorCode::invalid_argument, "grammar: the text of the trigger is not allowed by it");
    }
    return {};
  }

  std::shared_ptr<const text::grammar::MaskVocab> vocab_;
  text::grammar::Matcher matcher_;
  std::shared_ptr<const Triggers> triggers_;  // null: the grammar begins with the text
  std::vector<TriggerSearch> searches_{};     // of the patterns, while it waits
  std::string before_{};                      // the text while it waits
  bool waits_ = false;
};

// An empty grammar, which allows everything in llama.h.
class EmptyGrammar final : public SamplerObject {
 public:
  const char* name() const override { return "grammar"; }
  Result<> apply(CandidateView&) override { return {}; }
  Result<> accept(llama_token) override { return {}; }
  void reset() override {}
  Result<std::unique_ptr<SamplerObject>> clone() const override { return std::make_unique<EmptyGrammar>(); }
};

Result<llama_sampler*> make_grammar(const llama_vocab* vocab, const char* source, const char* root,
                                    std::shared_ptr<const Triggers> triggers) {
  TESSERA_TRY(require(vocab, "vocab"));
  if (source == nullptr || *source == '\0') return to_handle(std::make_unique<EmptyGrammar>());
  TESSERA_ASSIGN(GrammarPointer grammar, compile_grammar(vocab, source, root));
  auto mask_vocab = vocab->mask();
  text::grammar::Matcher matcher(std::move(grammar), mask_vocab);
  return to_handle(std::make_unique<GrammarSampler>(std::move(mask_vocab), std::move(matcher), std::move(triggers)));
}

Result<std::shared_ptr<const Triggers>> read_triggers(Result<TriggerPattern> (*read)(std::string_view),
                                                      const char** texts, size_t n_texts, const llama_token* tokens,
                                                      size_t n_tokens) {
  auto triggers = std::make_shared<Triggers>();
  TESSERA_ASSIGN(const auto given, read_items(texts, n_texts, "triggers"));
  for (const char* text : given) {
    TESSERA_ASSIGN(const std::string_view one, read_text(text, "trigger"));
    TESSERA_ASSIGN(TriggerPattern pattern, read(one));
    triggers->patterns.push_back(std::move(pattern));
  }
  TESSERA_ASSIGN(const auto ids, read_items(tokens, n_tokens, "trigger_tokens"));
  triggers->tokens.assign(ids.begin(), ids.end());
  if (triggers->is_empty()) return fail(ErrorCode::invalid_argument, "triggers: a lazy grammar needs one");
  return triggers;
}

}  // namespace
}  // namespace tessera::llama

using namespace tessera;
using namespace tessera::llama;

llama_sampler* tessera_llama_sampler_init_grammar(const llama_vocab* vocab, const char* grammar_str,
                                                  const char* grammar_root) {
  return guarded<llama_sampler*>("llama_sampler_init_grammar", nullptr,
                                 [&] { return make_grammar(vocab, grammar_str, grammar_root, nullptr); });
}

llama_sampler* tessera_llama_sampler_init_grammar_lazy(const llama_vocab* vocab, const char* grammar_str,
                                                       const char* grammar_root, const char** trigger_words,
                                                       size_t num_trigger_words, const llama_token* trigger_tokens,
                                                       size_t num_trigger_tokens) {
  return guarded<llama_sampler*>("llama_sampler_init_grammar_lazy", nullptr, [&]() -> Result<llama_sampler*> {
    TESSERA_ASSIGN(auto triggers, read_triggers(TriggerPattern::from_word, trigger_words, num_trigger_words,
                                                trigger_tokens, num_trigger_tokens));
    return make_grammar(vocab, grammar_str, grammar_root, std::move(triggers));
  });
}

llama_sampler* tessera_llama_sampler_init_grammar_lazy_patterns(const llama_vocab* vocab, const char* grammar_str,
                                                                const char* grammar_root, const char** trigger_patterns,
                                                                size_t num_trigger_patterns,
                                                                const llama_token* trigger_tokens,
                                                                size_t num_trigger_tokens) {
  return guarded<llama_sampler*>("llama_sampler_init_grammar_lazy_patterns", nullptr, [&]() -> Result<llama_sampler*> {
    TESSERA_ASSIGN(auto triggers, read_triggers(TriggerPattern::from_regex, trigger_patterns, num_trigger_patterns,
                                                trigger_tokens, num_trigger_tokens));
    return make_grammar(vocab, grammar_str, grammar_root, std::move(triggers));
  });
}
