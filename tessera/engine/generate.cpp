#include "tessera/engine/generate.h"

#include <algorithm>
#include <chrono>

#include "tessera/base/index.h"
#include "tessera/cache/kv_group.h"

namespace tessera {

namespace {

class EngineVocab final : public sample::VocabView {
 public:
  explicit EngineVocab(std::shared_ptr<const Engine> engine) : engine_(std::move(engine)) {}
  int32_t n_tokens() const override { return static_cast<int32_t>(engine_->model().info().n_vocab); }
  void append_piece(int32_t id, std::string& out) const override {
    if (engine_->vocab().has_text() && engine_->vocab().contains(id)) engine_->tokenizer().append_piece(id, out);
  }

 private:
  std::shared_ptr<const Engine> engine_;
};

}  // namespace

std::shared_ptr<const sample::VocabView> sampling_vocab(std::shared_ptr<const Engine> engine) {
  return std::make_shared<EngineVocab>(std::move(engine));
}

Result<> Generator::start(std::span<const int32_t> prompt, const CancelToken* cancel, int64_t n_stored,
                          const PromptProgress& progress) {
  if (prompt.empty()) return fail(ErrorCode::invalid_argument, "the prompt has no tokens");
  const ModelInfo& info = session_.engine().model().info();
  if (!info.is_causal)
    return fail(ErrorCode::unsupported,
                "{}: this model computes a whole text at once and cannot continue one; `tessera run` generates with it",
                info.architecture);
  const auto n_prompt = static_cast<int64_t>(prompt.size());
  // The last token is always decoded: its logits choose the first new token.
  if (n_stored < 0 || n_stored >= n_prompt || (n_stored > 0 && session_.has_encoder()))
    return fail(ErrorCode::invalid_argument, "{} tokens of a prompt of {} cannot be stored already", n_stored,
                n_prompt);
  position_ = static_cast<int32_t>(n_stored);
  if (n_prompt > session_.n_ctx())
    return fail(ErrorCode::limit, "the prompt has {} tokens, the context holds {} (option n_ctx sets it)", n_prompt,
                session_.n_ctx());
  if (options_.context_shift) TESSERA_TRY(session_.require_shiftable());
  if (options_.context_shift && session_.is_recurrent())
    return fail(ErrorCode::unsupported,
                "{}: the context cannot be shifted: recurrent layers cannot forget single tokens", info.architecture);
  if (options_.speculator != nullptr) options_.speculator->begin(prompt);
  if (session_.has_encoder()) {
    TESSERA_TRY(session_.encode(sequence_, prompt, cancel));
    prompt = std::span(&info.start_token, 1);
  }
  return read(prompt, progress, cancel);
}

Result<> Generator::read(std::span<const int32_t> prompt, const PromptProgress& progress, const CancelToken* cancel) {
  const auto n_prompt = static_cast<int64_t>(prompt.size());
  n_keep_ = options_.n_keep < 0 ? n_prompt : std::min(options_.n_keep, n_prompt);
  for (const int32_t token : prompt) TESSERA_TRY(chain_.accept_prompt(token));
  const int64_t n_batch = std::max<int64_t>(options_.n_batch, 1);
  while (position_ < n_prompt) {
    const auto part = prompt.subspan(to_size(position_), to_size(std::min(n_batch, n_prompt - position_)));
    TESSERA_TRY(session_.decode(Batch::prompt(part, position_, sequence_), cancel));
    position_ += static_cast<int32_t>(part.size());
    if (progress) progress(position_, n_prompt);
  }
  return {};
}

Result<int32_t> Generator::next(const CancelToken* cancel) {
  if (stop_ != StopReason::none) return -1;
  if (options_.n_predict >= 0 && n_generated_ >= options_.n_predict) {
    stop_ = StopReason::n_predict;
    return -1;
  }
  int32_t token = -1;
  if (forced_.empty()) {
    TESSERA_ASSIGN(token, choose(cancel));
    if (token < 0) return -1;
  } else {
    token = forced_.back();
    forced_.pop_back();
    TESSERA_TRY(chain_.accept(token));
  }
  pending_.push_back(token);
  ++n_generated_;
  if (options_.speculator != nullptr) options_.speculator->append(token);
  return token;
}

// Samples a token. The tokens before it are decoded only now that another one is wanted.
Result<int32_t> Generator::choose(const CancelToken* cancel) {
  sample::TokenMask* mask = chain_.mask();
  if (mask != nullptr && mask->is_finished()) {
    stop_ = StopReason::end_of_text;
    return -1;
  }
  take_right_guesses();
  const auto n_pending = static_cast<int64_t>(pending_.size());
  if (n_pending > 0 && position_ + n_pending > session_.n_ctx() && !options_.context_shift) {
    stop_ = StopReason::context_full;
    return -1;
  }
  if (mask != nullptr && n_pending > 0) mask->prepare();
  TESSERA_TRY(decode_pending(cancel));
  TESSERA_ASSIGN(const int32_t token, chain_.sample(logits()));
  TESSERA_TRY(chain_.accept(token));
  if (!options_.ignore_end && session_.engine().vocab().is_eog(token)) {
    stop_ = StopReason::end_of_text;
    return -1;
  }
  if (mask != nullptr && options_.forces_text) {
    forced_ = mask->forced();
    std::ranges::reverse(forced_);
  }
  return token;
}

// Returned tokens that were guessed are computed already, and the logits after them too.
void Generator::take_right_guesses() {
  size_t n = 0;
  for (; n < pending_.size() && !guesses_.empty() && guesses_.back() == pending_[n]; ++n) guesses_.pop_back();
  if (n == 0) return;
  if (session_.is_recurrent())
    since_checkpoint_.insert(since_checkpoint_.end(), pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(n));
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(n));
  position_ += static_cast<int32_t>(n);
  row_ += static_cast<int64_t>(n);
}

