// Matrix multiplication: x is packed once (quantized, for integer kernels), then threads take panels of weight rows.
// Weights in packed memory are used as they lie; others are packed panel by panel into scratch memory as they are
// used, with the same kernels and so the same bits. Where quantized weights are to be multiplied by floats, their
// panels become f32 panels in scratch memory: a way to measure what quantizing x costs, not a fast one.
#include "tessera/cpu/ops/mul_mat.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

ProductForm product_form(const Kernels& kernels, DType dtype, Activations activations) {
  const PanelFormat& own = *kernels.panel_formats[static_cast<size_t>(dtype)];
  switch (activations) {
    case Activations::float32:
      if (own.dequantize_panel == nullptr) break;
      return {*kernels.panel_formats[static_cast<size_t>(DType::f32)], own.default_group};
    case Activations::int8_32:
      return {own, 32};
    case Activations::int8_64:
      return {own, 64};
    case Activations::int8_128:
      return {own, 128};
    case Activations::automatic:
      break;
  }
  return {own, own.default_group};
}

namespace {

// Panels that a thread makes at once when weights are not multiplied as they lie: enough for the kernel's row tiles.
constexpr int64_t kScratchPanels = 4;
// Bounds on the panels of one unit of work: few enough to balance threads, enough to stream memory. Multiply-adds of a
// unit: few enough to notice a cancellation soon, a fraction of a millisecond on vector units.
constexpr int64_t kMinChunk = 4, kMaxChunk = 32, kChunksPerThread = 8;
constexpr int64_t kChunkMacs = int64_t{1} << 26;

/// The form that a step packs x for: all its products pack alike.
ProductForm form_of(const Kernels& kernels, const Step& step) {
  return product_form(kernels, step.in[0].dtype, step.activations);
}

ActivationShape shape_of_x(const Kernels& kernels, const Step& step) {
  return {.k = step.in[1].shape()[0], .n_tokens = step.in[1].shape()[1], .max_group = form_of(kernels, step).max_group};
}

/// How the weights of one product become the panels that are multiplied.
struct Panels {
  Panels(const Kernels& kernels, const Operand& weights, const Step& step)
      : stored(*kernels.panel_formats[static_cast<size_t>(weights.dtype)]),
        multiplied(product_form(kernels, weights.dtype, step.activations).format),
        k(step.in[1].shape()[0]),
        is_packed(weights.packed),
        is_widened(&stored != &multiplied) {}

  /// A thread's scratch: panels to multiply, then one packed panel on the way to them.
  size_t multiplied_bytes() const {
    return is_packed && !is_widened ? 0 : static_cast<size_t>(kScratchPanels) * multiplied.panel_bytes(k);
  }
  size_t scratch_bytes() const { return multiplied_bytes() + (is_widened && !is_packed ? stored.panel_bytes(k) : 0); }

  const PanelFormat& stored;
  const PanelFormat& multiplied;
  int64_t k;
  bool is_packed, is_widened;
};

bool supports_mul_mat(const Kernels& kernels, const Graph& graph, const Node& node) {
  return kernels.panel_formats[static_cast<size_t>(graph[node.sources[0]].spec.dtype)] != nullptr;
}

// A few tokens are packed by every thread for itself, which is cheaper than a barrier.
bool packs_privately(const PanelFormat& format, int64_t n_tokens) { return n_tokens <= format.token_tile; }

// Scratch: the packed activations (one copy, or one per thread), then each thread's panels.
struct WorkLayout {
  WorkLayout(const Kernels& kernels, const Step& step) {
    const PanelFormat& format = form_of(kernels, step).format;
    const ActivationShape x = shape_of_x(kernels, step);
    activation_bytes = format.activation_bytes(x);
    n_copies = packs_privately(format, x.n_tokens) ? step.n_threads : 1;
    panel_bytes = Panels(kernels, step.in[0], step).scratch_bytes();
    for (const Step::Product& product : step.more_products)
      panel_bytes = std::max(panel_bytes, Panels(kernels, product.weights, step).scratch_bytes());
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
  few.in[1].layout.shape[1] = std::min<int64_t>(step.in[1].shape()[1], form_of(kernels, step).format.token_tile);
  return std::max(WorkLayout(kernels, step).total, WorkLayout(kernels, few).total);
}

class MulMatRunner {
 public:
  MulMatRunner(const Step& step, Worker& worker)
      : step_(step), worker_(worker), layout_(worker.kernels, step), x_(shape_of_x(worker.kernels, step)) {}

