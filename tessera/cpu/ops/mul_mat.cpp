// Matrix multiplication: x is packed once (quantized, for integer kernels), then threads take panels of weight rows.
// Weights in packed memory are used as they lie; others are packed panel by panel into scratch memory as they are
// used, with the same kernels and so the same bits.
#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

// Panels that a thread packs at once when weights are not packed: enough for the kernel's row tiles.
constexpr int64_t kScratchPanels = 4;
// Bounds on the panels of one unit of work: few enough to balance threads, enough to stream memory. Multiply-adds of a
// unit: few enough to notice a cancellation soon, a fraction of a millisecond on vector units.
constexpr int64_t kMinChunk = 4, kMaxChunk = 32, kChunksPerThread = 8;
constexpr int64_t kChunkMacs = int64_t{1} << 26;

const PanelFormat& format_of(const Kernels& kernels, const Step& step) {
  return *kernels.panel_formats[static_cast<size_t>(step.in[0].dtype)];
}

bool supports_mul_mat(const Kernels& kernels, const Graph& graph, const Node& node) {
  return kernels.panel_formats[static_cast<size_t>(graph[node.sources[0]].spec.dtype)] != nullptr;
}

// A few tokens are packed by every thread for itself, which is cheaper than a barrier.
bool packs_privately(const PanelFormat& format, int64_t n_tokens) { return n_tokens <= format.token_tile; }

// Scratch: the packed activations (one copy, or one per thread), then each thread's panels.
struct WorkLayout {
  WorkLayout(const Kernels& kernels, const Step& step) {
    const PanelFormat& format = format_of(kernels, step);
    const int64_t k = step.in[1].shape()[0], n_tokens = step.in[1].shape()[1];
    activation_bytes = format.activation_bytes(k, n_tokens);
    n_copies = packs_privately(format, n_tokens) ? step.n_threads : 1;
    bool any_unpacked = !step.in[0].packed;
    size_t largest = format.panel_bytes(k);
    for (const Step::Product& product : step.more_products) {
      any_unpacked |= !product.weights.packed;
      largest = std::max(largest, kernels.panel_formats[static_cast<size_t>(product.weights.dtype)]->panel_bytes(k));
    }
    panel_bytes = any_unpacked ? largest * static_cast<size_t>(kScratchPanels) : 0;
    total = activation_bytes * static_cast<size_t>(n_copies) + panel_bytes * static_cast<size_t>(step.n_threads);
  }

  size_t activation_bytes = 0;
  int n_copies = 1;
  size_t panel_bytes = 0;  // per thread
  size_t total = 0;
};

// Never less for more tokens: few tokens are packed once per thread, which can take more than many tokens packed once.
size_t mul_mat_work_bytes(const Kernels& kernels, const Step& step) {
  Step few = step;
  few.in[1].layout.shape[1] = std::min<int64_t>(step.in[1].shape()[1], format_of(kernels, step).token_tile);
  return std::max(WorkLayout(kernels, step).total, WorkLayout(kernels, few).total);
}

class MulMatRunner {
 public:
  MulMatRunner(const Step& step, Worker& worker)
      : step_(step),
        worker_(worker),
        layout_(worker.kernels, step),
        k_(step.in[1].shape()[0]),
        n_tokens_(step.in[1].shape()[1]) {}

  void run() {
    if (n_tokens_ == 0) return;
    const PanelFormat& format = format_of(worker_.kernels, step_);
    const bool is_private = packs_privately(format, n_tokens_);
    activations_ = step_.work + (is_private ? layout_.activation_bytes * static_cast<size_t>(worker_.thread.index) : 0);
    if (is_private) {
      pack(format, 0, n_tokens_);
    } else {
      const Range tiles = worker_.share(div_ceil<int64_t>(n_tokens_, format.token_tile));
      if (!tiles.empty())
        pack(format, tiles.begin * format.token_tile, std::min(n_tokens_, tiles.end * format.token_tile));
      worker_.thread.barrier();
    }
    // Chunk numbers run on through all products.
    int64_t first_chunk = 0, chunk = worker_.thread.next_chunk();
    multiply(step_.in[0], step_.out, first_chunk, chunk);
    for (const Step::Product& product : step_.more_products) multiply(product.weights, product.out, first_chunk, chunk);
  }

 private:
  void pack(const PanelFormat& format, int64_t begin, int64_t end) {
    format.pack_activations(step_.in[1].row(0), static_cast<size_t>(step_.in[1].layout.nb[1]), k_, n_tokens_, begin,
                            end, activations_);
  }

  // This thread's chunks of one product, whose chunks are numbered from first_chunk on.
  void multiply(const Operand& weights, const Operand& out, int64_t& first_chunk, int64_t& chunk) {
    const int64_t n_panels = div_ceil<int64_t>(weights.shape()[1], kPanelRows);
    const int64_t size = std::clamp(std::min(n_panels / (worker_.thread.count * kChunksPerThread),
                                             kChunkMacs / (kPanelRows * k_ * std::max<int64_t>(n_tokens_, 1))),
                                    kMinChunk, kMaxChunk);
    const int64_t n_chunks = div_ceil(n_panels, size);
    while (chunk < first_chunk + n_chunks && !worker_.thread.cancelled()) {
      const int64_t begin = (chunk - first_chunk) * size;
      multiply_panels(weights, out, begin, std::min(begin + size, n_panels));
      chunk = worker_.thread.next_chunk();
    }
    first_chunk += n_chunks;
  }

  void multiply_panels(const Operand& weights, const Operand& out, int64_t begin, int64_t end) {
    const PanelFormat& format = *worker_.kernels.panel_formats[static_cast<size_t>(weights.dtype)];
    const int64_t n_rows = weights.shape()[1];
    const size_t panel_bytes = format.panel_bytes(k_);
    const auto product = [&](const std::byte* panels, int64_t from, int64_t to) {
      format.multiply(panels, std::min(to * kPanelRows, n_rows) - from * kPanelRows, k_, activations_, n_tokens_, 0,
                      n_tokens_, out.row(0) + from * kPanelRows, static_cast<size_t>(out.layout.nb[1]));
    };
    if (weights.packed) return product(weights.data + static_cast<size_t>(begin) * panel_bytes, begin, end);
    std::byte* scratch = step_.work + layout_.activation_bytes * static_cast<size_t>(layout_.n_copies) +
                         layout_.panel_bytes * static_cast<size_t>(worker_.thread.index);
    const auto row_bytes = static_cast<size_t>(weights.layout.nb[1]);
    for (int64_t from = begin; from < end; from += kScratchPanels) {
      const int64_t to = std::min(from + kScratchPanels, end);
      for (int64_t panel = from; panel < to; ++panel) {
        const int64_t row = panel * kPanelRows;
        format.pack(weights.row<const void>(row), row_bytes,
                    static_cast<int>(std::min<int64_t>(kPanelRows, n_rows - row)), k_,
                    scratch + static_cast<size_t>(panel - from) * panel_bytes);
      }
      product(scratch, from, to);
    }
  }

  const Step& step_;
  Worker& worker_;
  WorkLayout layout_;
  int64_t k_, n_tokens_;
  std::byte* activations_ = nullptr;
};

void run_mul_mat(const Step& step, Worker& worker) { MulMatRunner(step, worker).run(); }

}  // namespace

extern const OpKernel kMulMat;
const OpKernel kMulMat{.supports = supports_mul_mat, .work_bytes = mul_mat_work_bytes, .run = run_mul_mat};

}  // namespace tessera::cpu
