// A model's prediction head at work: it reads what the model computes, and guesses from there. It has a session of its
// own, whose sequences follow those of the model's session: it reads each token that the model has computed, at the
// same position and with the hidden state of the token before.
//
// A draft model in a file of its own that takes hidden states (FollowerInfo) works in the same way. If it takes the
// inputs of layers, its first pair is the second token with the states of the first, at position 0. If it borrows the
// cache of the model, it reads nothing, and all its guesses have the position of the text's last token.
//
// A head of several blocks has a session for each, and all of them read the text. Block i makes guess i. It computes
// all guesses before that one too, each with the hidden state of the block that made it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tessera/cache/kv_group.h"
#include "tessera/engine/session.h"
#include "tessera/engine/speculative/drafter.h"

namespace tessera {

class PredictionHead {
 public:
  /// Follows a session of the engine with SessionPart::model_with_hidden, which must outlive the result. Errors: those
  /// of Session::create().
  static Result<std::unique_ptr<PredictionHead>> create(std::shared_ptr<const Engine> engine, Session& session);
  ~PredictionHead();
  PredictionHead(const PredictionHead&) = delete;
  PredictionHead& operator=(const PredictionHead&) = delete;

  /// The planned and the allocated bytes beside those of the model's session.
  static Result<MemoryReport> plan(const Engine& engine, const SessionOptions& model_session);
  MemoryReport allocated_memory() const;

  /// The head follows the model only while it has users.
  void add_user();
  void remove_user() { --n_users_; }

  /// Keeps of a sequence what belongs to a text.
  void begin(int32_t sequence, std::span<const int32_t> text);
  /// Guesses up to n_most tokens after the last token of a text, at its position in a sequence of the model. Makes no
  /// guess if the model has not computed the token before it. Errors: those of Session::decode().
  Result<> draft(const BatchToken& last, int64_t n_most, FunctionRef<bool(const DraftToken&)> add,
                 const CancelToken* cancel);
  /// The average time of a guess.
  double ms_per_token() const { return ms_per_token_; }

 private:
  static constexpr int64_t kHiddenRows = kRollbackTokens;  // that are kept per sequence
  // The head reads several tokens at once, which costs hardly more than one: all unread ones before a guess, or as many
  // as this.
  static constexpr int64_t kMostUnread = 32;
  static_assert(kMostUnread < kHiddenRows);

  // The model's tokens from position `begin` on. The head's cache has those before n_read.
  struct Follower {
    int32_t begin = 0, n_read = 0;
    std::vector<int32_t> tokens{};
    std::vector<float> hidden{};  // of the last positions: position p is in row p % kHiddenRows
    int32_t first_hidden = 0;     // the lowest position whose hidden state is known

    int32_t end() const { return begin + static_cast<int32_t>(tokens.size()); }
  };

  PredictionHead(std::vector<std::unique_ptr<Session>> blocks, Session& followed);
  int32_t place_of(const Follower& follower, int32_t position) const {
    return borrows_ ? position : position - follower.begin - shift_;
  }
  void follow(std::span<const BatchToken> tokens, std::span<const float> hidden);
  void append(const BatchToken& token, std::span<const float> hidden);
  void add_row(int32_t sequence, int32_t token, int32_t position, bool wants_logits);
  void add_unread(int32_t sequence);
  Result<> read(int32_t sequence);
  Result<> remove(int32_t sequence, int32_t begin, int32_t end);
  DraftToken guess_of(std::span<const float> logits) const;
  void add_guess(const Session& block, BatchToken guess);
  Result<> draft_from(const BatchToken& last, int64_t n_most, FunctionRef<bool(const DraftToken&)> add,
                      const CancelToken* cancel);
  Result<> cut(int32_t sequence, int32_t end);
  Result<> forget(int32_t sequence, int32_t begin);
  void forget_all();
  std::span<float> hidden_row(Follower& follower, int32_t position) const;
  static bool has_hidden(const Follower& follower, int32_t position);

  const SessionOptions& options() const { return blocks_.front()->options(); }

  std::vector<std::unique_ptr<Session>> blocks_;
  Session& followed_;
  int64_t n_hidden_;                 // elements of a hidden state
  int64_t n_vocab_;                  // of the model
  std::vector<int32_t> tokens_;      // see FollowerInfo::tokens
  bool borrows_ = false;             // see FollowerInfo::borrows_cache
  int32_t shift_ = 0;                // 1: the pair of a token and the state before it has the position of the latter
  std::vector<Follower> followers_;  // by sequence
  int64_t n_users_ = 0;
  Batch batch_;              // reused
  std::vector<float> rows_;  // of batch_, reused
  double ms_per_token_ = 0;
};

/// Guesses the tokens of one text with the head or the draft model.
class HeadDrafter final : public Drafter {
 public:
  /// The text is that of a sequence of the model's session. The head must outlive this.
  HeadDrafter(PredictionHead& head, int32_t sequence, std::string_view name = "mtp")
      : head_(head), sequence_(sequence), name_(name) {
    head_.add_user();
  }
  ~HeadDrafter() override { head_.remove_user(); }

  std::string_view name() const override { return name_; }
  double prior(int32_t confidence) const override { return (confidence + 0.5) / kConfidences; }
  bool takes_time() const override { return true; }
  double ms_per_token() const override { return head_.ms_per_token(); }
  void begin(std::span<const int32_t> text) override {
    head_.begin(sequence_, text);
    last_ = text.empty() ? -1 : text.back();
  }
  void append(int32_t token) override { last_ = token; }
  Result<> draft(const DraftRequest& request, FunctionRef<bool(const DraftToken&)> add,
                 const CancelToken* cancel) override;

 private:
  PredictionHead& head_;
  int32_t sequence_;
  std::string_view name_;
  int32_t last_ = -1;  // the last token of the text
};

}  // namespace tessera
