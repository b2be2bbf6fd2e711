// Attention over the paged cache. A unit of work is a KV head with the query heads that share it, for a tile of
// consecutive tokens of one sequence. K and V are read once for all of them.
#include "tessera/graph/ops/attention.h"
#include "tessera/base/index.h"

#include <algorithm>
#include <limits>

#include "tessera/base/checked.h"
#include "tessera/base/cpu_info.h"
#include "tessera/cpu/ops/paged.h"

namespace tessera::cpu {

namespace {

bool supports_attention(const Kernels& kernels, const Graph& graph, const Node& node) {
  for (const size_t side : {1u, 2u})
    if (node.sources[side] != kNoNode && kernels.kv_formats[to_size(graph[node.sources[side]].spec.dtype)] == nullptr)
      return false;
  return true;
}

int v_dim_of(const Step& step) { return static_cast<int>(step.out.shape()[0]); }

// Query heads per task.
int64_t heads_per_unit(const Step& step) {
  return std::min<int64_t>(step.in[0].shape()[1] / step.in[1].shape()[2], kMaxAttentionRows);
}

constexpr size_t kBiasRow = 2 * kBiasReach + 1;

// Scratch memory of a thread: the kernel's, followed by biases by distance for each head of a task.
size_t kernel_scratch_bytes(const Kernels& kernels, const Step& step) {
  const auto k_dim = static_cast<int>(step.in[1].shape()[0]);
  return round_up<size_t>(kernels.attention_scratch_bytes(k_dim, v_dim_of(step)), 64);
}

size_t scratch_per_thread(const Kernels& kernels, const Step& step) {
  const bool has_bias = step.node->inputs().size() > 8 && step.node->inputs()[8] != kNoNode;
  const size_t n_biases = has_bias ? kBiasRow * to_size(heads_per_unit(step)) : 0;
  return kernel_scratch_bytes(kernels, step) + round_up<size_t>(n_biases * sizeof(float), 64);
}

size_t attention_work_bytes(const Kernels& kernels, const Step& step) {
  return scratch_per_thread(kernels, step) * to_size(step.n_threads);
}

// The division of heads and tokens into units of work.
struct Units {
  explicit Units(const Step& step)
      : n_tokens(step.in[0].shape()[2]),
        n_heads_kv(step.in[1].shape()[2]),
        group(step.in[0].shape()[1] / n_heads_kv),
        heads_per_unit(cpu::heads_per_unit(step)),
        units_per_group(div_ceil(group, heads_per_unit)),
        tokens_per_tile(std::max<int64_t>(1, rows_per_task(step.n_threads) / heads_per_unit)) {}

  // With more rows per task, K and V are read and converted fewer times. But every thread should have some tasks.
  int64_t rows_per_task(int n_threads) const {
    constexpr int64_t kMinRows = 64, kTasksPerThread = 4;
    int64_t rows = kMaxAttentionRows;
    while (rows > kMinRows && n_tokens * n_heads_kv * group < kTasksPerThread * n_threads * rows) rows /= 2;
    return rows;
  }
  int64_t per_tile() const { return n_heads_kv * units_per_group; }
  // Returns the end of the tile that begins at a token: the first token of another sequence, or the tile's maximum.
  int64_t tile_end(const Step& step, int64_t begin) const { return end_of_run(step, begin, tokens_per_tile); }

  int64_t n_tokens, n_heads_kv;
  int64_t group;           // query heads per KV head
  int64_t heads_per_unit;  // query heads per task, at most `group`
  int64_t units_per_group;
  int64_t tokens_per_tile;
};

bool has_bf16_dot() {
  static const bool has = cpu_features().avx512_bf16;  // under a hypervisor, asking takes microseconds
  return has;
}

class AttentionRunner {
 public:
  AttentionRunner(const Step& step, Worker& worker)
      : step_(step),
        worker_(worker),
        params_(std::get<AttentionParams>(step.node->params)),
        units_(step),
        positions_(step.in[3].row<const int32_t>(0)) {
    task_.q = step.in[0].row(0);
    task_.out = step.out.row(0);
    task_.q_offsets = q_offsets_;
    task_.out_offsets = out_offsets_;
    task_.positions = row_positions_;
    task_.k_dim = static_cast<int>(step.in[1].shape()[0]);
    task_.v_dim = v_dim_of(step);
    task_.scale = params_.scale;
    task_.soft_cap = params_.soft_cap;
    task_.slopes = params_.max_alibi == 0 ? nullptr : row_slopes_;
    task_.sinks = step.in[7].present() ? row_sinks_ : nullptr;
    task_.causal = params_.causal;
    task_.int16 = params_.int16;
    task_.has_bf16_dot = has_bf16_dot();
    task_.window = static_cast<int32_t>(std::min<int64_t>(params_.window, std::numeric_limits<int32_t>::max()));
    task_.chunked = params_.chunked;
    task_.chosen = step.in[9].present() ? row_chosen_ : nullptr;
    task_.k_block_stride = to_size(step.in[1].layout.nb[3]);
    if (step.in[2].present()) task_.v_block_stride = to_size(step.in[2].layout.nb[3]);
    scratch_ = step.work + scratch_per_thread(worker.kernels, step) * to_size(worker.thread.index);
    if (!step.in[8].present()) return;
    task_.biases = row_biases_;
    biases_ = reinterpret_cast<float*>(scratch_ + kernel_scratch_bytes(worker.kernels, step));
    for (int d = -kBiasReach; d <= kBiasReach; ++d)
      buckets_[d + kBiasReach] = static_cast<int32_t>(bias_bucket(d, step.in[8].shape()[1], params_.causal));
  }

