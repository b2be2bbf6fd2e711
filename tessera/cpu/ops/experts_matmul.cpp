// Products of experts. The rows of an expert are adjacent (graph/ops/experts.h), so each expert is an ordinary matrix
// product on the rows routed to it. The units of work are (expert, panels).
// Each token's row is packed once, alone, for any number of experts. Each expert then copies the words of its rows,
// interleaved. This works because the packed form of T rows interleaves the packed forms of the single rows word by
// word, which a test checks for all formats.
#include <algorithm>
#include <cstring>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cpu/ops/experts_routes.h"
#include "tessera/cpu/ops/matmul_panels.h"

namespace tessera::cpu {

namespace {

constexpr size_t kGroupAlignment = 64;

bool supports_mul_mat_experts(const Kernels& kernels, const Graph& graph, const Node& node) {
  return kernels.panel_formats[to_size(graph[node.sources[0]].spec.dtype)] != nullptr;
}

/// Sizes of the products of a step. All of them pack x in the same way.
struct Shapes {
  Shapes(const Kernels& kernels, const Step& step)
      : form(product_form(kernels, step.in[0].dtype, step.activations)),
        input(std::get<ExpertProductParams>(step.node->params).input),
        k(step.in[1].shape()[0]),
        n_x(step.in[1].shape()[1]),
        n_pairs(step.out.shape()[1]),
        n_experts(step.in[0].shape()[2]) {}

  ActivationShape rows(int64_t n) const { return {.k = k, .n_tokens = n, .max_group = form.max_group}; }
  /// Bytes of one packed row in a group. The division is exact, since 16 rows need no padding to 64 bytes.
  size_t row_bytes() const { return form.format.activation_bytes(rows(16)) / 16; }
  size_t group_bytes(int64_t n) const { return round_up(to_size(n) * row_bytes(), kGroupAlignment); }
  /// Few rows are packed by every thread separately, which is cheaper than a barrier.
  bool packs_privately() const { return n_x <= form.format.token_tile; }

  ProductForm form;
  ExpertInput input;
  int64_t k;
  int64_t n_x;  // rows of x
  int64_t n_pairs, n_experts;
};

// Scratch memory: packed activations (one copy, or one per thread), then each thread's panels. A copy consists of the
// separate rows of tokens, then the rows of each expert.
struct ExpertsWorkLayout {
  ExpertsWorkLayout(const Kernels& kernels, const Step& step, const Shapes& s) {
    token_bytes = s.input == ExpertInput::tokens ? to_size(s.n_x) * s.group_bytes(1) : 0;
    copy_bytes = token_bytes + round_up(to_size(s.n_pairs) * s.row_bytes(), kGroupAlignment) +
                 kGroupAlignment * to_size(std::min(s.n_experts, s.n_pairs));
    n_copies = s.packs_privately() ? step.n_threads : 1;
    panel_bytes = panel_scratch_bytes(kernels, step);
    total = copy_bytes * to_size(n_copies) + panel_bytes * to_size(step.n_threads);
  }

  size_t token_bytes = 0;
  size_t copy_bytes = 0;
  int n_copies = 1;
  size_t panel_bytes = 0;  // per thread
  size_t total = 0;
};

// The size must not decrease with more tokens: few rows packed once per thread can need more than many rows packed
// once.
size_t mul_mat_experts_work_bytes(const Kernels& kernels, const Step& step) {
  const Shapes shapes(kernels, step);
  Shapes few = shapes;
  few.n_x = std::min<int64_t>(shapes.n_x, shapes.form.format.token_tile);
  if (shapes.n_x > 0) few.n_pairs = shapes.n_pairs / shapes.n_x * few.n_x;
  return std::max(ExpertsWorkLayout(kernels, step, shapes).total, ExpertsWorkLayout(kernels, step, few).total);
}

class ExpertsRunner {
 public:
  ExpertsRunner(const Step& step, Worker& worker)
      : step_(step),
        worker_(worker),
        shapes_(worker.kernels, step),
        layout_(worker.kernels, step, shapes_),
        routes_(step.in[2], shapes_.n_experts),
        format_(shapes_.form.format),
        copy_(step.work + (shapes_.packs_privately() ? layout_.copy_bytes * to_size(worker.thread.index) : 0)) {}

  void run() {
    if (shapes_.n_pairs == 0) return;
    if (shapes_.input == ExpertInput::tokens) {
      pack_tokens(share(shapes_.n_x));
      meet();
    }
    pack_experts(share(n_tiles()));
    meet();
    const int64_t n_active = n_active_experts();
    int64_t first_chunk = 0, chunk = worker_.thread.next_chunk();  // chunks are numbered across all products
    multiply(step_.in[0], step_.out, n_active, first_chunk, chunk);
    for (const Step::Product& product : step_.more_products)
      multiply(product.weights, product.out, n_active, first_chunk, chunk);
  }

 private:
  Range share(int64_t n) const { return shapes_.packs_privately() ? Range{0, n} : worker_.share(n); }
  void meet() {
    if (!shapes_.packs_privately()) worker_.thread.barrier();
  }

