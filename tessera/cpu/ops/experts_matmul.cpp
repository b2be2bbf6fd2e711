// Products of experts. The rows of an expert are adjacent (graph/ops/experts.h), so each expert is an ordinary matrix
// product on the rows routed to it. The units of work are (expert, panels).
// Each token's row is packed once, alone, for any number of experts. Each expert then copies the words of its rows,
// interleaved. This works because the packed form of T rows interleaves the packed forms of the single rows word by
// word, which a test checks for all formats.
// Experts of a cache (expert_cache.h) are announced to it and computed in the order in which they come into memory.
// Each output has its own expert, so the order changes no bits.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cpu/expert_cache.h"
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

bool has_streamed(const Step& step) {
  return step.in[0].streamed.has_value() ||
         std::ranges::any_of(step.more_products, [](const Step::Product& p) { return p.weights.streamed.has_value(); });
}

// Tokens of a step that are looked at for a forecast. More tokens use most experts of the next layer anyway.
constexpr int64_t kForecastTokens = 4;

// Scratch memory of a forecast: x packed for the router, logits, ids by token, panels of the router.
struct ForecastLayout {
  ForecastLayout(const Kernels& kernels, const Step& step)
      : form(product_form(kernels, step.forecast->router.dtype, step.activations)),
        k(step.forecast->router.shape()[0]),
        n_experts(step.forecast->router.shape()[1]) {
    const auto n = to_size(kForecastTokens * n_experts);
    logits_begin = form.format.activation_bytes(rows(kForecastTokens));
    ids_begin = logits_begin + round_up(n * sizeof(float), kGroupAlignment);
    panels_begin = ids_begin + round_up(n * sizeof(int32_t), kGroupAlignment);
    total = panels_begin + Panels(kernels, step.forecast->router, step.activations).scratch_bytes();
  }
  ActivationShape rows(int64_t n) const { return {.k = k, .n_tokens = n, .max_group = form.max_group}; }

  ProductForm form;
  int64_t k, n_experts;
  size_t logits_begin = 0, ids_begin = 0, panels_begin = 0, total = 0;
};

// Scratch memory: packed activations (one copy, or one per thread), each thread's panels, orders of experts, and the
// memory of a forecast. A copy consists of the separate rows of tokens, then the rows of each expert.
struct ExpertsWorkLayout {
  ExpertsWorkLayout(const Kernels& kernels, const Step& step, const Shapes& s) {
    token_bytes = s.input == ExpertInput::tokens ? to_size(s.n_x) * s.group_bytes(1) : 0;
    copy_bytes = token_bytes + round_up(to_size(s.n_pairs) * s.row_bytes(), kGroupAlignment) +
                 kGroupAlignment * to_size(std::min(s.n_experts, s.n_pairs));
    n_copies = s.packs_privately() ? step.n_threads : 1;
    panel_bytes = panel_scratch_bytes(kernels, step);
    panels_begin = copy_bytes * to_size(n_copies);
    orders_begin = panels_begin + panel_bytes * to_size(step.n_threads);
    const size_t n_orders = has_streamed(step) ? 1 + step.more_products.size() : 0;
    total = orders_begin + round_up(n_orders * to_size(s.n_experts) * sizeof(int32_t), kGroupAlignment);
    if (!step.forecast) return;
    const ForecastLayout forecast(kernels, step);
    forecast_begin = total;
    total += forecast.total;
  }

  size_t token_bytes = 0;
  size_t copy_bytes = 0;
  int n_copies = 1;
  size_t panel_bytes = 0;  // per thread
  size_t panels_begin = 0;
  size_t forecast_begin = 0;
  size_t orders_begin = 0;  // of streamed products: the active experts in order of use, n_experts for each product
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
        is_streamed_(has_streamed(step)),
        copy_(step.work + (shapes_.packs_privately() ? layout_.copy_bytes * to_size(worker.thread.index) : 0)) {}

