// Benchmarks the encoders of every weight format on one thread: 10^6 weights per second ("Mw/s") for rows of 4096
// Gaussian values, with the search and with ggml's rules, without and with an imatrix. Time is this thread's CPU time,
// and rows stay in the cache.
//   ninja -C build/release quantize_bench && build/release/bench/quantize_bench --benchmark_repetitions=5
//       --benchmark_report_aggregates_only=true [--benchmark_filter=q4_0/avx512]
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/isa/sets.h"
#include "tessera/quant/formats.h"

namespace tessera {
namespace {

constexpr size_t kColumns = 4096, kRows = 8;

/// Standard normal values (Box and Muller 1958).
std::vector<float> gaussian_rows() {
  Rng rng(1);
  std::vector<float> x(kRows * kColumns);
  for (float& value : x) {
    const double radius = std::sqrt(-2 * std::log(1 - rng.next_double()));
    value = static_cast<float>(radius * std::cos(6.283185307179586 * rng.next_double()));
  }
  return x;
}

using Encoder = void (*)(const float* x, const float* weights, int64_t n, void* row);

void encode(benchmark::State& state, Encoder encoder, bool weighted) {
  const std::vector<float> x = gaussian_rows(), weights(kColumns, 1.0f);
  std::vector<std::byte> row(kColumns * sizeof(float));
  size_t r = 0;
  for ([[maybe_unused]] auto _ : state) {
    encoder(x.data() + r * kColumns, weighted ? weights.data() : nullptr, kColumns, row.data());
    r = (r + 1) % kRows;
    benchmark::ClobberMemory();
  }
  state.counters["Mw/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kColumns * 1e-6, benchmark::Counter::kIsRate);
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const DTypeInfo& info : all_dtypes())
    for (const std::string_view isa : isa::usable_isas()) {
      const quant::Format* format = quant::find_format(info.dtype, isa);
      if (format == nullptr) continue;
      const auto add = [&](std::string_view kind, Encoder encoder, bool weighted) {
        benchmark::RegisterBenchmark(fmt::format("{}/{}/{}", info.name, isa, kind).c_str(),
                                     [=](benchmark::State& state) { encode(state, encoder, weighted); });
      };
      add("search", format->quantize_row, false);
      add("compat", format->quantize_row_compat, false);
      add("compat_imatrix", format->quantize_row_compat, true);
    }
  return true;
}();

}  // namespace
}  // namespace tessera
