// Benchmarks attention and elementwise kernels of the best instruction set on one thread: bytes of cache and
// multiply-adds per second, as shares of the peaks measured in the same run. The shapes are those of a 1B model (4
// query heads per KV head of 64).
//   build/release/bench/attention_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/cpu_info.h"
#include "tessera/base/rng.h"
#include "tessera/cpu/dispatch.h"
#include "tessera/tensor/dtype.h"

namespace tessera {
namespace {

using cpu::AttentionTask;
using cpu::kBlockTokens;
using cpu::Kernels;

/// The kernels of TESSERA_BENCH_ISA ("avx2", ...), by default of the best instruction set.
const Kernels& kernels() {
  static const Kernels* const selected = [] {
    const char* isa = std::getenv("TESSERA_BENCH_ISA");
    const auto found = cpu::select_kernels(isa != nullptr ? isa : "");
    return found ? *found : *cpu::select_kernels("");
  }();
  return *selected;
}

/// The best rate of a peak measurement in units per second of this thread's CPU time. `peak` returns the number of
/// units.
template <class Peak>
double best_rate(Peak peak) {
  double best = 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const std::clock_t start = std::clock();
    const auto done = static_cast<double>(peak());
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    best = std::max(best, done / seconds);
  }
  return best;
}

struct AlignedFree {
  void operator()(char* p) const { std::free(p); }
};
using AlignedBytes = std::unique_ptr<char, AlignedFree>;

AlignedBytes aligned_bytes(size_t n) {
  return AlignedBytes(static_cast<char*>(std::aligned_alloc(64, (n + 63) / 64 * 64)));
}

/// The query rows are `n_heads` heads of the last `n_tokens` tokens of a sequence of `depth` tokens.
void attention(benchmark::State& state, DType k_type, DType v_type, bool int16) {
  const auto n_heads = static_cast<int>(state.range(0)), n_tokens = static_cast<int>(state.range(1));
  const auto depth = static_cast<int>(state.range(2)), dim = static_cast<int>(state.range(3));
  const int n_blocks = depth / kBlockTokens, n_rows = n_heads * n_tokens;
  const auto block_bytes = [dim](DType type) {
    return static_cast<size_t>(kBlockTokens * dim / info(type).block_elements * info(type).block_bytes);
  };
  const size_t k_stride = block_bytes(k_type), v_stride = block_bytes(v_type);
  // Enough copies of the sequence that none stays in a private cache, like the layers of a model.
  const int n_copies =
      1 + static_cast<int>((size_t{64} << 20) / (static_cast<size_t>(n_blocks) * (k_stride + v_stride)));
  const auto n_physical = static_cast<size_t>(n_blocks * n_copies);
  const AlignedBytes k = aligned_bytes(n_physical * k_stride), v = aligned_bytes(n_physical * v_stride);
  Rng rng(1);
  std::vector<float> x(static_cast<size_t>(dim));
  for (size_t block = 0; block < n_physical; ++block) {
    for (float& value : x) value = rng.next_float(-1, 1);
    for (int slot = 0; slot < kBlockTokens; ++slot) {
      kernels().kv_formats[static_cast<int>(k_type)]->store_k(x.data(), dim, slot, k.get() + block * k_stride);
      kernels().kv_formats[static_cast<int>(v_type)]->store_v(x.data(), dim, slot, v.get() + block * v_stride);
    }
  }

  std::vector<float> q(static_cast<size_t>(n_rows * dim)), out(q.size());
  for (float& value : q) value = rng.next_float(-1, 1);
  std::vector<int64_t> offsets;
  std::vector<int32_t> positions, blocks(static_cast<size_t>(n_blocks));
  for (int i = 0; i < n_rows; ++i) {
    offsets.push_back(int64_t{i} * dim);
    positions.push_back(depth - n_tokens + i / n_heads);
  }
  const std::vector<uint64_t> valid(blocks.size(), ~uint64_t{0});
  const AlignedBytes scratch = aligned_bytes(kernels().attention_scratch_bytes(dim, dim));

  const bool has_bf16_dot = cpu_features().avx512_bf16;
  int copy = 0;
  for (auto _ : state) {
    for (int b = 0; b < n_blocks; ++b) blocks[static_cast<size_t>(b)] = copy * n_blocks + b;
    copy = (copy + 1) % n_copies;
    const AttentionTask task = {.q = q.data(),
                                .out = out.data(),
                                .q_offsets = offsets.data(),
                                .out_offsets = offsets.data(),
                                .positions = positions.data(),
                                .n_rows = n_rows,
                                .k_dim = dim,
                                .v_dim = dim,
                                .scale = 0.125f,
                                .soft_cap = 0,
                                .slopes = nullptr,
                                .sinks = nullptr,
                                .causal = true,
                                .window = 0,
                                .int16 = int16,
                                .has_bf16_dot = has_bf16_dot,
                                .blocks = blocks.data(),
                                .valid = valid.data(),
                                .first_block = 0,
                                .n_blocks = n_blocks,
                                .k_base = k.get(),
                                .v_base = v.get(),
                                .k_block_stride = k_stride,
                                .v_block_stride = v_stride};
    kernels().attention(task, static_cast<int>(k_type), static_cast<int>(v_type), scratch.get());
    benchmark::DoNotOptimize(out.data());
  }
  const double calls = static_cast<double>(state.iterations());
  const double bytes = static_cast<double>(n_blocks) * static_cast<double>(k_stride + v_stride);
  const double macs = 2.0 * n_rows * dim * depth;
  using benchmark::Counter;
  state.counters["GB/s"] = Counter(calls * bytes * 1e-9, Counter::kIsRate);
  state.counters["GMAC/s"] = Counter(calls * macs * 1e-9, Counter::kIsRate);
  const double fma_peak = best_rate([] { return kernels().peak_f32(500'000); });
  const double read_peak = best_rate([&] { return kernels().peak_read(k.get(), n_physical * k_stride); });
  state.counters["of_fma"] = Counter(calls * macs / fma_peak, Counter::kIsRate);
  state.counters["of_read"] = Counter(calls * bytes / read_peak, Counter::kIsRate);
}

// {query heads, tokens, depth, head size}
void decode_shapes(benchmark::internal::Benchmark* b) {
  b->Args({4, 1, 4096, 64})->Args({1, 1, 4096, 64})->Args({8, 1, 4096, 128});
}
void prefill_shapes(benchmark::internal::Benchmark* b) {
  b->Args({4, 64, 512, 64})->Args({4, 64, 4096, 64})->Args({4, 64, 512, 128});
}

#define TESSERA_BENCH_CACHE(type)                                                                          \
  BENCHMARK_CAPTURE(attention, decode_##type, DType::type, DType::type, false)->Apply(decode_shapes);      \
  BENCHMARK_CAPTURE(attention, prefill_##type, DType::type, DType::type, false)->Apply(prefill_shapes);    \
  BENCHMARK_CAPTURE(attention, int16_decode_##type, DType::type, DType::type, true)->Apply(decode_shapes); \
  BENCHMARK_CAPTURE(attention, int16_prefill_##type, DType::type, DType::type, true)->Apply(prefill_shapes)
TESSERA_BENCH_CACHE(f16);
TESSERA_BENCH_CACHE(bf16);
TESSERA_BENCH_CACHE(q8_0);
TESSERA_BENCH_CACHE(q5_0);
TESSERA_BENCH_CACHE(q5_1);
TESSERA_BENCH_CACHE(q4_0);
TESSERA_BENCH_CACHE(q4_1);
TESSERA_BENCH_CACHE(iq4_nl);

/// Measures stored tokens (K and V) per second.
void store(benchmark::State& state, DType type) {
  const auto dim = static_cast<int>(state.range(0));
  const auto bytes = static_cast<size_t>(kBlockTokens * dim / info(type).block_elements * info(type).block_bytes);
  const AlignedBytes k = aligned_bytes(bytes), v = aligned_bytes(bytes);
  Rng rng(1);
  std::vector<float> x(static_cast<size_t>(dim));
  for (float& value : x) value = rng.next_float(-1, 1);
  const cpu::KvFormat& format = *kernels().kv_formats[static_cast<int>(type)];
  int slot = 0;
  for (auto _ : state) {
    format.store_k(x.data(), dim, slot, k.get());
    format.store_v(x.data(), dim, slot, v.get());
    benchmark::ClobberMemory();
    slot = (slot + 1) % kBlockTokens;
  }
}
BENCHMARK_CAPTURE(store, f16, DType::f16)->Arg(128);
BENCHMARK_CAPTURE(store, q8_0, DType::q8_0)->Arg(128);
BENCHMARK_CAPTURE(store, q5_1, DType::q5_1)->Arg(128);
BENCHMARK_CAPTURE(store, q4_0, DType::q4_0)->Arg(128);
BENCHMARK_CAPTURE(store, iq4_nl, DType::iq4_nl)->Arg(128);

void run(cpu::Elementwise op, const float* a, const float* b, int64_t n, float* out) {
  kernels().elementwise[static_cast<size_t>(op)]({.a = a, .b = b, .n = n, .out = out});
}

/// Measures bytes read and written per second, for rows of n floats that stay in the cache.
template <class Run>
void element_wise(benchmark::State& state, int n_rows_moved, Run run) {
  const auto n = state.range(0);
  std::vector<float> a(static_cast<size_t>(n), 0.5f), b(a), out(a);
  for (auto _ : state) {
    run(a.data(), b.data(), n, out.data());
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  const double bytes = 4.0 * static_cast<double>(n) * n_rows_moved * static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsRate);
}

void rms_norm(benchmark::State& state) {
  element_wise(state, 3, [](auto a, auto b, auto n, auto out) { kernels().norm->rms_norm(a, b, n, 1e-5f, out); });
}
void silu(benchmark::State& state) {
  element_wise(state, 2, [](auto a, auto, auto n, auto out) { run(cpu::Elementwise::silu, a, nullptr, n, out); });
}
void swiglu(benchmark::State& state) {
  element_wise(state, 3, [](auto a, auto b, auto n, auto out) { run(cpu::Elementwise::swiglu, a, b, n, out); });
}
void rope_adjacent(benchmark::State& state) {
  element_wise(state, 2, [](auto a, auto b, auto n, auto out) { kernels().rope_adjacent(a, b, n, n, out); });
}
BENCHMARK(rms_norm)->Arg(2048);
BENCHMARK(silu)->Arg(8192);
BENCHMARK(swiglu)->Arg(8192);
BENCHMARK(rope_adjacent)->Arg(64);

}  // namespace
}  // namespace tessera
