// The tokens that a grammar allows, for a sampler chain.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/base/stream.h"
#include "tessera/engine/engine.h"
#include "tessera/sample/token_mask.h"
#include "tessera/text/grammar/matcher.h"

namespace tessera {

/// The vocabulary of a model as grammars see it. Making it takes time in proportion to the vocabulary, so it is made
/// once and shared.
std::shared_ptr<const text::grammar::MaskVocab> mask_vocab(const Engine& engine);

class GrammarMask final : public sample::TokenMask {
 public:
  /// Errors: unsupported (the vocabulary can write no text of the grammar).
  static Result<std::unique_ptr<GrammarMask>> create(std::shared_ptr<const Engine> engine,
                                                     std::shared_ptr<const text::grammar::MaskVocab> vocab,
                                                     std::shared_ptr<const text::grammar::Grammar> grammar);

  Result<Allowed> allowed() override;
  void prepare() override;
  /// Whether allowed() has to search the vocabulary, which may take milliseconds.
  bool needs_search() const { return matcher_.needs_search(); }
  bool is_finished() const override;
  std::vector<int32_t> forced() override;
  Result<> accept(int32_t token) override;
  void reset() override;
  std::unique_ptr<sample::TokenMask> clone() const override;

 private:
  GrammarMask(std::shared_ptr<const Engine> engine, std::shared_ptr<const text::grammar::MaskVocab> vocab,
              text::grammar::Matcher matcher)
      : engine_(std::move(engine)), vocab_(std::move(vocab)), matcher_(std::move(matcher)), row_(0) {}

  std::vector<int32_t> tokens_of(const std::string& text) const;
  bool may_reach_past(size_t n_bytes);

  std::shared_ptr<const Engine> engine_;
  std::shared_ptr<const text::grammar::MaskVocab> vocab_;
  text::grammar::Matcher matcher_;
  std::vector<int32_t> accepted_;
  text::grammar::TokenRow row_;
  std::vector<uint64_t> words_;       // of the row
  std::shared_ptr<Stream> searches_;  // for prepare(), once it is needed
};

}  // namespace tessera
