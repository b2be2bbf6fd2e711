// Text generation with diffusion language models: all tokens of a text of fixed length begin as masks, and each step
// computes the whole text and replaces some masks by tokens. docs/models.md explains the algorithms.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/engine/diffusion_choice.h"
#include "tessera/engine/diffusion_plan.h"
#include "tessera/engine/session.h"

namespace tessera {

/// Whether a model with logits sees a whole text at once. Such a model generates by diffusion, if at all.
inline bool generates_by_diffusion(const ModelInfo& info) {
  return info.has_logits && !info.is_causal && !info.has_encoder();
}

/// Facts about a diffusion model that its file states.
struct DiffusionFacts {
  int32_t mask_token = 0;
  bool shifts_logits = true;  // the logits of a position are those of the row before it
};

/// Errors: unsupported (another kind of model); not_found (no mask token); mismatch (a mask token that the model does
/// not know, a key of another type).
Result<DiffusionFacts> diffusion_facts(const Engine& engine);

/// The session for a text of n_prompt tokens and those of `options`. A step needs the logits of the masks of a block
/// only, and the plan of the session has room for these rows. Of `given`, n_ctx bounds the text (0: the context that
/// the model was trained with), and types, precisions, threads and adapters stay. Errors: limit (the text does not
/// fit); those of plan_reveals().
Result<SessionOptions> diffusion_session(const Engine& engine, const DiffusionOptions& options, int64_t n_prompt,
                                         const SessionOptions& given);

class DiffusionGenerator {
 public:
  /// Begins a text in sequence 0 of a session, and in sequence 1 as well if options.cfg_scale is above 0. The session
  /// must outlive this, and has at least what diffusion_session() asks for. An empty prompt is a text of its own.
  /// Errors: those of diffusion_facts() and plan_reveals(); invalid_argument (a seed of -1, a prompt with a token out
  /// of range, a session that is too small).
  static Result<std::unique_ptr<DiffusionGenerator>> create(Session& session, const DiffusionOptions& options,
                                                            std::span<const int32_t> prompt);

  bool is_finished() const { return n_done_ == steps_.size(); }
  int64_t n_steps() const { return static_cast<int64_t>(steps_.size()); }
  int64_t n_steps_done() const { return static_cast<int64_t>(n_done_); }
  int32_t mask_token() const { return facts_.mask_token; }

  /// Computes the text once and replaces some masks. Does nothing once the text is finished. Errors: those of
  /// Session::decode(); invalid_argument (logits of which no token can be chosen); cancelled. After an error the text
  /// is as it was, and the step can be repeated.
  Result<> step(const CancelToken* cancel);

  /// The tokens after the prompt. Those that are still masked are mask_token().
  std::span<const int32_t> tokens() const { return std::span(text_).subspan(n_prompt_); }

 private:
  DiffusionGenerator(Session& session, const DiffusionOptions& options, const DiffusionFacts& facts)
      : session_(session),
        options_(options),
        facts_(facts),
        filler_(options, facts.mask_token),
        rng_(static_cast<uint64_t>(options.sampling.seed)) {}
  Result<> require_room() const;
  std::vector<size_t> masks_of(const RevealStep& step) const;
  size_t row_of(size_t position) const { return facts_.shifts_logits && position > 0 ? position - 1 : position; }
  Batch batch_for(std::span<const size_t> masks) const;
  Result<> reveal(const RevealStep& step, std::span<const size_t> masks, const CancelToken* cancel);
  std::span<const float> logits_of(std::span<const size_t> masks, size_t i);

  Session& session_;
  DiffusionOptions options_;
  DiffusionFacts facts_;
  MaskFiller filler_;
  sample::SeededRng rng_;
  size_t n_prompt_ = 0;
  std::vector<int32_t> text_;  // the prompt and the tokens after it
  std::vector<RevealStep> steps_;
  size_t n_done_ = 0;
  std::vector<float> guided_;  // reused: logits of a position with guidance
};

}  // namespace tessera
