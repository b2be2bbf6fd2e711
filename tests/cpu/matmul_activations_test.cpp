// The precision of activations in products: floats, int16, or int8 in groups of a chosen size. Tests every type, packed
// or not, any number of threads, and products that run together. matmul_kernels_test.cpp checks the groups.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <deque>
#include <optional>
#include <span>

#include "tessera/base/checked.h"
#include "tessera/cpu/dispatch.h"
#include "tessera/isa/sets.h"
#include "tests/cpu/matmul_testing.h"

namespace tessera {
namespace {

using namespace testing;

std::string output_name(size_t i) { return "y" + std::to_string(i); }

/// Products of weights with one x, so that adjacent products can share a step.
Graph graph_of(std::span<const Tensor* const> weights, int64_t n_tokens) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {weights[0]->shape()[0], n_tokens});
  for (size_t i = 0; i < weights.size(); ++i) b.output(b.mul_mat(b.tensor(*weights[i]), x), output_name(i));
  return std::move(b).finish().value();
}

/// A CPU with a given precision of activations.
class Cpu {
 public:
  Cpu(const std::string& isa, int n_threads, ActivationPrecision activations) : runner_(isa, n_threads, activations) {}

  OwnedTensor load(const Weights& w, bool is_packed) const {
    return {type_for(runner_.device(), is_packed, w.dtype, w.shape), "w", w.dtype, w.shape, w.bytes};
  }

  size_t work_bytes(const Graph& graph) const { return runner_.backend().work_bytes(graph).value(); }

  /// The outputs of graph_of().
  Result<std::vector<std::vector<float>>> products(std::span<const Tensor* const> weights,
                                                   const std::vector<float>& x) const {
    const int64_t n_tokens = static_cast<int64_t>(x.size()) / weights[0]->shape()[0];
    TESSERA_ASSIGN(const NamedBytes outputs, runner_.run(graph_of(weights, n_tokens), {{"x", bytes_of(x)}}));
    std::vector<std::vector<float>> products;
    for (size_t i = 0; i < weights.size(); ++i) products.push_back(values_of<float>(outputs.at(output_name(i))));
    return products;
  }

  Result<std::vector<float>> product(const Tensor& weights, const std::vector<float>& x) const {
    const Tensor* one = &weights;
    TESSERA_ASSIGN(auto all, products({&one, 1}, x));
    return std::move(all[0]);
  }

 private:
  GraphRunner runner_;
};

// k products and sums with a rounding of 2^-24 each. The scalar set rounds products and sums separately.
void expect_product(const Weights& w, const std::vector<float>& x, const std::vector<float>& y,
                    const std::string& what) {
  const int64_t k = w.shape[0], n_rows = w.shape[1], n_tokens = static_cast<int64_t>(x.size()) / k;
  ASSERT_EQ(y.size(), static_cast<size_t>(n_rows * n_tokens));
  for (int64_t t = 0; t < n_tokens; ++t)
    for (int64_t r = 0; r < n_rows; ++r) {
      double sum = 0, magnitude = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double p = double{w.values[static_cast<size_t>(r * k + i)]} * x[static_cast<size_t>(t * k + i)];
        sum += p;
        magnitude += std::abs(p);
      }
      ASSERT_NEAR(y[static_cast<size_t>(t * n_rows + r)], sum, 2.0 * static_cast<double>(k) * 0x1p-24 * magnitude)
          << what << " row " << r << " token " << t;
    }
}

TEST(Activations, AsFloatsLoseNothingForEveryTypePackedOrNot) {
  for (const std::string& isa : isa::usable_isas()) {
    std::deque<Cpu> cpus;
    for (const int n_threads : {1, 3}) cpus.emplace_back(isa, n_threads, ActivationPrecision::float32);
    for (const DType dtype : weight_types())
      for (const auto& [k, n_rows, n_tokens] :
           {std::array<int64_t, 3>{32, 1, 1}, {64, 17, 3}, {96, 150, 40}, {256, 100, 9}, {512, 16, 0}}) {
        if (k % info(dtype).block_elements != 0) continue;
        const Weights w(dtype, k, n_rows, 3);
        Rng rng(5);
        const std::vector<float> x = random_values(rng, k * n_tokens);
        std::optional<std::vector<float>> first;
        for (const Cpu& cpu : cpus)
          for (const bool is_packed : {true, false}) {
            const OwnedTensor weights = cpu.load(w, is_packed);
            ASSERT_OK_AND_ASSIGN(const auto y, cpu.product(weights.tensor, x));
            if (!first) first = y;
            ASSERT_TRUE(same_bytes(y, *first)) << isa << " " << info(dtype).name << " packed " << is_packed;
          }
        expect_product(w, x, *first, isa + " " + std::string(info(dtype).name));
      }
  }
}

