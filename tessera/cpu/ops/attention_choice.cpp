// choose_keys: scores of all cached keys, and the best ones of each query as bits. A unit of work is a tile of
// consecutive tokens of one sequence, so that each block of K is read once for all of them.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>

#include "tessera/base/checked.h"
#include "tessera/cpu/ops/paged.h"
#include "tessera/graph/ops/attention.h"

namespace tessera::cpu {

namespace {

// Of the keys of one set. Higher is better; 0: the unit has no visible key.
using Rank = uint32_t;
constexpr Rank kAlways = std::numeric_limits<Rank>::max();

// The order of floats as integers above 0. NaN is below all others, since its bits depend on the processor.
Rank rank_of(float score) {
  if (score != score) return 1;
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 becomes +0
  constexpr uint32_t kSign = uint32_t{1} << 31;
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

// The ranks from which on units are chosen: all above `threshold`, and the first n_equal of those that equal it.
struct Cut {
  Rank threshold = 0;
  int64_t n_equal = 0;
};

// The cut for the n_chosen highest of `ranks`, which has more than n_chosen ranks above 0. Looks at the digits of
// ranks from the highest on: each pass counts the ranks that agree with the threshold so far, by their next digit.
Cut find_cut(std::span<const Rank> ranks, int64_t n_chosen) {
  constexpr int kDigitBits = 8, kRankBits = 32;
  Cut cut{.n_equal = n_chosen};
  for (int shift = kRankBits - kDigitBits; shift >= 0; shift -= kDigitBits) {
    std::array<int64_t, 1 << kDigitBits> counts{};
    const uint64_t known = ~uint64_t{0} << (shift + kDigitBits);
    for (const Rank rank : ranks)
      if ((rank & known) == cut.threshold) ++counts[rank >> shift & (counts.size() - 1)];
    size_t digit = counts.size() - 1;
    while (counts[digit] < cut.n_equal) cut.n_equal -= counts[digit--];
    cut.threshold |= static_cast<Rank>(digit) << shift;
  }
  return cut;
}

// Most sets of keys that one thread chooses at a time. Each needs memory for the ranks of a whole context.
constexpr int64_t kMostSets = 8;

struct ChoiceShapes {
  explicit ChoiceShapes(const Step& step)
      : params(std::get<KeyChoiceParams>(step.node->params)),
        n_heads(step.in[0].shape()[1]),
        n_sets(step.out.shape()[1]),
        n_tokens(step.in[0].shape()[2]),
        n_max_blocks(step.in[5].shape()[0]),
        n_units(div_ceil(n_max_blocks * kBlockTokens, params.unit)),
        tokens_per_tile(std::max<int64_t>(1, std::min({kMaxAttentionRows / n_heads, kMostSets / n_sets, n_tokens}))) {}

  // Scratch memory of a thread: a block of K, scores of one block, and the ranks of all units.
  size_t key_bytes(int64_t dim) const { return to_size(dim * kBlockTokens) * sizeof(float); }
  size_t score_bytes() const { return to_size(tokens_per_tile * n_sets * kBlockTokens) * sizeof(float); }
  size_t rank_bytes() const { return round_up<size_t>(to_size(tokens_per_tile * n_sets * n_units) * sizeof(Rank), 64); }
  size_t bytes_per_thread(int64_t dim) const { return key_bytes(dim) + score_bytes() + rank_bytes(); }

  const KeyChoiceParams& params;
  int64_t n_heads, n_sets, n_tokens, n_max_blocks;
  int64_t n_units;  // of the longest context
  int64_t tokens_per_tile;
};

bool supports_choice(const Kernels& kernels, const Graph& graph, const Node& node) {
  // A sum over more heads than a call of the kernel takes would need two.
  return kernels.kv_formats[to_size(graph[node.sources[1]].spec.dtype)] != nullptr &&
         graph[node.sources[0]].spec.shape()[1] <= kMaxAttentionRows;
}

size_t choice_work_bytes(const Kernels&, const Step& step) {
  return ChoiceShapes(step).bytes_per_thread(step.in[1].shape()[0]) * to_size(step.n_threads);
}

class ChoiceRunner {
 public:
  ChoiceRunner(const Step& step, Worker& worker)
      : step_(step), worker_(worker), s_(step), positions_(step.in[3].row<const int32_t>(0)) {
    const int64_t dim = step.in[1].shape()[0];
    keys_ = step.work + s_.bytes_per_thread(dim) * to_size(worker.thread.index);
    scores_ = reinterpret_cast<float*>(keys_ + s_.key_bytes(dim));
    ranks_ = reinterpret_cast<Rank*>(keys_ + s_.key_bytes(dim) + s_.score_bytes());
  }

  // Tiles are assigned in ascending order, so each thread advances through the tokens once.
  void run() {
    int64_t tile = 0, begin = 0;
    for (int64_t next = worker_.thread.next_chunk(); !worker_.thread.cancelled(); next = worker_.thread.next_chunk()) {
      for (; tile < next && begin < s_.n_tokens; ++tile) begin = end_of_run(step_, begin, s_.tokens_per_tile);
      if (begin >= s_.n_tokens) return;
      run_tile({begin, end_of_run(step_, begin, s_.tokens_per_tile)});
    }
  }

 private:
  void run_tile(Range tokens) {
    for (int64_t t = tokens.begin; t < tokens.end; ++t)
      std::fill_n(step_.out.row<uint64_t>(0, t), s_.n_sets * s_.n_max_blocks, uint64_t{0});
    const auto sequence = find_sequence(step_, worker_, tokens);
    if (!sequence) return;
    const int64_t n_blocks = sequence->last_position / kBlockTokens + 1;
    if (!check_blocks(step_, worker_, sequence->blocks, 0, n_blocks)) return;
    for (int64_t i = 0; i < (tokens.end - tokens.begin) * s_.n_sets; ++i)
      std::fill_n(ranks_of(i), sequence->last_position / s_.params.unit + 1, Rank{0});
    point_at_queries(tokens);
    for (int64_t b = 0; b < n_blocks; ++b) rank_block(tokens, *sequence, b);
    for (int64_t t = tokens.begin; t < tokens.end; ++t)
      for (int64_t set = 0; set < s_.n_sets; ++set) choose(*sequence, t, set, tokens.begin);
  }

  // The tokens of block b that a token at `position` sees.
  static uint64_t visible(const PagedSequence& sequence, int64_t b, int64_t position) {
    return sequence.blocks[b] < 0 ? 0 : sequence.valid[b] & mask_of(b, {0, position + 1});
  }

  Rank* ranks_of(int64_t i_set) const { return ranks_ + i_set * s_.n_units; }

  void point_at_queries(Range tokens) {
    for (int64_t i = 0; i < (tokens.end - tokens.begin) * s_.n_heads; ++i) {
      const int64_t head = i % s_.n_heads, token = tokens.begin + i / s_.n_heads;
      queries_[to_size(i)] = step_.in[0].row(head, token);
      if (step_.in[2].present()) weights_[to_size(i)] = step_.in[2].row(token)[head];
    }
  }

  // Raises the ranks of the units in block b to those of its keys.
  void rank_block(Range tokens, const PagedSequence& sequence, int64_t b) {
    const uint64_t any = visible(sequence, b, sequence.last_position);
    if (any == 0) return;
    const Operand& k = step_.in[1];
    worker_.kernels.key_scores({.q = queries_.data(),
                                .n_rows = static_cast<int>((tokens.end - tokens.begin) * s_.n_heads),
                                .dim = static_cast<int>(k.shape()[0]),
                                .weights = step_.in[2].present() ? weights_.data() : nullptr,
                                .n_summed = static_cast<int>(s_.n_heads),
                                .block = k.data + sequence.blocks[b] * k.layout.nb[3],
                                .tokens = any,
                                .out = scores_,
                                .out_stride = kBlockTokens},
                               static_cast<int>(k.dtype), keys_);
    for (int64_t t = tokens.begin; t < tokens.end; ++t) {
      const uint64_t seen = visible(sequence, b, positions_[t]);
      for (int64_t set = 0; set < s_.n_sets; ++set) {
        const int64_t i_set = (t - tokens.begin) * s_.n_sets + set;
        raise_ranks(scores_ + i_set * kBlockTokens, seen, b * kBlockTokens, ranks_of(i_set));
      }
    }
  }

  // `begin` is the position of the first of 64 scores.
  void raise_ranks(const float* scores, uint64_t seen, int64_t begin, Rank* ranks) const {
    const int64_t unit = s_.params.unit;
    int64_t u = 0, unit_end = 0;
    for (uint64_t rest = seen; rest != 0; rest &= rest - 1) {
      const int64_t slot = std::countr_zero(rest);
      if (begin + slot >= unit_end) u = (begin + slot) / unit, unit_end = (u + 1) * unit;
      ranks[u] = std::max(ranks[u], rank_of(scores[slot]));
    }
  }

  void choose(const PagedSequence& sequence, int64_t token, int64_t set, int64_t first_token) {
    const int64_t position = positions_[token], unit = s_.params.unit, last = position / unit;
    const std::span<Rank> ranks(ranks_of((token - first_token) * s_.n_sets + set), to_size(last + 1));
    for (int64_t i = 0; i < std::min(s_.params.n_local, last + 1); ++i)
      if (Rank& rank = ranks[to_size(last - i)]; rank != 0) rank = kAlways;
    const int64_t n_seen = std::ssize(ranks) - std::ranges::count(ranks, Rank{0});
    Cut cut = n_seen > s_.params.n_chosen ? find_cut(ranks, s_.params.n_chosen) : Cut{};
    auto* const out = step_.out.row<uint64_t>(set, token);
    for (int64_t u = 0; u <= last; ++u) {
      const Rank rank = ranks[to_size(u)];
      if (rank < cut.threshold || rank == 0 || (rank == cut.threshold && cut.n_equal-- <= 0)) continue;
      const int64_t end = std::min((u + 1) * unit, position + 1);
      for (int64_t p = u * unit; p < end; ++p) out[p / kBlockTokens] |= uint64_t{1} << p % kBlockTokens;
    }
    for (int64_t b = 0; b <= position / kBlockTokens; ++b) out[b] &= visible(sequence, b, position);
  }

  const Step& step_;
  Worker& worker_;
  ChoiceShapes s_;
  const int32_t* positions_;
  std::byte* keys_;
  float* scores_;
  Rank* ranks_;
  std::array<const float*, kMaxAttentionRows> queries_{};
  std::array<float, kMaxAttentionRows> weights_{};
};

void run_choice(const Step& step, Worker& worker) { ChoiceRunner(step, worker).run(); }

}  // namespace

const OpKernel op_kernels::choose_keys{
    .supports = supports_choice, .work_bytes = choice_work_bytes, .run = run_choice, .takes_all_threads = true};

}  // namespace tessera::cpu
