// Attention among the tokens of a batch. Each thread lists the tokens of each sequence separately. A task is a block of
// 64 queries of a head (forward), or a KV head of a sequence with all its query heads (backward), so that each sum is
// computed by one thread.
#include "tessera/graph/ops/self_attention.h"
#include "tessera/base/index.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

// Operands of both operations; dy belongs only to the backward one.
constexpr size_t kQ = 0, kK = 1, kV = 2, kPositions = 3, kSequences = 4, kSinks = 5, kDy = 6;

int64_t n_tokens_of(const Step& step) { return step.in[kQ].shape()[2]; }
bool has_gradient(const Step& step) { return step.node->op == Op::self_attention_grad; }
bool has_sinks(const Step& step) { return step.node->sources[kSinks] != kNoNode; }
int64_t self_v_dim(const Step& step) { return has_gradient(step) ? step.in[kDy].shape()[0] : step.out.shape()[0]; }

/// The scratch memory of one thread, as offsets in bytes: the kernel's, then the gathered tokens.
struct ThreadScratch {
  ThreadScratch(const Kernels& kernels, const Step& step) {
    const auto n = to_size(n_tokens_of(step));
    keys =
        kernels.self_attention->scratch_bytes({.k_dim = step.in[kQ].shape()[0],
                                               .v_dim = self_v_dim(step),
                                               .n_tokens = n_tokens_of(step),
                                               .has_gradient = has_gradient(step),
                                               .has_cap = std::get<AttentionParams>(step.node->params).soft_cap != 0});
    tokens = keys + n * sizeof(uint64_t);
    positions = tokens + n * sizeof(int32_t);
    lowest = positions + n * sizeof(float);
    highest = lowest + n * sizeof(float);
    end = round_up<size_t>(highest + n * sizeof(float), 64);
  }

  size_t keys, tokens, positions, lowest, highest, end;
};

/// Bytes after the scratch memory of all threads: the contribution of each token to the gradient of each head's sink.
size_t sink_bytes(const Step& step) {
  if (!has_gradient(step) || !has_sinks(step)) return 0;
  return sizeof(float) * to_size(step.in[kQ].shape()[1] * n_tokens_of(step));
}

size_t self_attention_work_bytes(const Kernels& kernels, const Step& step) {
  return ThreadScratch(kernels, step).end * to_size(step.n_threads) + sink_bytes(step);
}

/// The tokens of a batch, grouped by sequence. Within a sequence they have the order of the batch.
class Gathered {
 public:
  Gathered(const Step& step, Worker& worker, const ThreadScratch& at, std::byte* scratch)
      : n_(n_tokens_of(step)),
        sequences_(step.in[kSequences].row<const int32_t>(0)),
        tokens_(reinterpret_cast<int32_t*>(scratch + at.tokens)),
        positions_(reinterpret_cast<float*>(scratch + at.positions)),
        lowest_(reinterpret_cast<float*>(scratch + at.lowest)),
        highest_(reinterpret_cast<float*>(scratch + at.highest)) {
    sort(reinterpret_cast<uint64_t*>(scratch + at.keys));
    const auto* positions = step.in[kPositions].row<const int32_t>(0);
    for (int64_t i = 0; i < n_; ++i) {
      const int32_t position = positions[tokens_[i]];
      const bool is_valid = position >= 0 && position < kMaxSelfPositions;
      if (!is_valid) worker.fault.report(step, "position", position, kMaxSelfPositions);
      positions_[i] = is_valid ? static_cast<float>(position) : 0.0f;
    }
    for (int64_t begin = 0; begin < n_; begin = end_of(begin)) find_ranges({begin, end_of(begin)});
  }

  int64_t n_tokens() const { return n_; }
  /// Returns the end of the sequence that begins at gathered token i.
  int64_t end_of(int64_t i) const {
    int64_t end = i + 1;
    while (end < n_ && sequences_[tokens_[end]] == sequences_[tokens_[i]]) ++end;
    return end;
  }
  void point_at(Range sequence, SelfAttentionTask& task) const {
    task.tokens = tokens_ + sequence.begin;
    task.n_tokens = sequence.size();
    task.positions = positions_ + sequence.begin;
    task.lowest = lowest_ + sequence.begin;
    task.highest = highest_ + sequence.begin;
  }

