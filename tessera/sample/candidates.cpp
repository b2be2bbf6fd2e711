// Selection, removal and normalisation of candidates.
#include "tessera/sample/candidates.h"

#include <cmath>
#include <limits>

#include "tessera/base/index.h"

namespace tessera::sample {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float without_nan(float logit) { return logit == logit ? logit : -kInfinity; }

/// Without branches and of constant length, so that compilers vectorise it.
template <size_t n>
bool any_above(const float* values, float threshold) {
  int n_above = 0;
  for (size_t i = 0; i < n; ++i) n_above += values[i] > threshold ? 1 : 0;
  return n_above > 0;
}

}  // namespace

// It is one pass with a threshold: a token enters only if it beats the n-th best so far, so nearly all of 128k logits
// cost one comparison. The scan is in ascending order of ids, so on a tie the later token is the worse one. When `out`
// is full, all but the n best are dropped, at O(1) per token.
void select_top(std::span<const float> logits, size_t n, std::vector<Candidate>& out) {
  constexpr size_t kBlock = 32;
  constexpr size_t kMinRoom = 256;
  const size_t capacity = n + std::max(n, kMinRoom);
  float threshold = -kInfinity;
  out.clear();
  if (n == 0) return;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const auto block = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    if (block.size() == kBlock && !any_above<kBlock>(block.data(), threshold)) continue;
    for (size_t i = 0; i < block.size(); ++i) {
      if (!(block[i] > threshold)) continue;
      out.push_back({static_cast<int32_t>(begin + i), block[i], 0});
      if (out.size() < capacity) continue;
      std::nth_element(out.begin(), out.begin() + static_cast<ptrdiff_t>(n) - 1, out.end(), better);
      out.resize(n);
      threshold = out.back().logit;
    }
  }
  const size_t n_kept = std::min(n, out.size());
  extend_sorted(std::span(out), 0, n_kept, better);
  out.resize(n_kept);
}

void Candidates::start() {
  items_.clear();
  n_sorted_ = 0;
  by_logit_ = false;
  dense_now_ = true;
  has_probs_ = false;
  selected_.reset();
}

void Candidates::assign(std::span<const float> logits) {
  start();
  dense_.resize(logits.size());
  std::ranges::transform(logits, dense_.begin(), without_nan);
  items_.reserve(logits.size());
}

void Candidates::assign(std::span<const float> logits, std::span<const int32_t> ids) {
  start();
  dense_now_ = false;
  for (const int32_t id : ids) {
    if (to_size(id) >= logits.size()) break;
    const float logit = without_nan(logits[to_size(id)]);
    if (logit > -kInfinity) items_.push_back({id, logit, 0});
  }
}

void Candidates::assign(std::span<const float> logits, std::span<const uint64_t> words) {
  start();
  dense_.resize(logits.size());
  for (size_t begin = 0; begin < dense_.size(); begin += 64) {
    const uint64_t word = begin / 64 < words.size() ? words[begin / 64] : 0;
    const size_t n = std::min<size_t>(64, dense_.size() - begin);
    const float* from = &logits[begin];
    float* to = &dense_[begin];
    if (word == 0) {
      std::fill_n(to, n, -kInfinity);
    } else if (~word == 0) {
      std::transform(from, from + n, to, without_nan);
    } else {
      for (size_t i = 0; i < n; ++i) to[i] = ((word >> i) & 1) != 0 ? without_nan(from[i]) : -kInfinity;
    }
  }
  items_.reserve(logits.size());
}

void Candidates::assign_list(std::span<const Candidate> list) {
  start();
  dense_now_ = false;
  for (const Candidate& one : list) {
    const float logit = without_nan(one.logit);
    if (logit > -kInfinity) items_.push_back({one.id, logit, 0});
  }
  if (std::ranges::is_sorted(items_, better)) n_sorted_ = items_.size();
}

void Candidates::adjust(std::span<const int32_t> ids, FunctionRef<float(size_t, float)> f) {
  if (dense_now_) {
    for (size_t i = 0; i < ids.size(); ++i) {
      float& logit = dense_[to_size(ids[i])];
      logit = without_nan(f(i, logit));
    }
    return;
  }
  finish_sorting();
  for (Candidate& item : items_) {
    const auto found = std::ranges::lower_bound(ids, item.id);
    if (found != ids.end() && *found == item.id) item.logit = without_nan(f(to_size(found - ids.begin()), item.logit));
  }
  n_sorted_ = 0;
  has_probs_ = false;
}

void Candidates::transform(FunctionRef<float(const Candidate&)> f) {
  build_list();
  finish_sorting();
  for (Candidate& item : items_) item.logit = without_nan(f(item));
  n_sorted_ = 0;
  has_probs_ = false;
}

void Candidates::divide_logits(double temperature) {
  constexpr double kMax = std::numeric_limits<float>::max();
  build_list();
  for (Candidate& item : items_) {
    if (!std::isfinite(item.logit)) continue;
    item.logit = static_cast<float>(std::clamp(static_cast<double>(item.logit) / temperature, -kMax, kMax));
  }
  // Different logits may have become equal. In a sorted list they keep their order, as in llama.cpp. Behind a sorted
  // front there may now be tokens that equal its last one.
  if (n_sorted_ < items_.size()) n_sorted_ = 0;
  has_probs_ = false;
}

