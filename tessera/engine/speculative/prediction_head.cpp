#include "tessera/engine/speculative/prediction_head.h"

#include <algorithm>
#include <chrono>

#include "tessera/base/index.h"
#include "tessera/engine/speculative/best_guess.h"
#include "tessera/engine/speculative/speculation.h"

namespace tessera {

namespace {

// The options of the session of a block.
SessionOptions head_session(const Engine& engine, const SessionOptions& given, int64_t most_unread) {
  const int64_t n_ctx = given.n_ctx > 0 ? given.n_ctx : engine.model().info().n_ctx_train;
  return {.n_ctx = std::min(n_ctx + given.n_sequences * SpeculationOptions::kMostGuesses, kMaxContext),
          .n_ubatch = most_unread + 1,
          .n_sequences = given.n_sequences,
          .part = SessionPart::head,
          .type_k = given.type_k,
          .type_v = given.type_v,
          .activations = given.activations,
          .attention = given.attention,
          .threads = given.threads};
}

}  // namespace

Result<MemoryReport> PredictionHead::plan(const Engine& engine, const SessionOptions& model_session) {
  const Engine* follower = model_session.follower.get();
  SessionOptions options = head_session(engine, model_session, kMostUnread);
  MemoryReport report;
  const int64_t n_rows = options.n_sequences * kHiddenRows + std::min(options.n_ubatch, options.n_ctx);
  const int64_t width = (follower == nullptr ? engine : *follower).model().info().hidden_width();
  report.parts.push_back({MemoryPart::Kind::output, "host", "host", to_size(n_rows * width) * sizeof(float)});
  if (follower != nullptr) {
    SessionOptions followed = model_session;
    // The choice would read weights, and memory does not depend on it.
    if (followed.attention == AttentionPrecision::automatic) followed.attention = AttentionPrecision::float32;
    TESSERA_ASSIGN(const auto beside, Session::plan_session(engine, followed));
    TESSERA_ASSIGN(const MemoryReport session, Session::plan(*follower, options, beside.get()));
    report.add(session.parts);
    return report;
  }
  for (; options.head_block < engine.model().n_head_blocks(); ++options.head_block) {
    TESSERA_ASSIGN(const MemoryReport session, Session::plan(engine, options));
    report.add_session(session);
  }
  return report;
}

MemoryReport PredictionHead::allocated_memory() const {
  size_t n = rows_.capacity();
  for (const Follower& follower : followers_) n += follower.hidden.size();
  MemoryReport report;
  report.parts.push_back({MemoryPart::Kind::output, "host", "host", n * sizeof(float)});
  const bool has_file = followed_.options().follower != nullptr;
  for (const auto& block : blocks_) {
    if (has_file) report.add(block->allocated_memory().parts);
    if (!has_file) report.add_session(block->allocated_memory());
  }
  return report;
}

Result<std::unique_ptr<PredictionHead>> PredictionHead::create(std::shared_ptr<const Engine> engine, Session& session) {
  const std::shared_ptr<const Engine>& follower = session.options().follower;
  SessionOptions options = head_session(*engine, session.options(), kMostUnread);
  std::vector<std::unique_ptr<Session>> blocks;
  const size_t n_blocks = follower != nullptr ? 1 : engine->model().n_head_blocks();
  for (; options.head_block < n_blocks; ++options.head_block) {
    TESSERA_ASSIGN(auto block, Session::create(follower != nullptr ? follower : engine, options, &session));
    blocks.push_back(std::move(block));
  }
  if (blocks.empty())
    return fail(ErrorCode::invalid_argument, "{}: no prediction head was loaded", engine->files().name());
  return std::unique_ptr<PredictionHead>(new PredictionHead(std::move(blocks), session));
}

PredictionHead::PredictionHead(std::vector<std::unique_ptr<Session>> blocks, Session& followed)
    : blocks_(std::move(blocks)),
      followed_(followed),
      n_hidden_(followed.hidden_width()),
      n_vocab_(followed.engine().model().info().n_vocab),
      followers_(to_size(options().n_sequences)) {
  if (const auto& follower = followed.options().follower; follower != nullptr) {
    const FollowerInfo& info = *follower->model().info().follower;
    borrows_ = info.borrows_cache;
    shift_ = info.layers.empty() ? 0 : 1;
    tokens_ = info.tokens;
  }
  for (Follower& follower : followers_) follower.hidden.resize(to_size(kHiddenRows * n_hidden_));
  rows_.reserve(to_size(options().n_ubatch * n_hidden_));
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
  follower.n_read = begin + shift_;
  follower.tokens.clear();
  return remove(sequence, 0, static_cast<int32_t>(options().n_ctx));
}

// Removes tokens from the caches of all blocks.
Result<> PredictionHead::remove(int32_t sequence, int32_t begin, int32_t end) {
  for (const auto& block : blocks_) TESSERA_TRY(block->remove(sequence, begin, end));
  return {};
}

Result<> PredictionHead::cut(int32_t sequence, int32_t end) {
  Follower& follower = followers_[to_size(sequence)];
  if (end < follower.n_read) {
    if (!borrows_)
      TESSERA_TRY(remove(sequence, std::max(place_of(follower, end), 0), place_of(follower, follower.n_read)));
    follower.n_read = std::max(end, follower.begin + shift_);
  }
  if (end < follower.end()) follower.tokens.resize(to_size(end - follower.begin));
  follower.first_hidden = std::min(follower.first_hidden, end);  // those before are lost
  return {};
}

void PredictionHead::begin(int32_t sequence, std::span<const int32_t> text) {
  Follower& follower = followers_[to_size(sequence)];
  const auto rest = text.subspan(std::min(to_size(follower.begin), text.size()));
  const auto same = std::ranges::mismatch(follower.tokens, rest).in1 - follower.tokens.begin();
  std::ignore = cut(sequence, follower.begin + static_cast<int32_t>(same));
}

std::span<float> PredictionHead::hidden_row(Follower& follower, int32_t position) const {
  const auto width = to_size(n_hidden_);
  return std::span(follower.hidden).subspan(to_size(position % kHiddenRows) * width, width);
}

bool PredictionHead::has_hidden(const Follower& follower, int32_t position) {
  return position >= follower.first_hidden && position < follower.end();
}

// A head that cannot read on, such as one whose cache is full, forgets other texts, and in the end its own.
void PredictionHead::follow(std::span<const BatchToken> tokens, std::span<const float> hidden) {
  if (n_users_ == 0) return;
  const auto width = to_size(n_hidden_);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t sequence = tokens[i].sequence;
    append(tokens[i], hidden.subspan(i * width, width));
    const Follower& follower = followers_[to_size(sequence)];
    if (follower.end() - follower.n_read < kMostUnread || read(sequence)) continue;
    for (int32_t other = 0; other < std::ssize(followers_); ++other)
      if (other != sequence) std::ignore = forget(other, 0);
    if (!read(sequence)) std::ignore = forget(sequence, follower.end());
  }
}