 private:
  void sort(uint64_t* keys) {
    for (int64_t t = 0; t < n_; ++t)
      keys[t] = uint64_t{static_cast<uint32_t>(sequences_[t])} << 32 | static_cast<uint64_t>(t);
    if (!std::is_sorted(keys, keys + n_)) std::sort(keys, keys + n_);
    for (int64_t i = 0; i < n_; ++i) tokens_[i] = static_cast<int32_t>(keys[i] & 0xffffffffu);
  }

  // Computes the range of positions of each group. A sequence has no more groups than tokens.
  void find_ranges(Range sequence) {
    for (int64_t group = 0; group * kSelfGroup < sequence.size(); ++group) {
      const int64_t begin = sequence.begin + group * kSelfGroup;
      const int64_t end = std::min<int64_t>(begin + kSelfGroup, sequence.end);
      const auto [lowest, highest] = std::minmax_element(positions_ + begin, positions_ + end);
      lowest_[sequence.begin + group] = *lowest;
      highest_[sequence.begin + group] = *highest;
    }
  }

  int64_t n_;
  const int32_t* sequences_;  // indexed by token of the batch
  int32_t* tokens_;
  float* positions_;
  float *lowest_, *highest_;  // indexed by the sequence's first gathered token plus the group
};

/// Rows of one head of an operand.
HeadRows<const float> rows_of(const Operand& x, int64_t head) {
  return {x.row<const float>(head), x.layout.nb[2] / static_cast<int64_t>(sizeof(float))};
}

/// Rows of one head of n_heads rows of `dim` elements, contiguous.
HeadRows<float> rows_of(float* x, int64_t head, int64_t n_heads, int64_t dim) {
  return {x + head * dim, n_heads * dim};
}

class SelfAttentionRunner {
 public:
  SelfAttentionRunner(const Step& step, Worker& worker)
      : step_(step),
        worker_(worker),
        params_(std::get<AttentionParams>(step.node->params)),
        layout_(worker.kernels, step),
        scratch_(step.work + layout_.end * to_size(worker.thread.index)),
        gathered_(step, worker, layout_, scratch_),
        n_heads_(step.in[kQ].shape()[1]),
        n_heads_kv_(step.in[kK].shape()[1]) {
    task_.k_dim = step.in[kQ].shape()[0];
    task_.v_dim = self_v_dim(step);
    task_.scale = params_.scale;
    task_.soft_cap = params_.soft_cap;
    task_.causal = params_.causal;
    task_.window = static_cast<float>(std::min(params_.window, kMaxSelfPositions));
    task_.chunked = params_.chunked;
  }

  void run_forward() {
    const auto n_blocks = [](Range sequence) { return div_ceil<int64_t>(sequence.size(), kSelfBlock); };
    for_tasks([&](Range sequence) { return n_blocks(sequence) * n_heads_; },
              [&](Range sequence, int64_t task) {
                const int64_t head = task % n_heads_;
                point_at_head(head);
                // The last block may attend to the most keys, so it goes first to balance the threads.
                const int64_t block = n_blocks(sequence) - 1 - task / n_heads_;
                worker_.kernels.self_attention->forward(
                    task_, block * kSelfBlock, rows_of(step_.out.row(0), head, n_heads_, task_.v_dim), scratch_);
              });
  }

  void run_backward() {
    const Operand& v = step_.in[kV];
    const SelfAttentionOffsets at = self_attention_offsets(step_.in[kQ].shape(), step_.in[kK].shape(),
                                                           v.present() ? &v.shape() : nullptr, has_sinks(step_));
    float* out = step_.out.row(0);
    for_tasks([&](Range) { return n_heads_kv_; },
              [&](Range, int64_t head_kv) {
                SelfAttentionGradients to{};
                to.dk = rows_of(out + at.dk, head_kv, n_heads_kv_, task_.k_dim);
                clear(to.dk, task_.k_dim);
                to.dv = {to.dk.first + (task_.k_dim - task_.v_dim), to.dk.stride};
                if (v.present()) {
                  to.dv = rows_of(out + at.dv, head_kv, n_heads_kv_, task_.v_dim);
                  clear(to.dv, task_.v_dim);
                }
                add_gradients(head_kv, out, to);
              });
    if (!has_sinks(step_)) return;
    worker_.thread.barrier();
    const Range heads = worker_.share(n_heads_);
    for (int64_t head = heads.begin; head < heads.end; ++head) {
      const float* terms = sink_terms(head);
      double sum = 0;
      for (int64_t t = 0; t < gathered_.n_tokens(); ++t) sum += double{terms[t]};
      out[at.dsinks + head] = static_cast<float>(sum);
    }
  }