float Candidates::max_logit() const {
  if (n_sorted_ > 0) return items_.front().logit;
  float max = -kInfinity;
  for_each_logit([&](float logit) { max = logit > max ? logit : max; });
  return max;
}

void Candidates::order_by_logit() {
  build_list();
  by_logit_ = true;
}

void Candidates::keep_top(size_t n) {
  by_logit_ = true;
  if (dense_now_ && n > 0 && n < dense_.size() / 2) {
    select_top(dense_, n, items_);
    dense_now_ = false;
    n_sorted_ = items_.size();
    return;
  }
  build_list();
  if (n >= items_.size()) return;
  sort_first(n);
  keep_first(n);
}

void Candidates::keep_logits_from(double threshold, size_t min_keep) {
  const auto passes = [&](float logit) { return logit > -kInfinity && static_cast<double>(logit) >= threshold; };
  size_t n_passing = 0;
  for_each_logit([&](float logit) { n_passing += passes(logit) ? 1 : 0; });
  if (n_passing < min_keep) return keep_top(min_keep);
  if (!dense_now_) {
    if (n_passing < items_.size()) has_probs_ = false;
    std::erase_if(items_, [&](const Candidate& item) { return !passes(item.logit); });
    n_sorted_ = std::min(n_sorted_, items_.size());
    return;
  }
  for (size_t i = 0; i < dense_.size(); ++i) {
    if (passes(dense_[i])) items_.push_back({static_cast<int32_t>(i), dense_[i], 0});
  }
  dense_now_ = false;
}

std::span<const Candidate> Candidates::items() {
  build_list();
  return items_;
}

std::span<const Candidate> Candidates::in_draw_order() {
  build_list();
  finish_sorting();
  return items_;
}

std::span<const Candidate> Candidates::sort_first(size_t n) {
  by_logit_ = true;
  build_list();
  n = std::min(n, items_.size());
  extend_sorted(std::span(items_), n_sorted_, n, better);
  n_sorted_ = std::max(n_sorted_, n);
  return items_;
}

void Candidates::keep_first(size_t n) {
  if (n >= items_.size()) return;
  items_.resize(n);
  n_sorted_ = std::min(n_sorted_, n);
  has_probs_ = false;
}

void Candidates::drop_first(size_t n) {
  if (n == 0) return;
  items_.erase(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(n));
  n_sorted_ -= std::min(n_sorted_, n);
  has_probs_ = false;
}

void Candidates::keep_indices(std::span<const uint32_t> indices) {
  kept_.clear();
  for (const uint32_t index : indices) kept_.push_back(items_[index]);
  items_.swap(kept_);
  n_sorted_ = 0;
  by_logit_ = false;
  has_probs_ = false;
}

double Candidates::softmax() {
  if (has_probs_) return 1;
  build_list();
  const float max = max_logit();
  if (max == -kInfinity) items_.clear();
  double previous = 0, sum = 0;
  for (Candidate& item : items_) {
    previous += item.prob;
    // +inf minus +inf is undefined. The best items have weight 1 in any case.
    item.prob = item.logit == max ? 1 : std::exp(static_cast<double>(item.logit) - static_cast<double>(max));
    sum += item.prob;
  }
  for (Candidate& item : items_) item.prob /= sum;
  has_probs_ = true;
  return previous;
}

/// Sets prob of each item to its weight in a draw. Returns the sum of the weights, 0 without items.
double Candidates::weigh_items() {
  build_list();
  const float max = max_logit();
  if (max == -kInfinity) items_.clear();
  double total = 0;
  for (Candidate& item : items_) {
    item.prob = item.logit == max ? 1 : static_cast<double>(std::exp(item.logit - max));
    total += item.prob;
  }
  has_probs_ = false;
  return total;
}

void Candidates::draw(SeededRng& rng) {
  const double total = weigh_items();
  if (items_.empty()) return;
  const double target = rng.next_double() * total;
  double sum = 0;
  size_t drawn = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    // The total is a sum in another order, which changes only its last bits. So nothing is sorted behind the drawn
    // item.
    if (by_logit_ && i == n_sorted_) sort_first(std::max<size_t>(64, 2 * n_sorted_));
    if (items_[i].prob == 0) continue;
    drawn = i;  // by rounding, the sum of all may stay below the target; the last item is drawn then
    sum += items_[i].prob;
    if (sum >= target) break;
  }
  selected_ = items_[drawn];
  selected_->prob /= total;
}

void Candidates::select_best() {
  softmax();
  if (!items_.empty()) selected_ = *std::ranges::min_element(items_, better);
}

void Candidates::finish_sorting() {
  if (by_logit_) sort_first(items_.size());
  by_logit_ = false;
}

void Candidates::build_list() {
  if (!dense_now_) return;
  dense_now_ = false;
  for (size_t i = 0; i < dense_.size(); ++i) {
    if (dense_[i] > -kInfinity) items_.push_back({static_cast<int32_t>(i), dense_[i], 0});
  }
}

}  // namespace tessera::sample
