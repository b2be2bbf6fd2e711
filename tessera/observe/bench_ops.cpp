#include "tessera/observe/bench_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>

#include "tessera/backend/weight_support.h"
#include "tessera/base/checked.h"
#include "tessera/base/cpu_info.h"
#include "tessera/base/index.h"
#include "tessera/graph/builder.h"
#include "tessera/graph/op_info.h"
#include "tessera/observe/bench_operands.h"
#include "tessera/sched/executor.h"

namespace tessera::observe {

namespace {

struct Matrix {
  int64_t k, n_rows;
};

struct Sizes {
  std::vector<Matrix> matrices;
  std::vector<int64_t> n_tokens_products, n_tokens, n_depths, head_dims;
  int64_t n_embd, n_ff, n_heads, n_heads_kv;
  double sample_seconds;  // a sample has as many runs as fit into this time
  bool streams;           // rings of weights are larger than the CPU caches
};

Sizes sizes_of(OpSizes sizes) {
  if (sizes == OpSizes::small)
    return {.matrices = {{256, 32}},
            .n_tokens_products = {1, 16},
            .n_tokens = {1, 16},
            .n_depths = {0, 70},
            .head_dims = {32},
            .n_embd = 64,
            .n_ff = 64,
            .n_heads = 4,
            .n_heads_kv = 2,
            .sample_seconds = 0,
            .streams = false};
  return {.matrices = {{2048, 2048}, {8192, 2048}},
          .n_tokens_products = {1, 8, 512},
          .n_tokens = {1, 512},
          .n_depths = {0, 4096},
          .head_dims = {64, 128},
          .n_embd = 2048,
          .n_ff = 8192,
          .n_heads = 32,
          .n_heads_kv = 8,
          .sample_seconds = 5e-3,
          .streams = true};
}

// One operation at one size.
struct OpCase {
  Op op = Op::mul_mat;
  std::string type, shape;
  int64_t n_tokens = 0;
  std::vector<OperandSpec> streamed{};  // weights, KV caches: a copy for each graph of the ring
  std::vector<OperandSpec> cached{};    // results of the previous operation
  // Builds the operation from the streamed operands followed by the cached ones.
  std::function<Value(GraphBuilder&, std::span<const Value>)> build;
  Arithmetic arithmetic = Arithmetic::f32;
  double macs = 0;
  double bytes = 0;  // read and written; 0: the bytes of all operands and the result

