// Benchmarks matrix multiplication on one thread, per weight dtype and instruction set, as a share of the peaks
// measured in the same run:
//   prefill/...  GMAC/s of a 2048 x 2048 weight with T tokens, relative to the int8 or f32 multiply-add peak
//   int16/T510/..., int16/T1/..., decode_int16/..., few_int16/...  the same in 16-bit integers, relative to their peak
//   group32/T510/..., group64/..., group128/...  the same with activations that share a scale in groups of 32, 64 or
//                128 columns, instead of the format's default
//   decode/...   one token through 96 MB of weights, relative to the streaming read peak
//   few/T8/...   the same with 2 to 64 tokens, relative to the nearer of the two peaks
//   pack/...     GB/s of file bytes converted to panels
// The machine may be shared: each repetition measures kernel and peak alternately. Compare the medians.
//   ninja -C build/release matmul_bench && build/release/bench/matmul_bench --benchmark_repetitions=7
//       --benchmark_report_aggregates_only=true [--benchmark_filter=avx512]
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <ctime>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "tessera/base/checked.h"
#include "tessera/base/rng.h"
#include "tessera/cpu/dispatch.h"
#include "tessera/isa/sets.h"
#include "tessera/quant/formats.h"

namespace tessera {
namespace {

constexpr int64_t kColumns = 2048;
struct AlignedDelete {
  void operator()(uint8_t* p) const { ::operator delete (p, std::align_val_t{64}); }
};
using Buffer = std::unique_ptr<uint8_t, AlignedDelete>;

Buffer allocate(size_t bytes) {
  auto* p = static_cast<uint8_t*>(::operator new (bytes, std::align_val_t{64}));
  std::memset(p, 1, bytes);
  return Buffer(p);
}

/// CPU seconds of this thread, without the time of other processes on a shared machine.
double seconds_of(const auto& work) {
  const auto now = [] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

bool is_float(DType dtype) { return !info(dtype).is_blocked(); }

/// A product of n_rows weight rows of one dtype in panels (random rows, repeated) and packed activations of n_tokens.
struct Problem {
  const cpu::PanelFormat* format;
  int64_t n_rows;
  cpu::ActivationShape x_shape;
  size_t file_row_bytes;
  Buffer rows, panels, activations, out;

  /// max_group 0: the format's default.
  Problem(const cpu::PanelFormat* format, DType dtype, int64_t n_rows, int64_t n_tokens, int64_t max_group = 0)
      : format(format),
        n_rows(n_rows),
        x_shape{.k = kColumns, .n_tokens = n_tokens, .max_group = max_group == 0 ? format->default_group : max_group} {
    Rng rng(1);
    const DTypeInfo& type = info(dtype);
    file_row_bytes = static_cast<size_t>(kColumns / type.block_elements * type.block_bytes);
    rows = allocate(16 * file_row_bytes);
    std::vector<float> x(kColumns * static_cast<size_t>(std::max<int64_t>(n_tokens, 16)));
    for (float& value : x) value = rng.next_float(-1, 1);
    for (size_t r = 0; r < 16; ++r)
      quant::find_format(dtype)->quantize_row_compat(x.data() + r * kColumns, nullptr, kColumns,
                                                     reinterpret_cast<std::byte*>(rows.get()) + r * file_row_bytes);
    panels = allocate(panels_bytes());
    for (int64_t p = 0; p < n_rows / 16; ++p)
      format->pack(rows.get(), file_row_bytes, 16, kColumns,
                   panels.get() + static_cast<size_t>(p) * format->panel_bytes(kColumns));
    activations = allocate(format->activation_bytes(x_shape));
    format->pack_activations(x.data(), kColumns * sizeof(float), x_shape, 0, n_tokens, activations.get());
    out = allocate(static_cast<size_t>(n_rows * n_tokens) * sizeof(float));
  }

  size_t panels_bytes() const { return static_cast<size_t>(n_rows / 16) * format->panel_bytes(kColumns); }

  /// Multiplies rows [first, first + n), multiples of 16.
  void multiply(int64_t first, int64_t n) {
    format->multiply(panels.get() + static_cast<size_t>(first / 16) * format->panel_bytes(kColumns), n, x_shape,
                     activations.get(), 0, x_shape.n_tokens, reinterpret_cast<float*>(out.get()) + first,
                     static_cast<size_t>(n_rows) * sizeof(float));
    benchmark::ClobberMemory();
  }
};

/// Reports a rate, and its share of the peak measured in the same iterations.
void report(benchmark::State& state, const char* unit, double work, double seconds, double peak_work,
            double peak_seconds) {
  state.counters[unit] = work / seconds * 1e-9;
  state.counters["peak"] = peak_work / peak_seconds * 1e-9;
  state.counters["share_%"] = 100 * (work / seconds) / (peak_work / peak_seconds);
}

using Peak = int64_t (*)(int64_t n);

void prefill(benchmark::State& state, const cpu::PanelFormat* format, Peak peak, DType dtype, int64_t n_tokens,
             int64_t max_group) {
  Problem problem(format, dtype, 2048, n_tokens, max_group);
  double seconds = 0, peak_seconds = 0;
  int64_t macs = 0, peak_macs = 0;
  // Rows between two measurements of the peak, which varies with the load of other processes: about a millisecond.
  const int64_t slice = n_tokens >= 64 ? 128 : problem.n_rows;
  for ([[maybe_unused]] auto _ : state) {
    double once = 0;
    for (int64_t first = 0; first < problem.n_rows; first += slice) {
      once += seconds_of([&] { problem.multiply(first, slice); });
      peak_seconds += seconds_of([&] {
        const int64_t rounds = std::max<int64_t>(150 * n_tokens, 20'000);
        peak_macs += peak(rounds);
      });
    }
    state.SetIterationTime(once);
    seconds += once;
    macs += problem.n_rows * kColumns * n_tokens;
  }
  report(state, "GMAC/s", static_cast<double>(macs), seconds, static_cast<double>(peak_macs), peak_seconds);
}

/// The share is that of the nearer bound: the streaming read or the multiply-adds.
void from_memory(benchmark::State& state, const cpu::Kernels* kernels, const cpu::PanelFormat* format, Peak peak,
                 DType dtype, int64_t n_tokens) {
  const int64_t n_panels = (96 << 20) / static_cast<int64_t>(format->panel_bytes(kColumns)) / 16 * 16;
  Problem problem(format, dtype, n_panels * 16, n_tokens);
  double seconds = 0, read_seconds = 0, peak_seconds = 0;
  size_t bytes = 0, read_bytes = 0;
  int64_t macs = 0, peak_macs = 0;
  for ([[maybe_unused]] auto _ : state) {
    const double once = seconds_of([&] { problem.multiply(0, problem.n_rows); });
    state.SetIterationTime(once);
    seconds += once;
    bytes += problem.panels_bytes();
    macs += problem.n_rows * kColumns * n_tokens;
    read_seconds += seconds_of(
        [&] { read_bytes += static_cast<size_t>(kernels->peak_read(problem.panels.get(), problem.panels_bytes())); });
    peak_seconds += seconds_of([&] { peak_macs += peak(100'000); });
  }
  const double bound_of_read = static_cast<double>(bytes) * read_seconds / static_cast<double>(read_bytes);
  const double bound_of_macs = static_cast<double>(macs) * peak_seconds / static_cast<double>(peak_macs);
  state.counters["GMAC/s"] = static_cast<double>(macs) / seconds * 1e-9;
  state.counters["GB/s"] = static_cast<double>(bytes) / seconds * 1e-9;
  state.counters["share_%"] = 100 * std::max(bound_of_read, bound_of_macs) / seconds;
}

void pack(benchmark::State& state, const cpu::Kernels* kernels, const cpu::PanelFormat* of_dtype, DType dtype) {
  constexpr int64_t kPanels = 256;
  Problem problem(of_dtype, dtype, 16, 1);
  const cpu::PanelFormat& format = *problem.format;
  const size_t source_bytes = kPanels * 16 * problem.file_row_bytes;
  const Buffer source = allocate(source_bytes), panels = allocate(kPanels * format.panel_bytes(kColumns));
  double seconds = 0, peak_seconds = 0;
  size_t bytes = 0, peak_bytes = 0;
  for ([[maybe_unused]] auto _ : state) {
    const double once = seconds_of([&] {
      for (size_t p = 0; p < kPanels; ++p)
        format.pack(source.get() + p * 16 * problem.file_row_bytes, problem.file_row_bytes, 16, kColumns,
                    panels.get() + p * format.panel_bytes(kColumns));
    });
    state.SetIterationTime(once);
    seconds += once;
    bytes += source_bytes;
    peak_seconds +=
        seconds_of([&] { peak_bytes += static_cast<size_t>(kernels->peak_read(source.get(), source_bytes)); });
  }
  report(state, "GB/s", static_cast<double>(bytes), seconds, static_cast<double>(peak_bytes), peak_seconds);
}

/// Measures quantizing and packing of 512 tokens in 10^9 values per second. The peak is the rate of reading the floats.
void activations(benchmark::State& state, const cpu::Kernels* kernels, const cpu::PanelFormat* format, DType dtype) {
  constexpr int64_t kTokens = 512;
  Problem problem(format, dtype, 16, kTokens);
  const std::vector<float> x(kColumns * kTokens, 0.5f);
  double seconds = 0, peak_seconds = 0;
  size_t bytes = 0, peak_bytes = 0;
  for ([[maybe_unused]] auto _ : state) {
    const double once = seconds_of([&] {
      problem.format->pack_activations(x.data(), kColumns * sizeof(float), problem.x_shape, 0, kTokens,
                                       problem.activations.get());
    });
    state.SetIterationTime(once);
    seconds += once;
    bytes += x.size() * sizeof(float);
    peak_seconds +=
        seconds_of([&] { peak_bytes += static_cast<size_t>(kernels->peak_read(x.data(), x.size() * sizeof(float))); });
  }
  report(state, "GB/s", static_cast<double>(bytes), seconds, static_cast<double>(peak_bytes), peak_seconds);
}

const bool kRegistered = [] {
  for (const std::string& isa : isa::usable_isas()) {
    const cpu::Kernels* kernels = *cpu::select_kernels(isa);
    for (const DTypeInfo& type : all_dtypes()) {
      const DType dtype = type.dtype;
      const cpu::PanelFormat* const own = kernels->panel_formats[static_cast<int>(dtype)];
      const cpu::PanelFormat* const in_int16 = kernels->int16_panel_formats[static_cast<int>(dtype)];
      if (own == nullptr) continue;
      const Peak peak = is_float(dtype) ? kernels->peak_f32 : kernels->peak_int8;
      const auto add = [&](const std::string& what, auto run) {
        benchmark::RegisterBenchmark(fmt::format("{}/{}/{}", what, info(dtype).name, isa).c_str(), run)
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond)
            ->MinTime(0.1);
      };
      for (const int64_t n_tokens : {510, 64, 12, 6, 2, 1}) {
        add(fmt::format("prefill/T{}", n_tokens),
            [=](benchmark::State& state) { prefill(state, own, peak, dtype, n_tokens, 0); });
        if (in_int16 != nullptr)
          add(fmt::format("int16/T{}", n_tokens),
              [=](benchmark::State& state) { prefill(state, in_int16, kernels->peak_int16, dtype, n_tokens, 0); });
      }
      for (const int64_t group : {128, 64, 32})
        for (const int64_t n_tokens : {510, 1})
          if (!is_float(dtype))
            add(fmt::format("group{}/T{}", group, n_tokens),
                [=](benchmark::State& state) { prefill(state, own, peak, dtype, n_tokens, group); });
      const auto add_from_memory = [&](const std::string& suffix, const cpu::PanelFormat* format, Peak peak_of_format) {
        for (const int64_t n_tokens : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64})
          add(n_tokens == 1 ? "decode" + suffix : fmt::format("few{}/T{}", suffix, n_tokens),
              [=](benchmark::State& state) { from_memory(state, kernels, format, peak_of_format, dtype, n_tokens); });
      };
      add_from_memory("", own, peak);
      add("pack", [=](benchmark::State& state) { pack(state, kernels, own, dtype); });
      add("activations", [=](benchmark::State& state) { activations(state, kernels, own, dtype); });
      if (in_int16 != nullptr) {
        add_from_memory("_int16", in_int16, kernels->peak_int16);
        add("activations_int16", [=](benchmark::State& state) { activations(state, kernels, in_int16, dtype); });
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace tessera
