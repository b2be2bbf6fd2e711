// The tokens still in the running for the next place, on which every sampler works.
//
// They start dense, as the logits indexed by token, so that a penalty touches only its tokens and a top-k
// reads 4 bytes per token; the first sampler that needs a list builds one from what is left. Nothing is ever
// sorted further than a sampler asks. Logits are never NaN. A token at -inf has probability 0 and never
// enters the list. Exponentials, sums and probabilities are in double, in the order of the list, which the
// input determines; ties of logits go to the lower id. The buffers are reused: after the first assign() of a
// size nothing is allocated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/function_ref.h"
#include "tessera/base/rng.h"

namespace tessera::sample {

struct Candidate {
  int32_t id;
  float logit;
  double prob;  // valid after softmax()
};

/// The order of a sorted list: greater logit first, on a tie the lower id; a total order, so a sort has one
/// result.
inline bool better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// Makes items[0, n) the n first by `less`, in order, where items[0, sorted) already are the first.
template <class T, class Less>
void extend_sorted(std::span<T> items, size_t sorted, size_t n, Less less) {
  if (n <= sorted) return;
  const auto begin = items.begin() + static_cast<ptrdiff_t>(sorted), end = items.begin() + static_cast<ptrdiff_t>(n);
  if (n < items.size()) std::nth_element(begin, end, items.end(), less);
  std::sort(begin, end, less);
}

class Candidates {
 public:
  /// Starts over with all tokens: token i has logits[i]; NaN counts as -inf.
  void assign(std::span<const float> logits);

  /// Replaces the logit of each ids[i] still in the running by f(i, logit), NaN counting as -inf. ids ascend
  /// strictly and are below the count of assigned logits.
  void adjust(std::span<const int32_t> ids, FunctionRef<float(size_t, float)> f);

  /// Divides every logit by temperature > 0, which keeps the order; finite logits stay finite.
  void divide_logits(double temperature);

  /// The greatest logit, -inf when no token is left.
  float max_logit() const;

  /// Calls f(logit) for every token in the running, in a fixed order; -inf may be among them.
  template <class F>
  void for_each_logit(F f) const {
    if (dense_now_) {
      for (const float logit : dense_) f(logit);
    } else {
      for (const Candidate& item : items_) f(item.logit);
    }
  }

  /// Keeps the n best, sorted; all of them, in any order, where there are no more than n.
  void keep_top(size_t n);

  /// Keeps logits >= threshold, or the min_keep best where those are more.
  void keep_logits_from(double threshold, size_t min_keep);

  /// The list, in its present order. The caller does not keep it over another call.
  std::span<const Candidate> items();

  /// Makes the first n of items() the n best, sorted; returns items(). Probabilities move along.
  std::span<const Candidate> sort_first(size_t n);

  /// Keeps the first n of items(), n <= its size.
  void keep_first(size_t n);

  /// Drops the first n of items(), n <= its size.
  void drop_first(size_t n);

  /// Keeps the items() at these indices, which ascend strictly, in their order.
  void keep_indices(std::span<const uint32_t> indices);

  /// Computes prob of each item, relative to those left: they sum to 1. With a logit of +inf, those at +inf
  /// share the probability. Removes all where none has a probability. Returns the sum of the previous prob of
  /// the items, the share that what was removed since the last softmax() left over.
  double softmax();

  /// Draws an item by its probability and selects it; no selection when none is left. Uses one random number.
  void draw(Rng& rng);

  /// The chosen token with its probability; what the last sampler of a chain leaves.
  const std::optional<Candidate>& selected() const { return selected_; }

 private:
  void build_list();

  std::vector<float> dense_;      // logits by token, while dense_now_
  std::vector<Candidate> items_;  // the list, once not dense_now_
  size_t n_sorted_ = 0;           // items_[0, n_sorted_) are the best, sorted
  bool dense_now_ = false;
  bool has_probs_ = false;  // prob belongs to the present logits and items
  std::optional<Candidate> selected_;
};

}  // namespace tessera::sample
