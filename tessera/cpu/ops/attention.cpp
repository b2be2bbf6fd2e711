// Attention over the paged cache. A unit of work is one KV head with the query heads that share it, for a tile
// of neighbouring tokens of one sequence: K and V are read once for all of them.
#include "tessera/graph/ops/attention.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

bool supports_attention(const Kernels& kernels, const Graph& graph, const Node& node) {
  for (const size_t side : {1u, 2u})
    if (kernels.kv_formats[static_cast<size_t>(graph[node.sources[side]].spec.dtype)] == nullptr) return false;
  return true;
}

size_t scratch_per_thread(const Kernels& kernels, const Step& step) {
  const auto k_dim = static_cast<int>(step.in[1].shape()[0]), v_dim = static_cast<int>(step.in[2].shape()[0]);
  return round_up<size_t>(kernels.attention_scratch_bytes(k_dim, v_dim), 64);
}

size_t attention_work_bytes(const Kernels& kernels, const Step& step) {
  return scratch_per_thread(kernels, step) * static_cast<size_t>(step.n_threads);
}

// How heads and tokens fall into units.
struct Units {
  explicit Units(const Step& step)
      : n_tokens(step.in[0].shape()[2]),
        n_heads_kv(step.in[1].shape()[2]),
        group(step.in[0].shape()[1] / n_heads_kv),
        heads_per_unit(std::min<int64_t>(group, kMaxAttentionRows)),
        units_per_group(div_ceil(group, heads_per_unit)),
        tokens_per_tile(std::max<int64_t>(1, kMaxAttentionRows / heads_per_unit)),
        sequences(step.in[4].row<const int32_t>(0)) {}

  int64_t per_tile() const { return n_heads_kv * units_per_group; }
  // The end of the tile that begins at a token: its sequence changes there, or it is full.
  int64_t tile_end(int64_t begin) const {
    int64_t end = begin + 1;
    while (end < n_tokens && end - begin < tokens_per_tile && sequences[end] == sequences[begin]) ++end;
    return end;
  }

  int64_t n_tokens, n_heads_kv;
  int64_t group;           // query heads of one KV head
  int64_t heads_per_unit;  // of those, the ones that one task holds
  int64_t units_per_group;
  int64_t tokens_per_tile;
  const int32_t* sequences;
};

class AttentionRunner {
 public:
  AttentionRunner(const Step& step, Worker& worker)
      : step_(step), worker_(worker), units_(step), positions_(step.in[3].row<const int32_t>(0)) {
    task_.q = step.in[0].row(0);
    task_.out = step.out.row(0);
    task_.q_offsets = q_offsets_;
    task_.out_offsets = out_offsets_;
    task_.positions = row_positions_;
    task_.k_dim = static_cast<int>(step.in[1].shape()[0]);
    task_.v_dim = static_cast<int>(step.in[2].shape()[0]);
    task_.scale = std::get<AttentionParams>(step.node->params).scale;
    task_.k_block_stride = static_cast<size_t>(step.in[1].layout.nb[3]);
    task_.v_block_stride = static_cast<size_t>(step.in[2].layout.nb[3]);
    scratch_ = step.work + scratch_per_thread(worker.kernels, step) * static_cast<size_t>(worker.thread.index);
  }

  // Units are handed out in order, so a thread only ever walks forward through the tiles.
  void run() {
    int64_t tile = 0, begin = 0;
    for (int64_t unit = worker_.thread.next_chunk(); !worker_.thread.cancelled(); unit = worker_.thread.next_chunk()) {
      for (; tile < unit / units_.per_tile() && begin < units_.n_tokens; ++tile) begin = units_.tile_end(begin);
      if (begin >= units_.n_tokens) return;
      run_unit({begin, units_.tile_end(begin)}, unit % units_.per_tile());
    }
  }

 private:
  void run_unit(Range tokens, int64_t unit) {
    const int64_t head_kv = unit / units_.units_per_group;
    const int64_t first = unit % units_.units_per_group * units_.heads_per_unit;
    const int64_t n_heads = std::min(units_.heads_per_unit, units_.group - first);
    task_.n_rows = 0;
    for (int64_t t = tokens.begin; t < tokens.end; ++t)
      for (int64_t h = 0; h < n_heads; ++h, ++task_.n_rows) {
        const int64_t head = head_kv * units_.group + first + h;
        q_offsets_[task_.n_rows] = step_.in[0].row(head, t) - task_.q;
        out_offsets_[task_.n_rows] = step_.out.row(head, t) - task_.out;
        row_positions_[task_.n_rows] = positions_[t];
      }
    if (!point_at_sequence(tokens)) {
      for (int i = 0; i < task_.n_rows; ++i) std::fill_n(task_.out + out_offsets_[i], task_.v_dim, 0.0f);
      return;
    }
    task_.k_base = step_.in[1].data + head_kv * step_.in[1].layout.nb[2];
    task_.v_base = step_.in[2].data + head_kv * step_.in[2].layout.nb[2];
    worker_.kernels.attention(task_, static_cast<int>(step_.in[1].dtype), static_cast<int>(step_.in[2].dtype),
                              scratch_);
  }

  // The block table of the tile's sequence, checked as far as it will be followed.
  bool point_at_sequence(Range tokens) {
    const int32_t sequence = units_.sequences[tokens.begin];
    const int64_t n_max_blocks = step_.in[5].shape()[0], n_sequences = step_.in[5].shape()[1];
    const int64_t n_physical = step_.in[1].shape()[3];
    if (sequence < 0 || sequence >= n_sequences) {
      worker_.fault.report(step_, "sequence", sequence, n_sequences);
      return false;
    }
    int32_t last = 0;
    for (int64_t t = tokens.begin; t < tokens.end; ++t) {
      if (positions_[t] < 0 || positions_[t] >= n_max_blocks * kBlockTokens) {
        worker_.fault.report(step_, "position", positions_[t], n_max_blocks * kBlockTokens);
        return false;
      }
      last = std::max(last, positions_[t]);
    }
    task_.blocks = step_.in[5].row<const int32_t>(sequence);
    task_.valid = step_.in[6].row<const uint64_t>(sequence);
    task_.n_blocks = last / kBlockTokens + 1;
    for (int i = 0; i < task_.n_blocks; ++i)
      if (task_.blocks[i] < -1 || task_.blocks[i] >= n_physical) {
        worker_.fault.report(step_, "block", task_.blocks[i], n_physical);
        return false;
      }
    return true;
  }

  const Step& step_;
  Worker& worker_;
  Units units_;
  const int32_t* positions_;
  AttentionTask task_{};
  std::byte* scratch_;
  int64_t q_offsets_[kMaxAttentionRows];
  int64_t out_offsets_[kMaxAttentionRows];
  int32_t row_positions_[kMaxAttentionRows];
};

void run_attention(const Step& step, Worker& worker) { AttentionRunner(step, worker).run(); }

}  // namespace

extern const OpKernel kAttention;
const OpKernel kAttention{.supports = supports_attention, .work_bytes = attention_work_bytes, .run = run_attention};

}  // namespace tessera::cpu
