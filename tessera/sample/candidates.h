// The candidates for the next token, on which every sampler works.
//
// They start dense, as logits indexed by token, so that a penalty touches only its tokens and a top-k reads 4 bytes per
// token. The first sampler that needs a list builds it from the remaining tokens. Sorting stops where a sampler needs
// no more. Logits are never NaN. A token at -inf has probability 0 and never enters the list. Probabilities are
// computed in double, in the order of the list, which depends only on the input. On equal logits the lower id comes
// first. The buffers are reused: after the first assign() of a size, nothing is allocated.
//
// draw() goes through the candidates in an order that decides the text of a seed. It is the order of llama.cpp: by id
// at first, by logit after a step that sorts there (top_k, top_p, xtc, dynamic temperature), by typicality after typ_p.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/function_ref.h"
#include "tessera/sample/seeded_rng.h"

namespace tessera::sample {

struct Candidate {
  int32_t id;
  float logit;
  double prob;  // valid after softmax()
};

/// The order of a sorted list: greater logit first, then lower id. It is a total order, so sorting has one possible
/// result. It is a function object, because sorts do not inline a pointer to a function.
inline constexpr auto better = [](const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
};

/// Moves the first n items by `less` to items[0, n), in order. items[0, sorted) must already be the first ones.
template <class T, class Less>
void extend_sorted(std::span<T> items, size_t sorted, size_t n, Less less) {
  if (n <= sorted) return;
  const auto begin = items.begin() + static_cast<ptrdiff_t>(sorted), end = items.begin() + static_cast<ptrdiff_t>(n);
  if (n < items.size()) std::nth_element(begin, end, items.end(), less);
  std::sort(begin, end, less);
}

/// Writes the n best of logits by token to `out`, sorted. Tokens at NaN or -inf are left out.
void select_top(std::span<const float> logits, size_t n, std::vector<Candidate>& out);

class Candidates {
 public:
  /// Starts over with all tokens. Token i has logits[i], and NaN counts as -inf.
  void assign(std::span<const float> logits);

  /// Starts over with some tokens: those of a list, strictly ascending.
  void assign(std::span<const float> logits, std::span<const int32_t> ids);
  /// Starts over with some tokens: token i if bit i % 64 of word i / 64 is set.
  void assign(std::span<const float> logits, std::span<const uint64_t> words);

  /// Starts over with a list in its order, in which draws go. NaN counts as -inf.
  void assign_list(std::span<const Candidate> list);

  /// Replaces the logit of each remaining token ids[i] by f(i, logit), where NaN counts as -inf. ids must be strictly
  /// ascending and below the number of assigned logits. The order of draws stays.
  void adjust(std::span<const int32_t> ids, FunctionRef<float(size_t, float)> f);

  /// Replaces every logit by f(candidate), where NaN counts as -inf. The order of draws stays.
  void transform(FunctionRef<float(const Candidate&)> f);

  /// Divides every logit by temperature > 0, which preserves the order. Finite logits stay finite.
  void divide_logits(double temperature);

  /// The greatest logit, or -inf if no token remains.
  float max_logit() const;

  /// Calls f(logit) for every remaining token, in a fixed order. Logits of -inf may be included.
  template <class F>
  void for_each_logit(F f) const {
    if (dense_now_) {
      for (const float logit : dense_) f(logit);
    } else {
      for (const Candidate& item : items_) f(item.logit);
    }
  }

  /// Draws go by logit from now on. The list itself is sorted only as far as a draw needs.
  void order_by_logit();

  /// Keeps the n best, sorted. If there are at most n, keeps all of them in any order. Draws then go by logit.
  void keep_top(size_t n);

  /// Keeps logits >= threshold, but at least the min_keep best.
  void keep_logits_from(double threshold, size_t min_keep);

  /// The list in its current order. Valid until the next call.
  std::span<const Candidate> items();

  /// The list in the order of draws. Valid until the next call.
  std::span<const Candidate> in_draw_order();

  /// Moves the n best to the front of items(), sorted, together with their probabilities. Returns items(). Draws then
  /// go by logit.
  std::span<const Candidate> sort_first(size_t n);

  /// Keeps the first n of items(), n <= its size.
  void keep_first(size_t n);

  /// Drops the first n of items(), n <= its size.
  void drop_first(size_t n);

  /// Keeps the items() at these distinct indices. The list has the order of the indices, and so have draws.
  void keep_indices(std::span<const uint32_t> indices);

  /// Computes prob of each item relative to the remaining items, so that they sum to 1. If some logits are +inf, their
  /// tokens share all probability. If no item has a probability, all are removed. Returns the sum of the previous prob
  /// of the remaining items, that is, the share not removed since the last softmax().
  double softmax();

  /// Draws an item by its probability and selects it: the first whose running sum of weights e^(logit - max), computed
  /// in float, reaches the share next_double() of their total. Uses a random number whenever an item remains. Selects
  /// nothing if none remains. Invalidates prob.
  void draw(SeededRng& rng);

  /// Selects the best item, with its probability. Selects nothing if no item remains.
  void select_best();

  /// The chosen token with its probability, set by the last sampler of a chain.
  const std::optional<Candidate>& selected() const { return selected_; }

 private:
  void start();
  void build_list();
  void finish_sorting();
  double weigh_items();

  std::vector<float> dense_;      // logits by token, while dense_now_ is set
  std::vector<Candidate> items_;  // the list, once dense_now_ is false
  std::vector<Candidate> kept_;   // the next list of keep_indices()
  size_t n_sorted_ = 0;           // items_[0, n_sorted_) are the best, sorted
  bool by_logit_ = false;         // draws go by logit, else in the order of the list
  bool dense_now_ = false;
  bool has_probs_ = false;  // prob matches the current logits and items
  std::optional<Candidate> selected_;
};

}  // namespace tessera::sample