// A token far before the end of the text, or after it, is of another text.
void PredictionHead::append(const BatchToken& token, std::span<const float> hidden) {
  Follower& follower = followers_[to_size(token.sequence)];
  const int32_t position = token.position;
  if (position > follower.end() || position < follower.begin || position + kRollbackTokens < follower.end()) {
    std::ignore = forget(token.sequence, position);
  } else {
    std::ignore = cut(token.sequence, position);
  }
  follower.tokens.push_back(token.token);
  std::ranges::copy(hidden, hidden_row(follower, position).begin());
  follower.first_hidden = std::max(follower.first_hidden, position + 1 - static_cast<int32_t>(kHiddenRows));
}

// Adds a token to batch_ and rows_, with the hidden state of the token before it: zeros where that is unknown.
void PredictionHead::add_row(int32_t sequence, int32_t token, int32_t position, bool wants_logits) {
  Follower& follower = followers_[to_size(sequence)];
  if (has_hidden(follower, position - 1)) {
    const auto before = hidden_row(follower, position - 1);
    rows_.insert(rows_.end(), before.begin(), before.end());
  } else {
    rows_.insert(rows_.end(), to_size(n_hidden_), 0.0f);
  }
  batch_.add(
      {.token = token, .position = place_of(follower, position), .sequence = sequence, .wants_logits = wants_logits});
}