 private:
  // Calls use(sequence, task) for this thread's share of the n_tasks(sequence) tasks of each sequence. Tasks are
  // assigned in ascending order, so each thread advances through the sequences once.
  template <class Count, class Use>
  void for_tasks(Count n_tasks, Use use) {
    Range sequence;
    int64_t first_task = 0, n = 0;
    for (int64_t task = worker_.thread.next_chunk(); !worker_.thread.cancelled(); task = worker_.thread.next_chunk()) {
      while (task >= first_task + n) {
        if (sequence.end == gathered_.n_tokens()) return;
        first_task += n;
        sequence = {sequence.end, gathered_.end_of(sequence.end)};
        n = n_tasks(sequence);
        gathered_.point_at(sequence, task_);
      }
      use(sequence, task - first_task);
    }
  }

  void point_at_head(int64_t head) {
    const int64_t head_kv = head / (n_heads_ / n_heads_kv_);
    task_.q = rows_of(step_.in[kQ], head);
    task_.k = rows_of(step_.in[kK], head_kv);
    task_.v = {task_.k.first + (task_.k_dim - task_.v_dim), task_.k.stride};
    if (step_.in[kV].present()) task_.v = rows_of(step_.in[kV], head_kv);
    task_.slope = params_.max_alibi == 0 ? 0.0f : alibi_slope(params_.max_alibi, head, n_heads_);
    task_.sink = has_sinks(step_) ? step_.in[kSinks].row(0) + head : nullptr;
  }

  // Adds the gradients of one KV head, over the query heads that share it, in order.
  void add_gradients(int64_t head_kv, float* dq, SelfAttentionGradients& to) {
    const int64_t group = n_heads_ / n_heads_kv_;
    for (int64_t head = head_kv * group; head < (head_kv + 1) * group && !worker_.thread.cancelled(); ++head) {
      point_at_head(head);
      to.dy = rows_of(step_.in[kDy], head);
      to.dq = rows_of(dq, head, n_heads_, task_.k_dim);
      to.sink_terms = has_sinks(step_) ? sink_terms(head) : nullptr;
      worker_.kernels.self_attention->backward(task_, to, scratch_);
    }
  }

  void clear(HeadRows<float> rows, int64_t dim) const {
    for (int64_t i = 0; i < task_.n_tokens; ++i) std::fill_n(rows.first + task_.tokens[i] * rows.stride, dim, 0.0f);
  }

  float* sink_terms(int64_t head) const {
    auto* terms = reinterpret_cast<float*>(step_.work + layout_.end * to_size(step_.n_threads));
    return terms + head * gathered_.n_tokens();
  }

  const Step& step_;
  Worker& worker_;
  const AttentionParams& params_;
  ThreadScratch layout_;
  std::byte* scratch_;
  Gathered gathered_;
  int64_t n_heads_, n_heads_kv_;
  SelfAttentionTask task_{};
};

void run_self_attention(const Step& step, Worker& worker) { SelfAttentionRunner(step, worker).run_forward(); }
void run_self_attention_grad(const Step& step, Worker& worker) { SelfAttentionRunner(step, worker).run_backward(); }

}  // namespace

const OpKernel op_kernels::self_attention{
    .work_bytes = self_attention_work_bytes, .run = run_self_attention, .takes_all_threads = true};
const OpKernel op_kernels::self_attention_grad{.supports = nullptr,
                                               .work_bytes = self_attention_work_bytes,
                                               .run = run_self_attention_grad,
                                               .takes_all_threads = true};

}  // namespace tessera::cpu