  static int64_t size_of(Range rows) { return rows.end - rows.begin; }
  int64_t n_active_experts() const {
    int64_t n = 0;
    for (int64_t e = 0; e < shapes_.n_experts; ++e) n += routes_.of(e).empty() ? 0 : 1;
    return n;
  }
  int64_t n_tiles() const {
    int64_t n = 0;
    for (int64_t e = 0; e < shapes_.n_experts; ++e) n += div_ceil<int64_t>(size_of(routes_.of(e)), format_.token_tile);
    return n;
  }

  std::byte* packed_token(int64_t token) const { return copy_ + to_size(token) * shapes_.group_bytes(1); }
  int64_t token_of(int64_t row) const { return routes_.pairs[row] / (shapes_.n_pairs / shapes_.n_x); }
  /// An expert with a single row needs no copy.
  bool is_in_place(Range rows) const { return shapes_.input == ExpertInput::tokens && size_of(rows) == 1; }

  void pack_tokens(Range tokens) {
    for (int64_t t = tokens.begin; t < tokens.end; ++t)
      format_.pack_activations(step_.in[1].row(t), 0, shapes_.rows(1), 0, 1, packed_token(t));
  }

  // Packs tiles [begin, end), numbered across all experts.
  void pack_experts(Range tiles) {
    int64_t tile = 0;
    std::byte* packed = copy_ + layout_.token_bytes;
    for (int64_t e = 0; e < shapes_.n_experts && tile < tiles.end; ++e) {
      const Range rows = routes_.of(e);
      const int64_t n_rows = size_of(rows), n_tiles = div_ceil<int64_t>(n_rows, format_.token_tile);
      const int64_t begin = std::max(tiles.begin - tile, int64_t{0}) * format_.token_tile;
      const int64_t end = std::min(std::min(tiles.end - tile, n_tiles) * format_.token_tile, n_rows);
      if (begin < end) pack_rows(rows, begin, end, packed);
      tile += n_tiles;
      packed += shapes_.group_bytes(n_rows);
    }
  }

  // Packs rows [begin, end) of one expert: whole tiles, or up to the expert's end.
  void pack_rows(Range rows, int64_t begin, int64_t end, std::byte* packed) {
    if (is_in_place(rows)) return;
    if (shapes_.input == ExpertInput::routed)
      return format_.pack_activations(step_.in[1].row(rows.begin), to_size(step_.in[1].layout.nb[1]),
                                      shapes_.rows(size_of(rows)), begin, end, packed);
    for (int64_t row = begin; row < end; row += format_.token_tile)
      interleave(rows.begin + row, std::min<int64_t>(format_.token_tile, size_of(rows) - row),
                 packed + to_size(row) * shapes_.row_bytes());
  }

  // Interleaves the packed tokens of n rows word by word into one tile.
  void interleave(int64_t row, int64_t n, std::byte* tile) {
    constexpr size_t kWord = 4;
    const size_t n_words = shapes_.row_bytes() / kWord, stride = to_size(n) * kWord;
    for (int64_t i = 0; i < n; ++i) {
      const std::byte* token = packed_token(token_of(row + i));
      std::byte* to = tile + to_size(i) * kWord;
      for (size_t word = 0; word < n_words; ++word, to += stride) std::memcpy(to, token + word * kWord, kWord);
    }
  }

  // Computes this thread's chunks of one product, whose chunks are numbered from first_chunk on.
  void multiply(const Operand& weights, const Operand& out, int64_t n_active, int64_t& first_chunk, int64_t& chunk) {
    const Panels panels(worker_.kernels, weights, step_.activations);
    const int64_t n_panels = panels.n_panels();
    std::byte* scratch = step_.work + layout_.copy_bytes * to_size(layout_.n_copies) +
                         layout_.panel_bytes * to_size(worker_.thread.index);
    const std::byte* packed = copy_ + layout_.token_bytes;
    for (int64_t e = 0; e < shapes_.n_experts; ++e) {
      const Range rows = routes_.of(e);
      if (rows.empty()) continue;
      const int64_t n_rows = size_of(rows);
      const int64_t size = panels_per_chunk(n_panels * n_active, worker_.thread.count, shapes_.k, n_rows);
      const int64_t n_chunks = div_ceil(n_panels, size);
      const PackedX x{shapes_.rows(n_rows), is_in_place(rows) ? packed_token(token_of(rows.begin)) : packed};
      for (; chunk < first_chunk + n_chunks && !worker_.thread.cancelled(); chunk = worker_.thread.next_chunk()) {
        const int64_t begin = (chunk - first_chunk) * size;
        panels.multiply(e, begin, std::min(begin + size, n_panels), x, out.row(rows.begin), to_size(out.layout.nb[1]),
                        scratch);
      }
      first_chunk += n_chunks;
      packed += shapes_.group_bytes(n_rows);
    }
  }

  const Step& step_;
  Worker& worker_;
  Shapes shapes_;
  ExpertsWorkLayout layout_;
  Routes routes_;
  const PanelFormat& format_;
  std::byte* copy_;
};

void run_mul_mat_experts(const Step& step, Worker& worker) { ExpertsRunner(step, worker).run(); }

}  // namespace

const OpKernel op_kernels::mul_mat_experts{.supports = supports_mul_mat_experts,
                                           .work_bytes = mul_mat_experts_work_bytes,
                                           .run = run_mul_mat_experts,
                                           .takes_all_threads = true};

}  // namespace tessera::cpu
