// window_keys: the entries and tokens that each token sees, as bits. A unit of work is a piece of a token's words.
#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/cpu/ops/paged.h"
#include "tessera/graph/ops/attention.h"

namespace tessera::cpu {

namespace {

constexpr int64_t kPieceWords = 512;

void run_window_keys(const Step& step, Worker& worker) {
  const auto& params = std::get<KeyWindowParams>(step.node->params);
  const auto* positions = step.in[0].row<const int32_t>(0);
  const int64_t n_blocks = step.out.shape()[0], n_entry_blocks = params.n_entry_blocks;
  const int64_t n_positions = (n_blocks - n_entry_blocks) * kBlockTokens;
  const int64_t per_token = div_ceil(n_blocks, kPieceWords);
  const Range share = worker.share(step.out.shape()[2] * per_token);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t token = i / per_token, begin = i % per_token * kPieceWords, p = positions[token];
    const int64_t end = std::min(begin + kPieceWords, n_blocks);
    auto* const out = step.out.row<uint64_t>(0, token);
    if (p < 0 || p >= n_positions) {
      worker.fault.report(step, "position", p, n_positions);
      std::fill(out + begin, out + end, uint64_t{0});
      continue;
    }
    const uint64_t* chosen = step.in[2].present() ? step.in[2].row<const uint64_t>(0, token) : nullptr;
    const Range entries{0, (p + 1) / params.ratio};
    const Range tokens{params.window > 0 ? std::max<int64_t>(p - params.window + 1, 0) : 0, p + 1};
    for (int64_t b = begin; b < end; ++b) {
      if (b < n_entry_blocks)
        out[b] = mask_of(b, entries) & (chosen == nullptr ? ~uint64_t{0} : chosen[b]);
      else
        out[b] = mask_of(b - n_entry_blocks, tokens);
    }
  }
}

}  // namespace

const OpKernel op_kernels::window_keys{.run = run_window_keys};

}  // namespace tessera::cpu
