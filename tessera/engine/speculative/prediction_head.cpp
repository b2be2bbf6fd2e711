#include "tessera/engine/speculative/prediction_head.h"

#include <algorithm>
#include <chrono>

#include "tessera/base/index.h"
#include "tessera/engine/speculative/best_guess.h"
#include "tessera/engine/speculative/speculation.h"

namespace tessera {

namespace {

// The options of the head's session.
SessionOptions head_session(const Engine& engine, const SessionOptions& given) {
  const int64_t n_ctx = given.n_ctx > 0 ? given.n_ctx : engine.model().info().n_ctx_train;
  return {.n_ctx = std::min(n_ctx + given.n_sequences * SpeculationOptions::kMostGuesses, kMaxContext),
          .n_ubatch = given.n_ubatch,
          .n_sequences = given.n_sequences,
          .part = SessionPart::head,
          .type_k = given.type_k,
          .type_v = given.type_v,
          .activations = given.activations,
          .threads = given.threads};
}

}  // namespace

Result<MemoryReport> PredictionHead::plan(const Engine& engine, const SessionOptions& model_session) {
  const SessionOptions options = head_session(engine, model_session);
  MemoryReport report;
  TESSERA_ASSIGN(const MemoryReport session, Session::plan(engine, options));
  report.add_session(session);
  const int64_t n_rows = options.n_sequences * kHiddenRows + std::min(options.n_ubatch, options.n_ctx);
  report.parts.push_back(
      {MemoryPart::Kind::output, "host", "host", to_size(n_rows * engine.model().info().n_embd) * sizeof(float)});
  return report;
}

MemoryReport PredictionHead::allocated_memory() const {
  MemoryReport report;
  report.add_session(session_->allocated_memory());
  size_t n = rows_.capacity();
  for (const Follower& follower : followers_) n += follower.hidden.size();
  report.parts.push_back({MemoryPart::Kind::output, "host", "host", n * sizeof(float)});
  return report;
}

Result<std::unique_ptr<PredictionHead>> PredictionHead::create(std::shared_ptr<const Engine> engine, Session& session) {
  const SessionOptions options = head_session(*engine, session.options());
  TESSERA_ASSIGN(auto own, Session::create(std::move(engine), options));
  return std::unique_ptr<PredictionHead>(new PredictionHead(std::move(own), session));
}

PredictionHead::PredictionHead(std::unique_ptr<Session> session, Session& followed)
    : session_(std::move(session)),
      followed_(followed),
      n_embd_(session_->engine().model().info().n_embd),
      followers_(to_size(session_->options().n_sequences)) {
  for (Follower& follower : followers_) follower.hidden.resize(to_size(kHiddenRows * n_embd_));
  rows_.reserve(to_size(session_->options().n_ubatch * n_embd_));
  followed_.follow_hidden([this](auto tokens, auto hidden) { follow(tokens, hidden); });
}

PredictionHead::~PredictionHead() { followed_.follow_hidden({}); }

// Without users the head may have missed tokens.
void PredictionHead::add_user() {
  if (n_users_++ == 0) forget_all();
}

void PredictionHead::forget_all() {
  for (int32_t sequence = 0; sequence < std::ssize(followers_); ++sequence) std::ignore = forget(sequence, 0);
}

Result<> PredictionHead::forget(int32_t sequence, int32_t begin) {
  Follower& follower = followers_[to_size(sequence)];
  follower.begin = follower.first_hidden = begin;
  follower.tokens.clear();
  return session_->remove(sequence, 0, static_cast<int32_t>(session_->n_ctx()));
}

Result<> PredictionHead::cut(int32_t sequence, int32_t end) {
  Follower& follower = followers_[to_size(sequence)];
  if (end >= follower.end()) return {};
  TESSERA_TRY(session_->remove(sequence, end - follower.begin, follower.end() - follower.begin));
  follower.tokens.resize(to_size(end - follower.begin));
  return {};
}

void PredictionHead::begin(int32_t sequence, std::span<const int32_t> text) {
  Follower& follower = followers_[to_size(sequence)];
  const auto rest = text.subspan(std::min(to_size(follower.begin), text.size()));
  const auto same = std::ranges::mismatch(follower.tokens, rest).in1 - follower.tokens.begin();
  std::ignore = cut(sequence, follower.begin + static_cast<int32_t>(same));
}

std::span<float> PredictionHead::hidden_row(Follower& follower, int32_t position) const {
  const auto width = to_size(n_embd_);
  return std::span(follower.hidden).subspan(to_size(position % kHiddenRows) * width, width);
}

void PredictionHead::keep_hidden(Follower& follower, int32_t position, std::span<const float> hidden) const {
  std::ranges::copy(hidden, hidden_row(follower, position).begin());
  follower.first_hidden = std::max(follower.first_hidden, position + 1 - static_cast<int32_t>(kHiddenRows));
}

const float* PredictionHead::hidden_at(Follower& follower, int32_t position) const {
  const bool is_known = position >= follower.first_hidden && position < follower.end();
  return is_known ? hidden_row(follower, position).data() : nullptr;
}

// The head is behind the model by design: at each position it has the hidden state of the token before. A head that
// cannot follow, such as one whose cache is full, forgets its texts and goes on from there.
void PredictionHead::follow(std::span<const BatchToken> tokens, std::span<const float> hidden) {
  if (n_users_ == 0 || read(tokens, hidden)) return;
  forget_all();
  if (!read(tokens, hidden)) forget_all();
}

Result<> PredictionHead::read(std::span<const BatchToken> tokens, std::span<const float> hidden) {
  const auto width = to_size(n_embd_);
  Batch batch;
  rows_.assign(hidden.size(), 0.0f);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto [token, position, sequence, wants_logits] = tokens[i];
    Follower& follower = followers_[to_size(sequence)];
    if (position > follower.end() || position < follower.begin || position + kRollbackTokens < follower.end()) {
      TESSERA_TRY(forget(sequence, position));
    } else {
      TESSERA_TRY(cut(sequence, position));
    }
    if (const float* before = hidden_at(follower, position - 1))
      std::copy_n(before, width, rows_.begin() + static_cast<ptrdiff_t>(i * width));
    batch.add({.token = token, .position = position - follower.begin, .sequence = sequence, .wants_logits = false});
    follower.tokens.push_back(token);
    keep_hidden(follower, position, hidden.subspan(i * width, width));
  }
  return session_->decode_after(batch, rows_);
}