  std::string name() const { return fmt::format("{} {} {} t{}", info(op).name, type, shape, n_tokens); }
};

OperandSpec values(const Shape& shape) { return {.shape = shape}; }

template <class T>
OperandSpec given(DType dtype, const Shape& shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {dtype, shape, OperandContent::given, {bytes.begin(), bytes.end()}};
}

OpCase mul_mat_case(DType dtype, const Matrix& matrix, int64_t n_tokens, ActivationPrecision activations) {
  return {.op = Op::mul_mat,
          .type = std::string(info(dtype).name),
          .shape = fmt::format("{}x{}", matrix.k, matrix.n_rows),
          .n_tokens = n_tokens,
          .streamed = {{dtype, {matrix.k, matrix.n_rows}, OperandContent::codes}},
          .cached = {values({matrix.k, n_tokens})},
          .build = [](GraphBuilder& b, std::span<const Value> x) { return b.mul_mat(x[0], x[1]); },
          .arithmetic = product_arithmetic(dtype, activations),
          .macs = static_cast<double>(matrix.k * matrix.n_rows * n_tokens)};
}

// Reads every row of a table once, in an order that no prefetcher predicts: multiples of a number that is prime to the
// number of rows, a power of two.
OpCase get_rows_case(DType dtype, int64_t n, int64_t n_tokens) {
  std::vector<int32_t> ids(to_size(n_tokens));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7919 % ids.size());
  return {.op = Op::get_rows,
          .type = std::string(info(dtype).name),
          .shape = fmt::format("{}", n),
          .n_tokens = n_tokens,
          .streamed = {{dtype, {n, n_tokens}, OperandContent::codes}},
          .cached = {given(DType::i32, {n_tokens}, ids)},
          .build = [](GraphBuilder& b, std::span<const Value> x) { return b.get_rows(x[0], x[1]); }};
}

OpCase attention_case(DType dtype, int64_t dim, int64_t n_tokens, int64_t n_depth, const Sizes& sizes) {
  constexpr int64_t kBlock = 64;
  const int64_t n_positions = n_depth + n_tokens, n_blocks = div_ceil(n_positions, kBlock);
  std::vector<int32_t> positions, slots(to_size(n_tokens)), blocks;
  std::vector<int64_t> valid(to_size(n_blocks), -1);
  for (int64_t i = 0; i < n_tokens; ++i) positions.push_back(static_cast<int32_t>(n_depth + i));
  for (int64_t i = 0; i < n_blocks; ++i) blocks.push_back(static_cast<int32_t>(i));
  const Shape cache{dim, kBlock, sizes.n_heads_kv, n_blocks};
  const auto n_pairs = static_cast<double>(n_tokens * (2 * n_depth + n_tokens + 1) / 2);
  const double row = static_cast<double>(row_bytes(dtype, dim).value_or(0) * to_size(sizes.n_heads_kv));
  return {.op = Op::paged_attention,
          .type = std::string(info(dtype).name),
          .shape = fmt::format("{}x{}/{} @{}", dim, sizes.n_heads, sizes.n_heads_kv, n_depth),
          .n_tokens = n_tokens,
          .streamed = {{dtype, cache, OperandContent::k_cache}, {dtype, cache, OperandContent::v_cache}},
          .cached = {values({dim, sizes.n_heads, n_tokens}), given(DType::i32, {n_tokens}, positions),
                     given(DType::i32, {n_tokens}, slots), given(DType::i32, {n_blocks, 1}, blocks),
                     given(DType::i64, {n_blocks, 1}, valid)},
          .build =
              [dim](GraphBuilder& b, std::span<const Value> x) {
                const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
                return b.paged_attention(x[2], x[0], x[1], x[3], x[4], x[5], x[6], {}, {.scale = scale});
              },
          .macs = n_pairs * static_cast<double>(2 * dim * sizes.n_heads),
          .bytes = 2 * row * static_cast<double>(n_positions)};
}

// Operations on rows of floats.
std::vector<OpCase> row_cases(int64_t n_tokens, const Sizes& sizes) {
  const Shape embd{sizes.n_embd, n_tokens}, ff{sizes.n_ff, n_tokens};
  const auto on_rows = [&](Op op, const Shape& shape, std::vector<OperandSpec> cached, decltype(OpCase::build) build) {
    return OpCase{.op = op,
                  .type = "f32",
                  .shape = fmt::format("{}", shape[0]),
                  .n_tokens = n_tokens,
                  .cached = std::move(cached),
                  .build = std::move(build)};
  };
  std::vector<OpCase> cases = {
      on_rows(Op::rms_norm, embd, {values(embd), values({sizes.n_embd})},
              [](GraphBuilder& b, std::span<const Value> x) { return b.rms_norm(x[0], x[1], 1e-5f); }),
      on_rows(Op::swiglu, ff, {values(ff), values(ff)},
              [](GraphBuilder& b, std::span<const Value> x) { return b.swiglu(x[0], x[1]); }),
      on_rows(Op::soft_max, embd, {values(embd)},
              [](GraphBuilder& b, std::span<const Value> x) { return b.soft_max(x[0]); }),
      on_rows(Op::add, embd, {values(embd), values(embd)},
              [](GraphBuilder& b, std::span<const Value> x) { return b.add(x[0], x[1]); })};
  for (const int64_t dim : sizes.head_dims)
    for (const RopePairs pairs : {RopePairs::adjacent, RopePairs::halves}) {
      OpCase rope = on_rows(Op::rope, embd, {values({dim, sizes.n_heads, n_tokens}), values({dim, n_tokens})},
                            [pairs](GraphBuilder& b, std::span<const Value> x) { return b.rope(x[0], x[1], pairs); });
      rope.shape = fmt::format("{}x{} {}", dim, sizes.n_heads, pairs == RopePairs::adjacent ? "adj" : "half");
      cases.push_back(std::move(rope));
    }
  return cases;
}

std::vector<OpCase> matching_cases(const Device& device, const OpBenchOptions& options,
                                   ActivationPrecision activations) {
  const Sizes sizes = sizes_of(options.sizes);
  std::vector<DType> types = options.types;
  for (const DTypeInfo& type : all_dtypes())
    if (options.types.empty() && can_use_type(device, Op::mul_mat, type.dtype)) types.push_back(type.dtype);
  std::vector<OpCase> cases;
  // Cases with the same weights are consecutive and share them.
  for (const DType dtype : types)
    for (const Matrix& matrix : sizes.matrices)
      for (const int64_t n_tokens : sizes.n_tokens_products)
        cases.push_back(mul_mat_case(dtype, matrix, n_tokens, activations));
  for (const DType dtype : types) cases.push_back(get_rows_case(dtype, sizes.matrices[0].k, sizes.n_tokens.back()));
  for (const DType dtype : {DType::f16, DType::q8_0})
    for (const int64_t dim : sizes.head_dims)
      for (const int64_t n_depth : sizes.n_depths)
        for (const int64_t n_tokens : sizes.n_tokens)
          cases.push_back(attention_case(dtype, dim, n_tokens, n_depth, sizes));
  for (const int64_t n_tokens : sizes.n_tokens)
    std::ranges::move(row_cases(n_tokens, sizes), std::back_inserter(cases));
  std::erase_if(cases, [&](const OpCase& c) { return !options.pattern->matches(c.name()); });
  return cases;
}

// Bytes of weights that exceed the CPU caches, so that no weight is still cached when it is read again.
double ring_bytes() {
  constexpr double kMin = 128e6, kMax = 512e6;
  return std::clamp(4 * static_cast<double>(cache_sizes(0).l3_bytes), kMin, kMax);
}

class OpBench {
 public:
  OpBench(const Device& device, Backend& backend, const OpBenchOptions& options, const CancelToken& cancel)
      : device_(device), backend_(backend), options_(options), sizes_(sizes_of(options.sizes)), cancel_(cancel) {}