TEST(Activations, AsFloatsGiveATokenTheSameBitsWhateverItsNeighbours) {
  const int64_t n_rows = 50, n_tokens = 37;
  for (const DType dtype : weight_types()) {
    const int64_t k = info(dtype).block_elements > 32 ? 256 : 96;
    const Weights w(dtype, k, n_rows, 7);
    Rng rng(9);
    const std::vector<float> x = random_values(rng, k * n_tokens);
    const Cpu cpu("", 2, ActivationPrecision::float32);
    const OwnedTensor weights = cpu.load(w, true);
    ASSERT_OK_AND_ASSIGN(const auto all, cpu.product(weights.tensor, x));
    for (const auto& [begin, n] : {std::pair<int64_t, int64_t>{0, 1}, {36, 1}, {3, 4}, {8, 16}, {20, 17}}) {
      ASSERT_OK_AND_ASSIGN(const auto part,
                           cpu.product(weights.tensor, {x.begin() + begin * k, x.begin() + (begin + n) * k}));
      const std::vector<float> want(all.begin() + begin * n_rows, all.begin() + (begin + n) * n_rows);
      ASSERT_TRUE(same_bytes(part, want)) << info(dtype).name << " tokens " << begin << " + " << n;
    }
  }
}

// Types that always read floats and types that read floats only here, packed and not. They share one packing of x as
// floats, and the scratch memory is large enough for each.
TEST(Activations, OfOneXGiveEachProductWhatItGivesAlone) {
  const DType types[] = {DType::q8_0, DType::f16, DType::q4_k, DType::f32, DType::q4_0, DType::q6_k, DType::bf16};
  Rng rng(3);
  for (const ActivationPrecision activations :
       {ActivationPrecision::float32, ActivationPrecision::int8_32, ActivationPrecision::int8_64})
    for (const int n_threads : {1, 3})
      for (const int64_t n_tokens : {1, 20}) {
        const Cpu cpu("", n_threads, activations);
        const std::vector<float> x = random_values(rng, 256 * n_tokens);
        std::deque<OwnedTensor> tensors;
        std::vector<const Tensor*> weights;
        for (size_t i = 0; i < std::size(types); ++i) {
          tensors.push_back(cpu.load(Weights(types[i], 256, 30 + 7 * static_cast<int64_t>(i), i), i % 3 == 0));
          weights.push_back(&tensors.back().tensor);
        }
        ASSERT_OK_AND_ASSIGN(const auto together, cpu.products(weights, x));
        const size_t work_bytes = cpu.work_bytes(graph_of(weights, n_tokens));
        for (size_t i = 0; i < weights.size(); ++i) {
          ASSERT_GE(work_bytes, cpu.work_bytes(graph_of({&weights[i], 1}, n_tokens))) << i;
          ASSERT_OK_AND_ASSIGN(const auto alone, cpu.product(*weights[i], x));
          ASSERT_TRUE(same_bytes(together[i], alone)) << i << ", " << n_tokens << " tokens, " << n_threads;
        }
      }
}

/// The product from a direct call of the kernels.
std::vector<float> kernel_product(const cpu::Kernels& kernels, const Weights& w, const std::vector<float>& x,
                                  int64_t max_group) {
  const int64_t k = w.shape[0], n_rows = w.shape[1];
  const cpu::PanelFormat* const in_int16 = kernels.int16_panel_formats[static_cast<size_t>(w.dtype)];
  const cpu::PanelFormat& format =
      in_int16 != nullptr ? *in_int16 : *kernels.panel_formats[static_cast<size_t>(w.dtype)];
  const cpu::ActivationShape shape{.k = k, .n_tokens = static_cast<int64_t>(x.size()) / k, .max_group = max_group};
  const size_t stride = row_bytes(w.dtype, k).value();
  Bytes panels(format.panel_bytes(k) * static_cast<size_t>(div_ceil<int64_t>(n_rows, cpu::kPanelRows)));
  for (int64_t row = 0; row < n_rows; row += cpu::kPanelRows)
    format.pack(&w.bytes[static_cast<size_t>(row) * stride], stride,
                static_cast<int>(std::min<int64_t>(cpu::kPanelRows, n_rows - row)), k,
                &panels[static_cast<size_t>(row / cpu::kPanelRows) * format.panel_bytes(k)]);
  Bytes packed(format.activation_bytes(shape));
  format.pack_activations(x.data(), static_cast<size_t>(k) * sizeof(float), shape, 0, shape.n_tokens, packed.data());
  std::vector<float> y(static_cast<size_t>(n_rows * shape.n_tokens));
  format.multiply(panels.data(), n_rows, shape, packed.data(), 0, shape.n_tokens, y.data(),
                  static_cast<size_t>(n_rows) * sizeof(float));
  return y;
}

