// dry, "don't repeat yourself" (p-e-w 2024, text-generation-webui pull request 5677): a penalty for tokens that would
// continue a copy of earlier text. Let n be the length of the copy so far. If n is at least allowed_length, the logit
// is reduced by multiplier * base ^ (n - allowed_length). A copy does not extend back across a sequence breaker, and a
// token that contains one is never penalised. Breakers are searched in the text instead of its tokens, so the
// tokenization does not matter.
#include <cmath>
#include <limits>
#include <string>

#include "tessera/base/index.h"
#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

class Dry : public CopyableSampler<Dry> {
 public:
  explicit Dry(const SamplerContext& context)
      : vocab_(context.vocab),
        window_(context.window(context.params.dry_penalty_last_n)),
        multiplier_(context.params.dry_multiplier),
        base_(context.params.dry_base),
        allowed_length_(to_size(context.params.dry_allowed_length)),
        breakers_(context.params.dry_sequence_breakers) {
    for (const std::string& breaker : breakers_) n_tail_bytes_ = std::max(n_tail_bytes_, breaker.size() - 1);
    for (auto* buffer : {&recent_, &match_, &ids_}) buffer->reserve(window_);
    copies_.reserve(window_);
  }

  void apply(Candidates& candidates, const History& history, SeededRng&) override {
    recent_.clear();
    for (size_t age = 0; age < std::min(window_, history.size()); ++age) recent_.push_back(history[age]);
    find_matches();
    collect_copies();
    candidates.adjust(ids_, [&](size_t i, float logit) {
      if (holds_breaker(ids_[i])) return logit;
      const auto excess = static_cast<double>(copies_[i].length) - static_cast<double>(allowed_length_);
      // Bounded so that a logit of +inf does not become NaN.
      const double penalty =
          std::min(multiplier_ * std::pow(base_, excess), static_cast<double>(std::numeric_limits<float>::max()));
      return logit - static_cast<float>(penalty);
    });
  }

  void accept(int32_t token, const History&) override {
    const size_t n_before = text_.size();
    vocab_->append_piece(token, text_);
    const bool ends_breaker = std::ranges::any_of(breakers_, [&](const std::string& breaker) {
      const size_t first = n_before - std::min(n_before, breaker.size() - 1);
      return text_.find(breaker, first) != std::string::npos;
    });
    n_unbroken_ = ends_breaker ? 0 : n_unbroken_ + 1;
    text_.erase(0, text_.size() - std::min(text_.size(), n_tail_bytes_));
  }

  void reset() override {
    text_.clear();
    n_unbroken_ = 0;
  }

 private:
  struct Copy {
    int32_t id;
    int32_t length;
  };

  /// match_[i] is the length of the longest common suffix of the current text and the text without its last i tokens.
  /// It is computed by the Z algorithm (Gusfield 1997) on the reversed text. The algorithm is linear; the direct method
  /// is quadratic on repetitive text.
  void find_matches() {
    const auto n = static_cast<int32_t>(recent_.size());
    const auto at = [&](int32_t age) { return recent_[to_size(age)]; };
    match_.assign(recent_.size(), 0);
    // [begin, end) is the match with the greatest end so far.
    for (int32_t i = 1, begin = 0, end = 0; i < n; ++i) {
      int32_t length = i < end ? std::min(end - i, match_[to_size(i - begin)]) : 0;
      while (i + length < n && at(length) == at(i + length)) ++length;
      match_[to_size(i)] = length;
      if (i + length > end) begin = i, end = i + length;
    }
  }

  /// Fills copies_ with the longest copy that each token would continue, and ids_ with those tokens in ascending order.
  void collect_copies() {
    copies_.clear();
    for (size_t i = 1; i < match_.size(); ++i) {
      const size_t length = std::min(to_size(match_[i]), n_unbroken_);
      if (length >= allowed_length_) copies_.push_back({recent_[i - 1], static_cast<int32_t>(length)});
    }
    std::ranges::sort(copies_,
                      [](const Copy& a, const Copy& b) { return a.id != b.id ? a.id < b.id : a.length > b.length; });
    const auto repeated = std::ranges::unique(copies_, {}, &Copy::id);
    copies_.erase(repeated.begin(), repeated.end());
    ids_.clear();
    for (const Copy& copy : copies_) ids_.push_back(copy.id);
  }

  bool holds_breaker(int32_t token) {
    piece_.clear();
    vocab_->append_piece(token, piece_);
    return std::ranges::any_of(breakers_,
                               [&](const std::string& breaker) { return piece_.find(breaker) != std::string::npos; });
  }

  std::shared_ptr<const VocabView> vocab_;
  size_t window_;
  double multiplier_;
  double base_;
  size_t allowed_length_;
  std::vector<std::string> breakers_;
  size_t n_tail_bytes_ = 0;  // bytes at the end of the text that may begin a breaker

  std::string text_;             // the last n_tail_bytes_ of the text
  size_t n_unbroken_ = 0;        // tokens since the end of the last breaker
  std::vector<int32_t> recent_;  // the window, latest token first
  std::vector<int32_t> match_;
  std::vector<Copy> copies_;
  std::vector<int32_t> ids_;
  std::string piece_;
};

}  // namespace

std::unique_ptr<Sampler> make_dry(const SamplerContext& context) {
  if (context.params.dry_multiplier == 0 || context.window(context.params.dry_penalty_last_n) == 0) return nullptr;
  return std::make_unique<Dry>(context);
}

}  // namespace tessera::sample