  Result<BenchOpRow> measure(const OpCase& op_case) {
    TESSERA_TRY(make_ring(op_case));
    TESSERA_ASSIGN(const OperandCopies cached,
                   OperandCopies::create(device_.buffer_type(), op_case.cached, 1, backend_));
    std::vector<Graph> graphs;
    for (int64_t i = 0; i < n_copies_; ++i) {
      TESSERA_ASSIGN(Graph graph, build(op_case, ring_.copy(i), cached.copy(0)));
      graphs.push_back(std::move(graph));
    }
    BenchOpRow row{.op = std::string(info(op_case.op).name),
                   .type = op_case.type,
                   .shape = op_case.shape,
                   .n_tokens = op_case.n_tokens,
                   .arithmetic = op_case.arithmetic,
                   .macs = op_case.macs,
                   .bytes = op_case.bytes > 0 ? op_case.bytes : bytes_of(graphs.front()),
                   .streamed_bytes = copy_bytes_ * static_cast<double>(n_copies_)};
    TESSERA_ASSIGN(row.seconds, time_runs(std::move(graphs)));
    return row;
  }

 private:
  // Copies the streamed operands, unless the previous case had the same.
  Result<> make_ring(const OpCase& op_case) {
    const std::vector<OperandSpec>& specs = op_case.streamed;
    if (n_copies_ > 0 && ring_op_ == op_case.op && ring_specs_ == specs) return {};
    ring_ = {};  // frees its memory before the new allocation
    copy_bytes_ = 0;
    for (const OperandSpec& spec : specs) {
      TESSERA_ASSIGN(const size_t bytes, nbytes(spec.dtype, spec.shape));
      copy_bytes_ += static_cast<double>(bytes);
    }
    constexpr double kMinCopies = 2, kMaxCopies = 256;
    const double n_wanted = sizes_.streams ? std::ceil(ring_bytes() / std::max(1.0, copy_bytes_)) : kMinCopies;
    n_copies_ = specs.empty() ? 1 : static_cast<int64_t>(std::clamp(n_wanted, kMinCopies, kMaxCopies));
    const bool is_weight = !specs.empty() && specs[0].content == OperandContent::codes;
    const BufferType& type =
        is_weight ? device_.weight_buffer_type(op_case.op, specs[0].dtype, specs[0].shape) : device_.buffer_type();
    auto made = OperandCopies::create(type, specs, n_copies_, backend_);
    if (!made) return forward_error(made, op_case.name());
    ring_ = std::move(*made);
    ring_op_ = op_case.op;
    ring_specs_ = specs;
    return {};
  }

