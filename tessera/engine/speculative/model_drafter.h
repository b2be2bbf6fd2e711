// A drafter that is a smaller model with the same tokens: each guess is its most probable next token.
#pragma once

#include <memory>
#include <vector>

#include "tessera/engine/session.h"
#include "tessera/engine/speculative/drafter.h"

namespace tessera {

/// Refuses a draft model whose tokens are not those of the model: both have the same text for each id, and one may have
/// more ids. Errors: mismatch, with the first difference; unsupported (a model without logits or with an encoder).
Result<> require_draft_model(const Engine& draft, const Engine& model);

class ModelDrafter final : public Drafter {
 public:
  /// Uses a sequence of a session of the draft model, and its share of the context; the session must outlive this.
  /// Guesses are ids below n_vocab. The session needs a checkpoint per sequence if it is recurrent.
  ModelDrafter(Session& session, int32_t sequence, int64_t n_vocab)
      : session_(session),
        sequence_(sequence),
        n_ctx_(session.n_ctx() / session.options().n_sequences),
        n_vocab_(n_vocab) {}

  std::string_view name() const override { return "draft"; }
  double prior(int32_t confidence) const override { return (confidence + 0.5) / kConfidences; }
  bool takes_time() const override { return true; }
  double ms_per_token() const override { return ms_per_token_; }
  void begin(std::span<const int32_t> text) override {
    text_.assign(text.begin(), text.end());
    begin_ = 0;
  }
  void append(int32_t token) override { text_.push_back(token); }
  Result<> draft(const DraftRequest& request, FunctionRef<bool(const DraftToken&)> add,
                 const CancelToken* cancel) override;

 private:
  Result<bool> read_text(int64_t n_most, const CancelToken* cancel);
  Result<> decode(std::span<const int32_t> tokens, const CancelToken* cancel);
  DraftToken best() const;

  Session& session_;
  int32_t sequence_;
  int64_t n_ctx_, n_vocab_;
  std::vector<int32_t> text_;
  size_t begin_ = 0;             // of the part of the text that the session can hold
  std::vector<int32_t> stored_;  // tokens of the sequence
  double ms_per_token_ = 0;
};

}  // namespace tessera