TEST(Activations, AreInGroupsOfAtMostTheColumnsAskedForElseTheFormats) {
  const int64_t k = 256, n_rows = testing::all_or_few(50, 20);
  for (const std::string& isa : isa::usable_isas()) {
    ASSERT_OK_AND_ASSIGN(const cpu::Kernels* kernels, cpu::select_kernels(isa));
    for (const auto& [activations, wanted_group] :
         {std::pair<ActivationPrecision, int64_t>{ActivationPrecision::automatic, 0},
          {ActivationPrecision::int8_128, 128},
          {ActivationPrecision::int8_64, 64},
          {ActivationPrecision::int8_32, 32}})
      for (const int n_threads : {1, 3}) {
        const Cpu cpu(isa, n_threads, activations);
        for (const DType dtype : weight_types())
          for (const int64_t n_tokens : {2, testing::all_or_few(30, 9)}) {
            const int64_t own_group = kernels->panel_formats[static_cast<size_t>(dtype)]->default_group;
            const int64_t max_group = activations == ActivationPrecision::automatic ? own_group : wanted_group;
            const Weights w(dtype, k, n_rows, 11);
            Rng rng(12);
            const std::vector<float> x = random_values(rng, k * n_tokens);
            const auto want = kernel_product(*kernels, w, x, max_group);
            for (const bool is_packed : {true, false}) {
              const OwnedTensor weights = cpu.load(w, is_packed);
              ASSERT_OK_AND_ASSIGN(const auto y, cpu.product(weights.tensor, x));
              ASSERT_TRUE(same_bytes(y, want)) << isa << " " << info(dtype).name << " groups of " << max_group;
            }
            if (max_group < 128 && info(dtype).is_blocked()) {
              ASSERT_FALSE(same_bytes(want, kernel_product(*kernels, w, x, 128))) << info(dtype).name;
            }
          }
      }
  }
}

// The defaults of docs/quality.md: small groups for formats in which they cost nothing.
TEST(Activations, GroupsOfFormatsByDefault) {
  for (const std::string& isa : isa::usable_isas()) {
    ASSERT_OK_AND_ASSIGN(const cpu::Kernels* kernels, cpu::select_kernels(isa));
    const auto group_of = [&](DType dtype) {
      return kernels->panel_formats[static_cast<size_t>(dtype)]->default_group;
    };
    for (const DType dtype : {DType::q8_0, DType::q4_0, DType::iq4_nl, DType::iq4_xs}) EXPECT_EQ(group_of(dtype), 32);
    for (const DType dtype : {DType::q4_1, DType::q4_k, DType::q6_k, DType::q2_k}) EXPECT_EQ(group_of(dtype), 128);
  }
}

TEST(Activations, OfMoreTokensNeverTakeLessScratch) {
  for (const std::string& isa : isa::usable_isas())
    for (const ActivationPrecision activations :
         {ActivationPrecision::float32, ActivationPrecision::int8_32, ActivationPrecision::int8_64}) {
      const Cpu cpu(isa, 4, activations);
      for (const DType dtype : weight_types()) {
        size_t before = 0;
        for (int64_t n_tokens = 1; n_tokens <= 70; ++n_tokens) {
          GraphBuilder b;
          b.output(b.mul_mat(b.input("w", dtype, {256, 32}), b.input("x", DType::f32, {256, n_tokens})), "y");
          const size_t bytes = cpu.work_bytes(std::move(b).finish().value());
          ASSERT_GE(bytes, before) << isa << " " << info(dtype).name << " at " << n_tokens << " tokens";
          before = bytes;
        }
      }
    }
}

// The layout that products of experts rely on: T packed rows are, word by word, T separately packed rows.
TEST(PackedRows, OfATileAreTheSingleRowsSideBySide) {
  const int64_t k = 256;
  Rng rng(11);
  for (const std::string& isa : isa::usable_isas()) {
    const cpu::Kernels& kernels = *cpu::select_kernels(isa).value();
    std::vector<std::pair<std::string, const cpu::PanelFormat*>> formats;
    for (const DType dtype : weight_types()) {
      const std::string name(info(dtype).name);
      formats.emplace_back(name, kernels.panel_formats[static_cast<size_t>(dtype)]);
      if (const auto* in_int16 = kernels.int16_panel_formats[static_cast<size_t>(dtype)])
        formats.emplace_back(name + " in int16", in_int16);
    }
    for (const auto& [name, of_name] : formats) {
      const cpu::PanelFormat& format = *of_name;
      for (int64_t n = 1; n <= format.token_tile; ++n) {
        const std::vector<float> x = random_values(rng, k * n);
        const auto packed = [&](const float* rows, int64_t count) {
          const cpu::ActivationShape shape{.k = k, .n_tokens = count, .max_group = format.default_group};
          std::vector<uint32_t> words(format.activation_bytes(shape) / 4);
          format.pack_activations(rows, static_cast<size_t>(k) * sizeof(float), shape, 0, count, words.data());
          return words;
        };
        const cpu::ActivationShape sixteen{.k = k, .n_tokens = 16, .max_group = format.default_group};
        ASSERT_EQ(format.activation_bytes(sixteen) % 64, 0u);
        const size_t n_words = format.activation_bytes(sixteen) / 64;
        const auto tile = packed(x.data(), n);
        for (int64_t row = 0; row < n; ++row) {
          const auto single = packed(x.data() + row * k, 1);
          for (size_t word = 0; word < n_words; ++word)
            ASSERT_EQ(tile[word * static_cast<size_t>(n) + static_cast<size_t>(row)], single[word])
                << isa << " " << name << " row " << row << " of " << n << ", word " << word;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
