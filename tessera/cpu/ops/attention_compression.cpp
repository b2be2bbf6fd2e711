// compress_rows: entries from the rows of caches. A unit of work is a piece of the channels of a token.
#include <algorithm>
#include <bit>

#include "tessera/base/checked.h"
#include "tessera/cpu/ops/paged.h"
#include "tessera/graph/ops/attention.h"

namespace tessera::cpu {

namespace {

// Channels of a piece: a few, because one token in decoding completes an entry for all threads.
constexpr int64_t kEntryChannels = 32;

struct CompressionShapes {
  explicit CompressionShapes(const Step& step)
      : params(std::get<CompressionParams>(step.node->params)),
        n_positions((params.overlaps ? 2 : 1) * params.ratio),
        n_channels(step.out.shape()[0]) {
    // A context with fewer positions has fewer rows.
    n_rows = std::min(n_positions / kBlockTokens + 2, step.in[5].shape()[0]) * kBlockTokens;
  }

  // Scratch memory of a thread: the rows of an entry.
  size_t bytes_per_thread() const { return to_size(n_rows) * sizeof(EntryRow); }

  const CompressionParams& params;
  int64_t n_positions;  // that count for an entry
  int64_t n_channels;
  int64_t n_rows;  // the most rows of an entry
};

// The stored positions of token t's entry in ascending order, for its channels from `begin` on. Returns their number, 0
// after reporting a fault.
int64_t find_rows(const Step& step, Worker& worker, const CompressionShapes& s, int64_t t, int64_t begin,
                  EntryRow* rows) {
  const auto sequence = find_sequence(step, worker, {t, t + 1});
  if (!sequence) return 0;
  const Operand &bias = step.in[0], &row_cache = step.in[1], &gate_cache = step.in[2];
  const int64_t end = sequence->last_position + int64_t{1}, newer = end - s.params.ratio;
  const Range positions{std::max<int64_t>(end - s.n_positions, 0), end};
  const Range blocks{positions.begin / kBlockTokens, div_ceil<int64_t>(end, kBlockTokens)};
  if (!check_blocks(step, worker, sequence->blocks, blocks.begin, blocks.end)) return 0;
  int64_t n = 0;
  for (int64_t b = blocks.begin; b < blocks.end; ++b) {
    const int64_t physical = sequence->blocks[b];
    if (physical < 0) continue;
    for (uint64_t rest = sequence->valid[b] & mask_of(b, positions); rest != 0; rest &= rest - 1) {
      const int slot = std::countr_zero(rest);
      const int64_t position = b * kBlockTokens + slot;
      const int64_t channel = begin + (s.params.overlaps && position >= newer ? s.n_channels : 0);
      rows[n++] = {.row_block = row_cache.data + physical * row_cache.layout.nb[3],
                   .gate_block = gate_cache.data + physical * gate_cache.layout.nb[3],
                   .slot = slot,
                   .channel = channel,
                   .bias = bias.row(position % s.params.ratio) + channel};
    }
  }
  return n;
}

size_t compression_work_bytes(const Kernels&, const Step& step) {
  return CompressionShapes(step).bytes_per_thread() * to_size(step.n_threads);
}

void run_compression(const Step& step, Worker& worker) {
  const CompressionShapes s(step);
  const auto* cells = step.in[7].row<const int32_t>(0);
  auto* rows = reinterpret_cast<EntryRow*>(step.work + s.bytes_per_thread() * to_size(worker.thread.index));
  const int64_t per_token = div_ceil(s.n_channels, kEntryChannels);
  const Range share = worker.share(step.out.shape()[1] * per_token);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t token = i / per_token, begin = i % per_token * kEntryChannels;
    worker.kernels.compress_rows({.rows = rows,
                                  .n_rows = cells[token] < 0 ? 0 : find_rows(step, worker, s, token, begin, rows),
                                  .row_dim = step.in[1].shape()[0],
                                  .n = std::min(kEntryChannels, s.n_channels - begin),
                                  .out = step.out.row(token) + begin});
  }
}

}  // namespace

const OpKernel op_kernels::compress_rows{.work_bytes = compression_work_bytes, .run = run_compression};

}  // namespace tessera::cpu
