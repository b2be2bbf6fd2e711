#include "tessera/engine/diffusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tessera/base/index.h"
#include "tessera/gguf/keys.h"

namespace tessera {

namespace {

// With guidance there are two texts, of which one has a masked prompt.
int32_t n_texts(const DiffusionOptions& options) { return options.cfg_scale > 0 ? 2 : 1; }

int64_t most_masked(std::span<const RevealStep> steps) {
  int64_t most = 0;
  for (const RevealStep& step : steps) most = std::max(most, step.positions.size());
  return most;
}

}  // namespace

Result<DiffusionFacts> diffusion_facts(const Engine& engine) {
  const ModelInfo& info = engine.model().info();
  if (!generates_by_diffusion(info))
    return fail(ErrorCode::unsupported, "{}: not a diffusion language model", info.architecture);
  const auto mask = engine.vocab().special(text::SpecialToken::mask);
  if (!mask)
    return fail(ErrorCode::not_found, "{}: no mask token (key '{}'), which generation by diffusion needs",
                engine.files().name(), keys::kMaskId);
  if (*mask < 0 || *mask >= info.n_vocab)
    return fail(ErrorCode::mismatch, "{}: key '{}': token {}, the model has {}", engine.files().name(), keys::kMaskId,
                *mask, info.n_vocab);
  TESSERA_ASSIGN(const bool shifts, engine.files().metadata().get_or<bool>(keys::kShiftLogits, true));
  return DiffusionFacts{.mask_token = *mask, .shifts_logits = shifts};
}

Result<SessionOptions> diffusion_session(const Engine& engine, const DiffusionOptions& options, int64_t n_prompt,
                                         const SessionOptions& given) {
  const int64_t n_ctx = given.n_ctx > 0 ? given.n_ctx : engine.model().info().n_ctx_train;
  const int64_t n_tokens = n_prompt + options.n_predict;
  if (n_tokens > n_ctx)
    return fail(ErrorCode::limit,
                "the prompt has {} tokens, {} are to be generated, the context holds {} (option n_ctx sets it)",
                n_prompt, options.n_predict, n_ctx);
  if (n_tokens > kMaxUbatch)
    return fail(ErrorCode::limit, "a text of {} tokens: this model computes a text at once, and at most {} tokens",
                n_tokens, kMaxUbatch);
  // The text is bounded now, and so are its steps.
  TESSERA_ASSIGN(const auto steps, plan_reveals(options));
  SessionOptions session = given;
  session.embeddings = false;
  session.part = SessionPart::model;
  session.n_checkpoints = session.n_cache_marks = 0;
  session.n_cache_tokens = 0;
  session.n_sequences = n_texts(options);
  session.n_ubatch = std::max<int64_t>(n_tokens, 1);
  session.n_ctx = session.n_ubatch * n_texts(options);
  session.n_outputs = std::max<int64_t>(most_masked(steps), 1) * n_texts(options);
  return session;
}

Result<std::unique_ptr<DiffusionGenerator>> DiffusionGenerator::create(Session& session,
                                                                       const DiffusionOptions& options,
                                                                       std::span<const int32_t> prompt) {
  TESSERA_ASSIGN(const DiffusionFacts facts, diffusion_facts(session.engine()));
  TESSERA_ASSIGN(auto steps, plan_reveals(options));
  if (options.sampling.seed < 0)
    return fail(ErrorCode::invalid_argument, "seed: got -1 (random), want the number that the caller drew");
  const int64_t n_vocab = session.engine().model().info().n_vocab;
  for (const int32_t token : prompt)
    if (token < 0 || token >= n_vocab)
      return fail(ErrorCode::invalid_argument, "token {} in the prompt, want 0 to {}", token, n_vocab - 1);
  std::unique_ptr<DiffusionGenerator> generator(new DiffusionGenerator(session, options, facts));
  generator->steps_ = std::move(steps);
  generator->n_prompt_ = prompt.size();
  generator->text_.assign(prompt.begin(), prompt.end());
  generator->text_.resize(prompt.size() + to_size(options.n_predict), facts.mask_token);
  if (options.cfg_scale > 0) generator->guided_.resize(to_size(n_vocab));
  TESSERA_TRY(generator->require_room());
  return generator;
}

Result<> DiffusionGenerator::require_room() const {
  const SessionOptions& has = session_.options();
  const auto n_tokens = std::ssize(text_);
  const int64_t n_rows = most_masked(steps_) * n_texts(options_);
  if (!has.embeddings && has.n_ubatch >= n_tokens && has.n_ctx >= n_tokens * n_texts(options_) &&
      has.n_sequences >= n_texts(options_) && has.n_outputs >= n_rows)
    return {};
  return fail(ErrorCode::invalid_argument,
              "a text of {} tokens with {} rows of logits in {} sequences: the session has a micro-batch of {}, a "
              "context of {}, {} rows and {} sequences",
              n_tokens, n_rows, n_texts(options_), has.n_ubatch, has.n_ctx, has.n_outputs, has.n_sequences);
}

Result<> DiffusionGenerator::step(const CancelToken* cancel) {
  if (is_finished()) return {};
  const RevealStep& step = steps_[n_done_];
  const std::vector<size_t> masks = masks_of(step);
  if (!masks.empty()) {
    for (int32_t sequence = 0; sequence < n_texts(options_); ++sequence)
      TESSERA_TRY(session_.remove(sequence, 0, std::numeric_limits<int32_t>::max()));
    TESSERA_TRY(session_.decode(batch_for(masks), cancel));
    TESSERA_TRY(reveal(step, masks, cancel));
  }
  ++n_done_;
  return {};
}

// Positions of the whole text, ascending.
std::vector<size_t> DiffusionGenerator::masks_of(const RevealStep& step) const {
  std::vector<size_t> masks;
  for (int64_t i = step.positions.begin; i < step.positions.end; ++i)
    if (const size_t position = n_prompt_ + to_size(i); text_[position] == facts_.mask_token) masks.push_back(position);
  return masks;
}

Batch DiffusionGenerator::batch_for(std::span<const size_t> masks) const {
  std::vector<bool> is_wanted(text_.size());
  for (const size_t position : masks) is_wanted[row_of(position)] = true;
  Batch batch;
  for (int32_t sequence = 0; sequence < n_texts(options_); ++sequence)
    for (size_t i = 0; i < text_.size(); ++i)
      batch.add({.token = sequence == 1 && i < n_prompt_ ? facts_.mask_token : text_[i],
                 .position = static_cast<int32_t>(i),
                 .sequence = sequence,
                 .wants_logits = is_wanted[i]});
  return batch;
}

// Shifted logits of the positions 0 and 1 are the same row.
std::span<const float> DiffusionGenerator::logits_of(std::span<const size_t> masks, size_t i) {
  const bool shares_row = masks.size() > 1 && row_of(masks[0]) == row_of(masks[1]);
  const int64_t row = static_cast<int64_t>(i) - (shares_row && i > 0 ? 1 : 0);
  const std::span<const float> logits = session_.logits(row);
  if (guided_.empty()) return logits;
  guide(logits, session_.logits(session_.n_outputs() / 2 + row), static_cast<double>(options_.cfg_scale), guided_);
  return guided_;
}

Result<> DiffusionGenerator::reveal(const RevealStep& step, std::span<const size_t> masks, const CancelToken* cancel) {
  sample::SeededRng rng = rng_;  // an error leaves the random numbers as they were
  const bool is_origin = options_.algorithm == DiffusionAlgorithm::origin;
  const double share = static_cast<double>(step.n_reveal) / static_cast<double>(step.n_masked);
  std::vector<size_t> positions;
  std::vector<int32_t> tokens;
  std::vector<double> confidence;
  for (size_t i = 0; i < masks.size(); ++i) {
    // The last step of a block has the share 1, which no random number reaches.
    if (is_origin && rng.next_double() >= share) continue;
    if (cancel != nullptr && cancel->cancelled()) return fail(ErrorCode::cancelled, "cancelled");
    auto choice = filler_.choose(logits_of(masks, i), rng);
    if (!choice) return forward_error(choice, fmt::format("position {}", masks[i]));
    positions.push_back(masks[i]);
    tokens.push_back(choice->token);
    confidence.push_back(choice->confidence);
  }
  const int64_t n = is_origin ? std::ssize(positions) : step.n_reveal;
  for (const size_t i : choose_masks(confidence, n, static_cast<double>(options_.alg_temp), rng))
    text_[positions[i]] = tokens[i];
  rng_ = rng;
  return {};
}

}  // namespace tessera
