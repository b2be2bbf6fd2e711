#include "tessera/engine/speculative/model_drafter.h"

#include <algorithm>
#include <chrono>

#include "tessera/base/index.h"
#include "tessera/engine/speculative/best_guess.h"
#include "tessera/text/utf8.h"

namespace tessera {

namespace {

constexpr int64_t kReadTokens = 512;  // per draft(), so that others do not wait long

}  // namespace

Result<> require_draft_model(const Engine& draft, const Engine& model) {
  const ModelInfo& info = draft.model().info();
  if (!info.has_logits || info.has_encoder() || model.model().info().has_encoder())
    return fail(ErrorCode::unsupported, "{}: not a draft model for {}: a draft needs two decoders",
                draft.files().name(), model.files().name());
  const text::Vocab &ours = model.vocab(), &theirs = draft.vocab();
  if (ours.has_text() != theirs.has_text())
    return fail(ErrorCode::mismatch, "{}: not a draft model for {}: only one of them has texts of tokens",
                draft.files().name(), model.files().name());
  const size_t n = ours.has_text() ? std::min(ours.n_tokens(), theirs.n_tokens()) : 0;
  for (int32_t id = 0; to_size(id) < n; ++id)
    if (ours.text(id) != theirs.text(id))
      return fail(ErrorCode::mismatch, "{}: not a draft model for {}: token {} is {} there and {} here",
                  draft.files().name(), model.files().name(), id, text::quote_text(theirs.text(id)),
                  text::quote_text(ours.text(id)));
  return {};
}

// Among the ids of both models.
DraftToken ModelDrafter::best() const {
  const auto logits = session_.logits(0);
  return best_guess(logits.first(std::min(to_size(n_vocab_), logits.size())));
}

Result<> ModelDrafter::decode(std::span<const int32_t> tokens, const CancelToken* cancel) {
  TESSERA_TRY(session_.decode(Batch::prompt(tokens, static_cast<int32_t>(stored_.size()), sequence_), cancel));
  stored_.insert(stored_.end(), tokens.begin(), tokens.end());
  return {};
}

// Reads more of the text; returns whether the sequence is at its end. A text that is longer than the context is read
// from a later token on.
Result<bool> ModelDrafter::read_text(int64_t n_most, const CancelToken* cancel) {
  const auto n_ctx = to_size(n_ctx_);
  if (text_.size() - begin_ + to_size(n_most) > n_ctx) begin_ = text_.size() - std::min(text_.size(), n_ctx / 2);
  const auto wanted = std::span<const int32_t>(text_).subspan(begin_);
  // The last token is always computed: its logits are the first guess.
  auto n_common = to_size(std::ranges::mismatch(stored_, wanted.first(wanted.size() - 1)).in1 - stored_.begin());
  if (n_common < stored_.size()) {
    if (session_.lowest_rollback(sequence_).value_or(0) > static_cast<int32_t>(n_common)) n_common = 0;
    TESSERA_TRY(session_.remove(sequence_, static_cast<int32_t>(n_common), static_cast<int32_t>(stored_.size())));
    stored_.resize(n_common);
  }
  const auto rest = wanted.subspan(stored_.size());
  TESSERA_TRY(decode(rest.first(std::min(rest.size(), to_size(kReadTokens))), cancel));
  return stored_.size() == wanted.size();
}

Result<> ModelDrafter::draft(const DraftRequest& request, FunctionRef<bool(const DraftToken&)> add,
                             const CancelToken* cancel) {
  const int64_t n_most = std::min(request.n_most, n_ctx_ / 2);
  if (text_.empty() || n_most < 1) return {};
  TESSERA_ASSIGN(const bool is_at_end, read_text(n_most, cancel));
  if (!is_at_end) return {};
  const auto n_read = static_cast<int32_t>(stored_.size());
  if (session_.is_recurrent()) {
    TESSERA_TRY(session_.drop_checkpoints(sequence_));  // a draft that failed may have left one
    TESSERA_TRY(session_.checkpoint(sequence_));
  }
  DraftToken guess = best();
  for (int64_t n = 1; add(guess) && n < n_most; ++n) {
    const auto begin = std::chrono::steady_clock::now();
    TESSERA_TRY(decode(std::span(&guess.token, 1), cancel));
    guess = best();
    average_in(ms_per_token_,
               std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  if (!session_.is_recurrent()) return {};
  // A recurrent state goes back at once. Other models keep the guesses that turn out to be right.
  TESSERA_TRY(session_.remove(sequence_, n_read, static_cast<int32_t>(stored_.size())));
  stored_.resize(to_size(n_read));
  return session_.drop_checkpoints(sequence_);
}

}  // namespace tessera
