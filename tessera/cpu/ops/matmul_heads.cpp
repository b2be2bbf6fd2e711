// mul_mat_heads: multiplies each head's rows by its own matrix. One thread packs and multiplies all rows of a head, so
// no barrier is needed.
#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cpu/ops/matmul_panels.h"

namespace tessera::cpu {

namespace {

bool supports_mul_mat_heads(const Kernels& kernels, const Graph& graph, const Node& node) {
  return kernels.panel_formats[to_size(graph[node.sources[0]].spec.dtype)] != nullptr;
}

struct HeadShapes {
  HeadShapes(const Kernels& kernels, const Step& step)
      : form(product_form(kernels, step.in[0].dtype, step.activations)),
        x{.k = step.in[1].shape()[0], .n_tokens = step.in[1].shape()[2], .max_group = form.max_group},
        activation_bytes(form.format.activation_bytes(x)),
        thread_bytes(activation_bytes + panel_scratch_bytes(kernels, step)) {}

  ProductForm form;
  ActivationShape x;
  size_t activation_bytes, thread_bytes;
};

size_t mul_mat_heads_work_bytes(const Kernels& kernels, const Step& step) {
  return HeadShapes(kernels, step).thread_bytes * to_size(step.n_threads);
}

void run_mul_mat_heads(const Step& step, Worker& worker) {
  const HeadShapes shapes(worker.kernels, step);
  if (shapes.x.n_tokens == 0) return;
  const Panels panels(worker.kernels, step.in[0], step.activations);
  std::byte* packed = step.work + shapes.thread_bytes * to_size(worker.thread.index);
  const Range heads = worker.share(step.out.shape()[1]);
  for (int64_t h = heads.begin; h < heads.end && !worker.thread.cancelled(); ++h) {
    shapes.form.format.pack_activations(step.in[1].row(h), to_size(step.in[1].layout.nb[2]), shapes.x, 0,
                                        shapes.x.n_tokens, packed);
    panels.multiply(h, 0, panels.n_panels(), {shapes.x, packed}, step.out.row(h), to_size(step.out.layout.nb[2]),
                    packed + shapes.activation_bytes);
  }
}

}  // namespace

const OpKernel op_kernels::mul_mat_heads{.supports = supports_mul_mat_heads,
                                         .work_bytes = mul_mat_heads_work_bytes,
                                         .run = run_mul_mat_heads,
                                         .takes_all_threads = true};

}  // namespace tessera::cpu