Result<> PredictionHead::draft(int32_t sequence, const BatchToken& token, int64_t n_most,
                               FunctionRef<bool(const DraftToken&)> add, const CancelToken* cancel) {
  Follower& follower = followers_[to_size(sequence)];
  const float* before = hidden_at(follower, token.position - 1);
  if (before == nullptr) return {};
  rows_.assign(before, before + n_embd_);
  TESSERA_TRY(cut(sequence, token.position));
  const int32_t begin = token.position - follower.begin;
  Result<> done;
  BatchToken next{.token = token.token, .position = begin, .sequence = sequence, .wants_logits = true};
  for (int64_t n = 1; n <= n_most; ++n) {
    const auto start = std::chrono::steady_clock::now();
    Batch batch;
    batch.add(next);
    done = session_->decode_after(batch, rows_, cancel);
    if (!done) break;
    const DraftToken guess = best_guess(session_->logits(0));
    average_in(ms_per_token_,
               std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    if (!add(guess)) break;
    rows_.assign(session_->hidden().begin(), session_->hidden().end());
    next.token = guess.token;
    ++next.position;
  }
  // The K and V of guesses come from the head's own hidden states. Those of the model replace them.
  TESSERA_TRY(session_->remove(sequence, begin, next.position + 1));
  if (!done && done.error().code() == ErrorCode::limit) return {};
  return done;
}

Result<> HeadDrafter::draft(const DraftRequest& request, FunctionRef<bool(const DraftToken&)> add,
                            const CancelToken* cancel) {
  const BatchToken last{.token = last_, .position = request.position, .sequence = sequence_, .wants_logits = true};
  return head_.draft(sequence_, last, request.n_most, add, cancel);
}

}  // namespace tessera