  // Units are assigned in ascending order, so each thread advances through the tiles once.
  void run() {
    int64_t tile = 0, begin = 0;
    for (int64_t unit = worker_.thread.next_chunk(); !worker_.thread.cancelled(); unit = worker_.thread.next_chunk()) {
      for (; tile < unit / units_.per_tile() && begin < units_.n_tokens; ++tile) begin = units_.tile_end(step_, begin);
      if (begin >= units_.n_tokens) return;
      run_unit({begin, units_.tile_end(step_, begin)}, unit % units_.per_tile());
    }
  }

 private:
  void run_unit(Range tokens, int64_t unit) {
    const int64_t head_kv = unit / units_.units_per_group;
    const int64_t first = unit % units_.units_per_group * units_.heads_per_unit;
    const int64_t n_heads = std::min(units_.heads_per_unit, units_.group - first);
    if (task_.biases != nullptr) spread_biases(head_kv * units_.group + first, n_heads);
    task_.n_rows = 0;
    for (int64_t t = tokens.begin; t < tokens.end; ++t)
      for (int64_t h = 0; h < n_heads; ++h, ++task_.n_rows) {
        const int64_t head = head_kv * units_.group + first + h;
        q_offsets_[task_.n_rows] = step_.in[0].row(head, t) - task_.q;
        out_offsets_[task_.n_rows] = step_.out.row(head, t) - task_.out;
        row_positions_[task_.n_rows] = positions_[t];
        if (task_.slopes != nullptr)
          row_slopes_[task_.n_rows] = alibi_slope(params_.max_alibi, head, step_.in[0].shape()[1]);
        if (task_.biases != nullptr) row_biases_[task_.n_rows] = biases_ + to_size(h) * kBiasRow + kBiasReach;
        if (task_.chosen != nullptr)
          row_chosen_[task_.n_rows] = step_.in[9].row<const uint64_t>(step_.in[9].shape()[1] == 1 ? 0 : head_kv, t);
        if (task_.sinks != nullptr) row_sinks_[task_.n_rows] = step_.in[7].row(0)[head];
      }
    if (!point_at_sequence(tokens)) {
      for (int i = 0; i < task_.n_rows; ++i) std::fill_n(task_.out + out_offsets_[i], task_.v_dim, 0.0f);
      return;
    }
    task_.k_base = step_.in[1].data + head_kv * step_.in[1].layout.nb[2];
    if (step_.in[2].present()) task_.v_base = step_.in[2].data + head_kv * step_.in[2].layout.nb[2];
    worker_.kernels.attention(task_, static_cast<int>(step_.in[1].dtype), static_cast<int>(step_.in[2].dtype),
                              scratch_);
  }

  // Tabulates the biases of heads from `first` on, by distance.
  void spread_biases(int64_t first, int64_t n_heads) {
    for (int64_t h = 0; h < n_heads; ++h)
      for (size_t i = 0; i < kBiasRow; ++i)
        biases_[to_size(h) * kBiasRow + i] = step_.in[8].row(buckets_[i])[first + h];
  }

  // Sets the task's block table to that of the tile's sequence, and checks all entries that will be used.
  bool point_at_sequence(Range tokens) {
    const auto sequence = find_sequence(step_, worker_, tokens);
    if (!sequence) return false;
    task_.blocks = sequence->blocks;
    task_.valid = sequence->valid;
    // The positions that any row attends to: up to its own if causal, else up to a window's length after it.
    const int64_t n_all = step_.in[5].shape()[0] * kBlockTokens, window = params_.window == 0 ? n_all : params_.window;
    const int64_t end =
        params_.causal ? int64_t{sequence->last_position} + 1 : std::min(sequence->last_position + window, n_all);
    task_.first_block = static_cast<int>(std::max<int64_t>(0, sequence->first_position - window + 1) / kBlockTokens);
    task_.n_blocks = static_cast<int>(div_ceil<int64_t>(end, kBlockTokens));
    return check_blocks(step_, worker_, task_.blocks, task_.first_block, task_.n_blocks);
  }

  const Step& step_;
  Worker& worker_;
  const AttentionParams& params_;
  Units units_;
  const int32_t* positions_;
  AttentionTask task_{};
  std::byte* scratch_;
  int64_t q_offsets_[kMaxAttentionRows];
  int64_t out_offsets_[kMaxAttentionRows];
  int32_t row_positions_[kMaxAttentionRows];
  float row_slopes_[kMaxAttentionRows], row_sinks_[kMaxAttentionRows];
  const float* row_biases_[kMaxAttentionRows];
  const uint64_t* row_chosen_[kMaxAttentionRows];
  float* biases_ = nullptr;
  int32_t buckets_[kBiasRow];  // by distance
};

void run_attention(const Step& step, Worker& worker) { AttentionRunner(step, worker).run(); }

}  // namespace

const OpKernel op_kernels::paged_attention{.supports = supports_attention,
                                           .work_bytes = attention_work_bytes,
                                           .run = run_attention,
                                           .takes_all_threads = true};

}  // namespace tessera::cpu