void PredictionHead::add_unread(int32_t sequence) {
  const Follower& follower = followers_[to_size(sequence)];
  batch_.clear();
  rows_.clear();
  if (borrows_) return;
  for (int32_t position = follower.n_read; position < follower.end(); ++position)
    add_row(sequence, follower.tokens[to_size(position - follower.begin)], position, false);
}

Result<> PredictionHead::read(int32_t sequence) {
  add_unread(sequence);
  Follower& follower = followers_[to_size(sequence)];
  if (batch_.size() > 0)
    for (const auto& block : blocks_) TESSERA_TRY(block->decode_after(batch_, rows_));
  follower.n_read = std::max(follower.n_read, follower.end());
  return {};
}

// Adds a guess to batch_ and rows_, with the hidden state that `block` gave with it. A single block has the tokens
// before it in its cache. Blocks that take turns compute them anew.
void PredictionHead::add_guess(const Session& block, BatchToken guess) {
  if (blocks_.size() == 1) {
    rows_.clear();
    batch_.clear();
  }
  std::vector<BatchToken> tokens(batch_.tokens().begin(), batch_.tokens().end());
  batch_.clear();
  for (BatchToken& token : tokens) {
    token.wants_logits = false;
    batch_.add(token);
  }
  batch_.add(guess);
  rows_.insert(rows_.end(), block.hidden().begin(), block.hidden().end());
}

// Guesses from what the blocks have read; a single one reads the rest together with its first guess. The K and V of
// guesses come from the head's own hidden states. Those of the model replace them.
Result<> PredictionHead::draft_from(const BatchToken& last, int64_t n_most, FunctionRef<bool(const DraftToken&)> add,
                                    const CancelToken* cancel) {
  const int32_t sequence = last.sequence;
  Follower& follower = followers_[to_size(sequence)];
  add_unread(sequence);
  add_row(sequence, last.token, last.position, true);
  const bool takes_turns = blocks_.size() > 1;
  if (takes_turns) n_most = std::min<int64_t>(n_most, std::ssize(blocks_));
  const int32_t begin = place_of(follower, last.position);
  Result<> done;
  for (int32_t n = 0; n < n_most; ++n) {
    Session& block = *blocks_[takes_turns ? to_size(n) : 0];
    const auto start = std::chrono::steady_clock::now();
    done = block.decode_after(batch_, rows_, cancel);
    if (!done) break;
    if (n == 0) follower.n_read = last.position;
    const DraftToken guess = guess_of(block.logits(0));
    average_in(ms_per_token_,
               std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    if (borrows_) TESSERA_TRY(remove(sequence, begin, begin + 1));
    if (!add(guess)) break;
    add_guess(block, {.token = guess.token,
                      .position = borrows_ ? begin : begin + n + 1,
                      .sequence = sequence,
                      .wants_logits = true});
  }
  // The place after the last guess has nothing.
  TESSERA_TRY(remove(sequence, begin, static_cast<int32_t>(std::min(begin + n_most, options().n_ctx))));
  return done;
}

// The token with the highest logit, among those of the model.
DraftToken PredictionHead::guess_of(std::span<const float> logits) const {
  if (tokens_.empty()) return best_guess(logits.first(std::min(logits.size(), to_size(n_vocab_))));
  DraftToken guess = best_guess(logits);
  guess.token = tokens_[to_size(guess.token)];
  return guess;
}

Result<> PredictionHead::draft(const BatchToken& last, int64_t n_most, FunctionRef<bool(const DraftToken&)> add,
                               const CancelToken* cancel) {
  if (!has_hidden(followers_[to_size(last.sequence)], last.position - 1)) return {};
  TESSERA_TRY(cut(last.sequence, last.position));
  Result<> done = blocks_.size() > 1 ? read(last.sequence) : Result<>();
  if (done) done = draft_from(last, n_most, add, cancel);
  if (!done && done.error().code() == ErrorCode::limit) return {};  // no room for a guess
  return done;
}

Result<> HeadDrafter::draft(const DraftRequest& request, FunctionRef<bool(const DraftToken&)> add,
                            const CancelToken* cancel) {
  const BatchToken last{.token = last_, .position = request.position, .sequence = sequence_};
  return head_.draft(last, request.n_most, add, cancel);
}

}  // namespace tessera
