// Matrix multiplication. x is packed once (for integer kernels: quantized), then panels of weight rows are distributed
// over the threads.
#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cpu/ops/matmul_panels.h"

namespace tessera::cpu {

namespace {

/// Returns the product form for which a step packs x. All its products pack x in the same way.
ProductForm form_of(const Kernels& kernels, const Step& step) {
  return product_form(kernels, step.in[0].dtype, step.activations);
}

ActivationShape shape_of_x(const Kernels& kernels, const Step& step) {
  return {.k = step.in[1].shape()[0], .n_tokens = step.in[1].shape()[1], .max_group = form_of(kernels, step).max_group};
}

bool supports_mul_mat(const Kernels& kernels, const Graph& graph, const Node& node) {
  return kernels.panel_formats[to_size(graph[node.sources[0]].spec.dtype)] != nullptr;
}

// Few tokens are packed by every thread separately, which is cheaper than a barrier.
bool packs_privately(const PanelFormat& format, int64_t n_tokens) { return n_tokens <= format.token_tile; }

// Scratch memory: the packed activations (one copy, or one per thread), then each thread's panels.
struct WorkLayout {
  WorkLayout(const Kernels& kernels, const Step& step) {
    const PanelFormat& format = form_of(kernels, step).format;
    const ActivationShape x = shape_of_x(kernels, step);
    activation_bytes = format.activation_bytes(x);
    n_copies = packs_privately(format, x.n_tokens) ? step.n_threads : 1;
    panel_bytes = panel_scratch_bytes(kernels, step);
    total = activation_bytes * to_size(n_copies) + panel_bytes * to_size(step.n_threads);
  }

  size_t activation_bytes = 0;
  int n_copies = 1;
  size_t panel_bytes = 0;  // per thread
  size_t total = 0;
};

// The size must not decrease with more tokens: few tokens packed once per thread can need more than many packed once.
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
    activations_ = step_.work + (is_private ? layout_.activation_bytes * to_size(worker_.thread.index) : 0);
    if (is_private) {
      pack(format, 0, x_.n_tokens);
    } else {
      const Range tiles = worker_.share(div_ceil<int64_t>(x_.n_tokens, format.token_tile));
      if (!tiles.empty())
        pack(format, tiles.begin * format.token_tile, std::min(x_.n_tokens, tiles.end * format.token_tile));
      worker_.thread.barrier();
    }
    worker_.note_prepared();
    // Chunks are numbered across all products.
    int64_t first_chunk = 0, chunk = worker_.thread.next_chunk();
    multiply(step_.in[0], step_.out, first_chunk, chunk);
    for (const Step::Product& product : step_.more_products) multiply(product.weights, product.out, first_chunk, chunk);
  }

 private:
  void pack(const PanelFormat& format, int64_t begin, int64_t end) {
    format.pack_activations(step_.in[1].row(0), to_size(step_.in[1].layout.nb[1]), x_, begin, end, activations_);
  }

  // Computes this thread's chunks of one product, whose chunks are numbered from first_chunk on.
  void multiply(const Operand& weights, const Operand& out, int64_t& first_chunk, int64_t& chunk) {
    const Panels panels(worker_.kernels, weights, step_.activations);
    const int64_t n_panels = panels.n_panels();
    const int64_t size = panels_per_chunk(n_panels, worker_.thread.count, x_.k, x_.n_tokens);
    const int64_t n_chunks = div_ceil(n_panels, size);
    std::byte* scratch = step_.work + layout_.activation_bytes * to_size(layout_.n_copies) +
                         layout_.panel_bytes * to_size(worker_.thread.index);
    while (chunk < first_chunk + n_chunks && !worker_.thread.cancelled()) {
      const int64_t begin = (chunk - first_chunk) * size;
      panels.multiply(0, begin, std::min(begin + size, n_panels), {x_, activations_}, out.row(0),
                      to_size(out.layout.nb[1]), scratch);
      chunk = worker_.thread.next_chunk();
    }
    first_chunk += n_chunks;
  }

  const Step& step_;
  Worker& worker_;
  WorkLayout layout_;
  ActivationShape x_;
  std::byte* activations_ = nullptr;
};

void run_mul_mat(const Step& step, Worker& worker) { MulMatRunner(step, worker).run(); }

}  // namespace

const OpKernel op_kernels::mul_mat{
    .supports = supports_mul_mat, .work_bytes = mul_mat_work_bytes, .run = run_mul_mat, .takes_all_threads = true};

}  // namespace tessera::cpu
