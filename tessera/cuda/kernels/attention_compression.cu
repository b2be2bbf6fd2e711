// Compressed entries: the keys that tokens see (window_keys), and the entries that they complete (compress_rows).
#include "tessera/cuda/kernels/attention.cuh"

namespace tessera::cuda {

/// window_keys: the entries and tokens that each token sees, as bits. A block computes a part of a token's words.
///   x: positions, blocks, chosen keys or absent
///   u[0]: words of a part; u[1]: window; u[2]: positions of an entry; u[3]: blocks of entries
TESSERA_KERNEL(attention_window, 128) {
  allow_next();
  wait_for_previous();
  const uint32_t group = group_of(step), n_words = 2 * step.y.ne[0], n_parts = (n_words + step.u[0] - 1) / step.u[0];
  if (group >= step.n_groups) return;
  const uint32_t token = group / n_parts, begin = group % n_parts * step.u[0], end = min_of(n_words, begin + step.u[0]);
  const int32_t position = ints(step.x[0].data)[token];
  const uint32_t n_entry_words = 2 * step.u[3], n_positions = (n_words - n_entry_words) * 32;
  uint32_t n_entries = 0, first = 0, after = 0;
  if (position >= 0 && static_cast<uint32_t>(position) < n_positions) {
    after = static_cast<uint32_t>(position) + 1;
    first = after > step.u[1] ? after - step.u[1] : 0;
    n_entries = after / step.u[2];
  } else if (lane() == 0) {
    report(step, kFaultPosition, position, n_positions);
  }
  uint32_t* y = words(row_of(step.y, 0, token, 0));
  const uint32_t* chosen = step.x[2].data == 0 ? nullptr : words(row_of(step.x[2], 0, token, 0));
  for (uint32_t w = begin + lane(); w < end; w += n_lanes()) {
    if (w >= n_entry_words)
      y[w] = within(32 * (w - n_entry_words), first, after);
    else
      y[w] = within(32 * w, 0, n_entries) & (chosen == nullptr ? ~0u : chosen[w]);
  }
}

namespace {

/// A channel of the entry of a token: a softmax over positions.
class Entry {
 public:
  __device__ Entry(const Params& step, uint32_t token, uint32_t channel)
      : step_(step), tables_(tables_of(step, token)), span_(span_of(step, token, true)), channel_(channel) {}

  /// 0 if no position that counts is stored.
  __device__ float value() const {
    float highest = -infinity(), total = 0, sum = 0;
    each_position([&](uint32_t p) { highest = fmaxf(highest, score(p)); });
    each_position([&](uint32_t p) {
      const float weight = expf(score(p) - highest);
      total += weight;
      sum = fmaf(weight, floats(row_at_position(step_.x[1], tables_, p))[element(p)], sum);
    });
    return total == 0 ? 0 : sum / total;
  }

 private:
  /// Calls use(position) with the stored positions that count, in ascending order.
  template <class Use>
  __device__ void each_position(Use use) const {
    for (uint32_t w = span_.first / 32; 32 * w < span_.end; ++w)
      for (uint32_t rest = stored_in(step_, tables_, w, span_.first, span_.end); rest != 0; rest &= rest - 1)
        use(32 * w + index_of_bit(lowest_bit(rest)));
  }

  /// The element of a row that counts. If entries overlap, newer rows give their second half.
  __device__ uint32_t element(uint32_t p) const {
    return step_.u[5] != 0 && p + step_.u[4] >= span_.end ? channel_ + step_.y.ne[0] : channel_;
  }

  __device__ float score(uint32_t p) const {
    const uint32_t i = element(p);
    return floats(row_at_position(step_.x[2], tables_, p))[i] + floats(row_of(step_.x[0], p % step_.u[4], 0, 0))[i];
  }

  const Params& step_;
  SlotTables tables_;
  Span span_;  // the positions that count
  uint32_t channel_;
};

}  // namespace

/// compress_rows: entries from the rows of caches. A thread computes a channel.
///   x: biases, rows, gates, positions, slots, blocks, valid, cells
///   u[2], u[3]: as in attention_precise.cuh; u[4]: positions of an entry; u[5]: 1 if entries overlap; u[6]: blocks of
///   threads per token
TESSERA_KERNEL(attention_compression, 128) {
  allow_next();
  wait_for_previous();
  const uint32_t group = group_of(step), token = group / step.u[6];
  if (group >= step.n_groups) return;
  const uint32_t channel = group % step.u[6] * n_lanes() + lane();
  if (channel >= step.y.ne[0]) return;
  const bool is_wanted = ints(step.x[7].data)[token] >= 0;
  floats(row_of(step.y, token, 0, 0))[channel] = is_wanted ? Entry(step, token, channel).value() : 0.0f;
}

}  // namespace tessera::cuda