  void run() {
    if (x_.n_tokens == 0) return;
    const PanelFormat& format = form_of(worker_.kernels, step_).format;
    const bool is_private = packs_privately(format, x_.n_tokens);
    activations_ = step_.work + (is_private ? layout_.activation_bytes * static_cast<size_t>(worker_.thread.index) : 0);
    if (is_private) {
      pack(format, 0, x_.n_tokens);
    } else {
      const Range tiles = worker_.share(div_ceil<int64_t>(x_.n_tokens, format.token_tile));
      if (!tiles.empty())
        pack(format, tiles.begin * format.token_tile, std::min(x_.n_tokens, tiles.end * format.token_tile));
      worker_.thread.barrier();
    }
    // Chunk numbers run on through all products.
    int64_t first_chunk = 0, chunk = worker_.thread.next_chunk();
    multiply(step_.in[0], step_.out, first_chunk, chunk);
    for (const Step::Product& product : step_.more_products) multiply(product.weights, product.out, first_chunk, chunk);
  }

 private:
  void pack(const PanelFormat& format, int64_t begin, int64_t end) {
    format.pack_activations(step_.in[1].row(0), static_cast<size_t>(step_.in[1].layout.nb[1]), x_, begin, end,
                            activations_);
  }

  // This thread's chunks of one product, whose chunks are numbered from first_chunk on.
  void multiply(const Operand& weights, const Operand& out, int64_t& first_chunk, int64_t& chunk) {
    const int64_t n_panels = div_ceil<int64_t>(weights.shape()[1], kPanelRows);
    const int64_t size = std::clamp(std::min(n_panels / (worker_.thread.count * kChunksPerThread),
                                             kChunkMacs / (kPanelRows * x_.k * std::max<int64_t>(x_.n_tokens, 1))),
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
    const Panels panels(worker_.kernels, weights, step_);
    const int64_t n_rows = weights.shape()[1];
    const auto product = [&](const std::byte* from_panels, int64_t from, int64_t to) {
      panels.multiplied.multiply(from_panels, std::min(to * kPanelRows, n_rows) - from * kPanelRows, x_, activations_,
                                 0, x_.n_tokens, out.row(0) + from * kPanelRows, static_cast<size_t>(out.layout.nb[1]));
    };
    if (panels.multiplied_bytes() == 0)
      return product(weights.data + static_cast<size_t>(begin) * panels.stored.panel_bytes(x_.k), begin, end);
    std::byte* scratch = step_.work + layout_.activation_bytes * static_cast<size_t>(layout_.n_copies) +
                         layout_.panel_bytes * static_cast<size_t>(worker_.thread.index);
    const size_t panel_bytes = panels.multiplied.panel_bytes(x_.k);
    for (int64_t from = begin; from < end; from += kScratchPanels) {
      const int64_t to = std::min(from + kScratchPanels, end);
      for (int64_t panel = from; panel < to; ++panel)
        make_panel(panels, weights, panel, scratch + static_cast<size_t>(panel - from) * panel_bytes,
                   scratch + panels.multiplied_bytes());
      product(scratch, from, to);
    }
  }

  // A panel to multiply; `stored` is scratch for its packed form.
  void make_panel(const Panels& panels, const Operand& weights, int64_t panel, std::byte* multiplied,
                  std::byte* stored) const {
    if (!panels.is_widened) return pack_panel(panels, weights, panel, multiplied);
    if (panels.is_packed) {
      stored = weights.data + static_cast<size_t>(panel) * panels.stored.panel_bytes(x_.k);
    } else {
      pack_panel(panels, weights, panel, stored);
    }
    panels.stored.dequantize_panel(stored, x_.k, reinterpret_cast<float*>(multiplied));
  }

  void pack_panel(const Panels& panels, const Operand& weights, int64_t panel, std::byte* packed) const {
    const int64_t row = panel * kPanelRows;
    const int64_t n_rows = std::min<int64_t>(kPanelRows, weights.shape()[1] - row);
    panels.stored.pack(weights.row<const void>(row), static_cast<size_t>(weights.layout.nb[1]),
                       static_cast<int>(n_rows), x_.k, packed);
  }

  const Step& step_;
  Worker& worker_;
  WorkLayout layout_;
  ActivationShape x_;
  std::byte* activations_ = nullptr;
};

void run_mul_mat(const Step& step, Worker& worker) { MulMatRunner(step, worker).run(); }

}  // namespace

extern const OpKernel kMulMat;
const OpKernel kMulMat{.supports = supports_mul_mat, .work_bytes = mul_mat_work_bytes, .run = run_mul_mat};

}  // namespace tessera::cpu