// A recurrent state goes back to the checkpoint before the step. The next step computes the right guesses again.
Result<> Generator::remove_guesses() {
  if (options_.speculator == nullptr) return {};
  take_right_guesses();
  if (!guesses_.empty()) {
    const auto end = position_ + static_cast<int32_t>(guesses_.size());
    const auto begin = position_ - static_cast<int32_t>(since_checkpoint_.size());
    TESSERA_TRY(session_.remove(sequence_, begin, end));
    pending_.insert(pending_.begin(), since_checkpoint_.begin(), since_checkpoint_.end());
    position_ = begin;
    guesses_.clear();
  }
  since_checkpoint_.clear();
  return session_.is_recurrent() ? session_.drop_checkpoints(sequence_) : Result<>{};
}

Result<> Generator::decode_pending(const CancelToken* cancel) {
  if (pending_.empty()) return {};
  TESSERA_TRY(remove_guesses());
  const auto n_batch = std::max<int64_t>(options_.n_batch, 1);
  while (!pending_.empty()) {
    TESSERA_TRY(make_room());
    const auto n_most = to_size(std::min(n_batch, session_.n_ctx() - position_));
    const std::vector<int32_t> part(pending_.begin(),
                                    pending_.begin() + static_cast<ptrdiff_t>(std::min(n_most, pending_.size())));
    if (part.size() == pending_.size()) {
      TESSERA_TRY(decode_with_guesses(part, cancel));
    } else {
      TESSERA_TRY(session_.decode(Batch::prompt(part, position_, sequence_), cancel));
    }
    position_ += static_cast<int32_t>(part.size());
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(part.size()));
  }
  return {};
}

// The guesses of the tokens after `part`, which fit into the context, the session's rows and its rollback.
Result<std::span<const int32_t>> Generator::guess(int64_t n_part, const CancelToken* cancel) {
  const int64_t n_places = session_.n_ctx() - position_ - n_part;
  int64_t n_most = std::min({n_places, session_.options().n_outputs - 1, kRollbackTokens - 1});
  if (options_.n_predict >= 0) n_most = std::min(n_most, options_.n_predict - n_generated_ - 1);
  const bool may_go_back =
      !session_.is_recurrent() || (session_.options().n_checkpoints > 0 && n_part <= kMostRepeated);
  if (options_.speculator == nullptr || n_most < 1 || !may_go_back) return std::span<const int32_t>();
  const StepTimes& times = options_.speculator->times();
  const auto ms_with = [&](int64_t n) { return times.ms(n_part + n); };
  const auto last = position_ + static_cast<int32_t>(n_part) - 1;
  return options_.speculator->draft({.n_most = n_most, .position = last, .ms_with = ms_with}, cancel);
}

Result<> Generator::decode_with_guesses(std::span<const int32_t> part, const CancelToken* cancel) {
  const auto n_part = static_cast<int64_t>(part.size());
  TESSERA_ASSIGN(const auto guesses, guess(n_part, cancel));
  Batch batch = Batch::prompt(part, position_, sequence_);
  for (int32_t position = position_ + static_cast<int32_t>(n_part); const int32_t token : guesses)
    batch.add({.token = token, .position = position++, .sequence = sequence_, .wants_logits = true});
  if (!guesses.empty()) TESSERA_TRY(session_.checkpoint(sequence_));
  const auto begin = std::chrono::steady_clock::now();
  TESSERA_TRY(session_.decode(batch, cancel));
  row_ = 0;
  if (options_.speculator == nullptr) return {};
  StepTimes& times = options_.speculator->times();
  times.learn(batch.size(),
              std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  if (options_.speculator->was_shortened()) times.note_narrow_step();
  guesses_.assign(guesses.rbegin(), guesses.rend());
  if (session_.is_recurrent()) since_checkpoint_.assign(part.begin(), part.end());
  return {};
}

// A full context forgets the first half of the tokens after the kept ones, and the rest moves down. Layers with a
// window may have forgotten kept tokens. Then enough later tokens must stay that no window reaches the kept ones.
Result<> Generator::make_room() {
  if (position_ < session_.n_ctx()) return {};
  const auto keep = static_cast<int32_t>(std::clamp<int64_t>(session_.n_ctx() - 2, 0, n_keep_));
  int64_t most = position_ - keep;
  if (keep > 0 && *session_.lowest_rollback(sequence_) > 0) {
    int64_t window = 0;
    for (const KvGroup& group : session_.cache().groups()) window = std::max(window, group.window());
    most -= window - 1;
    if (most < 1)
      return fail(ErrorCode::limit,
                  "the context of {} tokens cannot be shifted with {} kept: layers with a window of {} hold not all of "
                  "those (option n_keep, option n_ctx)",
                  session_.n_ctx(), keep, window);
  }
  const auto discard = static_cast<int32_t>(std::clamp<int64_t>((position_ - keep) / 2, 1, most));
  TESSERA_TRY(session_.remove(sequence_, keep, keep + discard));
  TESSERA_TRY(session_.shift(sequence_, keep + discard, position_, -discard));
  position_ -= discard;
  return {};
}

}  // namespace tessera