  static Result<Graph> build(const OpCase& op_case, std::span<const Tensor> streamed, std::span<const Tensor> cached) {
    GraphBuilder b;
    std::vector<Value> operands;
    for (const std::span<const Tensor> tensors : {streamed, cached})
      for (const Tensor& tensor : tensors) operands.push_back(b.tensor(tensor));
    b.output(op_case.build(b, operands), "out");
    return std::move(b).finish();
  }

  static double bytes_of(const Graph& graph) {
    double bytes = 0;
    for (const Node& node : graph.nodes()) bytes += static_cast<double>(span_bytes(node.spec.dtype, node.spec.layout));
    return bytes;
  }

  // Returns the seconds of a run in each repetition. Successive runs use successive graphs of the ring, also across
  // repetitions.
  Result<std::vector<double>> time_runs(std::vector<Graph> graphs) {
    Executor executor(backend_);
    TESSERA_TRY(executor.reserve({&graphs.front(), 1}));
    std::vector<std::unique_ptr<PreparedGraph>> ring;
    for (Graph& graph : graphs) {
      TESSERA_ASSIGN(auto prepared, executor.prepare(std::move(graph)));
      ring.push_back(std::move(prepared));
    }
    size_t next = 0;
    const auto sample = [&](int64_t n_runs) -> Result<double> {
      const auto start = std::chrono::steady_clock::now();
      for (int64_t i = 0; i < n_runs; ++i) {
        TESSERA_TRY(executor.run(*ring[next], {.cancel = &cancel_}));
        next = (next + 1) % ring.size();
      }
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      return std::max(elapsed.count(), 1e-9) / static_cast<double>(n_runs);
    };
    TESSERA_TRY(sample(1));  // wakes the threads and maps the pages of the result
    TESSERA_ASSIGN(const double once, sample(1));
    const double n_runs = std::clamp(std::ceil(sizes_.sample_seconds / once), 1.0, 1e6);
    std::vector<double> seconds;
    for (int64_t i = 0; i < options_.n_repetitions; ++i) {
      TESSERA_ASSIGN(const double of_run, sample(static_cast<int64_t>(n_runs)));
      seconds.push_back(of_run);
    }
    return seconds;
  }

  const Device& device_;
  Backend& backend_;
  const OpBenchOptions& options_;
  Sizes sizes_;
  const CancelToken& cancel_;
  Op ring_op_ = Op::mul_mat;
  std::vector<OperandSpec> ring_specs_;
  OperandCopies ring_;
  int64_t n_copies_ = 0;
  double copy_bytes_ = 0;
};

}  // namespace

Result<> bench_ops(const Device& device, const OpBenchOptions& options, const BackendOptions& backend_options,
                   const CancelToken& cancel, FunctionRef<Result<>(const BenchOpRow&)> add) {
  const std::vector<OpCase> cases = matching_cases(device, options, backend_options.activations);
  if (cases.empty())
    return fail(ErrorCode::not_found, "no operation matches; names look like \"mul_mat q4_K 2048x2048 t512\"");
  TESSERA_ASSIGN(const auto backend, device.create_backend(backend_options));
  OpBench bench(device, *backend, options, cancel);
  for (const OpCase& op_case : cases) {
    TESSERA_ASSIGN(BenchOpRow row, bench.measure(op_case));
    row.n_threads = backend_options.threads.n_threads;
    TESSERA_TRY(add(row));
  }
  return {};
}

}  // namespace tessera::observe