  void run() {
    if (shapes_.n_pairs == 0) return;
    const int64_t n_active = n_active_experts();
    if (is_streamed_ && worker_.thread.index == 0) announce_experts(n_active);
    if (shapes_.input == ExpertInput::tokens) {
      pack_tokens(share(shapes_.n_x));
      meet();
    }
    pack_experts(share(n_tiles()));
    if (is_streamed_ || !shapes_.packs_privately()) worker_.thread.barrier();
    worker_.note_prepared();
    int64_t first_chunk = 0, chunk = worker_.thread.next_chunk();  // chunks are numbered across all products
    for_each_product([&](const Operand& weights, const Operand& out, const int32_t* order) {
      multiply(weights, out, order, n_active, first_chunk, chunk);
    });
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

  // Calls visit(weights, out, order) for each product; order: memory for the experts' ids in the order of use,
  // null without a cache.
  template <class Visit>
  void for_each_product(Visit visit) {
    auto* order = is_streamed_ ? reinterpret_cast<int32_t*>(step_.work + layout_.orders_begin) : nullptr;
    visit(step_.in[0], step_.out, order);
    for (const Step::Product& product : step_.more_products) {
      if (order != nullptr) order += shapes_.n_experts;
      visit(product.weights, product.out, order);
    }
  }

  // Tells the caches which experts this step uses, and the next steps after it.
  void announce_experts(int64_t n_active) {
    for_each_product([&](const Operand& weights, const Operand&, int32_t* order) {
      int32_t* end = order;
      for (int64_t e = 0; e < shapes_.n_experts; ++e)
        if (!routes_.of(e).empty()) *end++ = static_cast<int32_t>(e);
      if (!weights.streamed) return;
      weights.streamed->cache->expect(weights.streamed->weight, {order, end});
      weights.streamed->cache->sort_for_use(weights.streamed->weight, {order, end});
    });
    const auto* experts = reinterpret_cast<const int32_t*>(step_.work + layout_.orders_begin);
    for (const StreamedOperand& next : step_.next_streamed)
      next.cache->expect(next.weight, {experts, to_size(n_active)});
    if (step_.forecast && shapes_.n_x <= kForecastTokens) forecast_experts();
  }

  // Applies the router of the next layer to x. What the layers between add to x changes few of the choices.
  void forecast_experts() {
    const Step::Forecast& forecast = *step_.forecast;
    const ForecastLayout layout(worker_.kernels, step_);
    const int64_t n_experts = layout.n_experts, n_used = std::min(forecast.n_used, n_experts);
    std::byte* memory = step_.work + layout_.forecast_begin;
    auto* logits = reinterpret_cast<float*>(memory + layout.logits_begin);
    auto* ids = reinterpret_cast<int32_t*>(memory + layout.ids_begin);
    const PackedX x{layout.rows(shapes_.n_x), memory};
    layout.form.format.pack_activations(step_.in[1].row(0), to_size(step_.in[1].layout.nb[1]), x.shape, 0, shapes_.n_x,
                                        memory);
    const Panels router(worker_.kernels, forecast.router, step_.activations);
    router.multiply(0, 0, router.n_panels(), x, logits, to_size(n_experts) * sizeof(float),
                    memory + layout.panels_begin);
    int32_t* end = ids;
    for (int64_t t = 0; t < shapes_.n_x; ++t, logits += n_experts, end += n_used)
      top_k_of_row(logits, n_experts, n_used, end);
    std::sort(ids, end);
    end = std::unique(ids, end);
    for (const StreamedOperand& next : forecast.experts) next.cache->forecast(next.weight, {ids, end});
  }

  // The first packed row of an expert.
  const std::byte* packed_rows(int64_t expert) const {
    const std::byte* packed = copy_ + layout_.token_bytes;
    for (int64_t e = 0; e < expert; ++e) packed += shapes_.group_bytes(size_of(routes_.of(e)));
    return packed;
  }

  // Computes this thread's chunks of one product, whose chunks are numbered from first_chunk on.
  void multiply(const Operand& weights, const Operand& out, const int32_t* order, int64_t n_active,
                int64_t& first_chunk, int64_t& chunk) {
    const int64_t n_panels = Panels(worker_.kernels, weights, step_.activations).n_panels();
    std::byte* scratch = step_.work + layout_.panels_begin + layout_.panel_bytes * to_size(worker_.thread.index);
    const std::byte* packed = copy_ + layout_.token_bytes;
    for (int64_t i = 0, next = 0; i < n_active; ++i) {
      while (order == nullptr && routes_.of(next).empty()) ++next;
      const int64_t e = order == nullptr ? next++ : order[i];
      if (order != nullptr) packed = packed_rows(e);
      const Range rows = routes_.of(e);
      const int64_t n_rows = size_of(rows);
      const int64_t size = panels_per_chunk(n_panels * n_active, worker_.thread.count, shapes_.k, n_rows);
      const int64_t n_chunks = div_ceil(n_panels, size);
      const PackedX x{shapes_.rows(n_rows), is_in_place(rows) ? packed_token(token_of(rows.begin)) : packed};
      for (; chunk < first_chunk + n_chunks && !worker_.thread.cancelled(); chunk = worker_.thread.next_chunk()) {
        const int64_t begin = (chunk - first_chunk) * size, end = std::min(begin + size, n_panels);
        with_expert(weights, e, end == n_panels, [&](const Operand& matrices, int64_t index) {
          Panels(worker_.kernels, matrices, step_.activations)
              .multiply(index, begin, end, x, out.row(rows.begin), to_size(out.layout.nb[1]), scratch);
        });
      }
      first_chunk += n_chunks;
      packed += shapes_.group_bytes(n_rows);
    }
  }

  // Calls work(matrices, index) with the matrix of an expert in memory. is_last: the last chunk of the expert.
  template <class Work>
  void with_expert(const Operand& weights, int64_t expert, bool is_last, Work work) {
    if (!weights.streamed) return work(weights, expert);
    const auto& [cache, weight] = *weights.streamed;
    auto panels = cache->acquire(weight, expert);
    if (!panels) return worker_.fault.report(std::move(panels.error()));
    Operand matrix = weights;
    matrix.data = const_cast<std::byte*>(*panels);  // only read
    work(matrix, 0);
    cache->release(weight, expert, is_last);
  }

  const Step& step_;
  Worker& worker_;
  Shapes shapes_;
  ExpertsWorkLayout layout_;
  Routes routes_;
  const PanelFormat& format_;
  bool is_streamed_;
  std::byte* copy_;
};

void run_mul_mat_experts(const Step& step, Worker& worker) { ExpertsRunner(step, worker).run(); }

}  // namespace

const OpKernel op_kernels::mul_mat_experts{.supports = supports_mul_mat_experts,
                                           .work_bytes = mul_mat_experts_work_bytes,
                                           .run = run_mul_mat_experts,
                                           .takes_all_threads = true};

}  // namespace tessera::cpu
