// The gradient of every operation against differences of a double-precision reference: a table of cases, and a test
// that finds operations without a case.
#include <cmath>
#include <filesystem>
#include <numbers>

#include "tessera/graph/op_def.h"
#include "tests/support/gradient_check.h"

namespace tessera {
namespace {

using testing::check_gradients;
using testing::GradientCase;
using testing::GradientLeaf;

using Doubles = std::vector<double>;
using Leaves = std::vector<Doubles>;
using Values = std::vector<Value>;

struct OpCase {
  Op op;
  std::string what;
  GradientCase c;
};

// --- references

/// The index of element (i0, i1, i2, i3) in row-major order; extents of 1 repeat.
size_t at(const Shape& s, int64_t i0, int64_t i1 = 0, int64_t i2 = 0, int64_t i3 = 0) {
  const auto in = [&](int d, int64_t i) { return s[d] == 1 ? 0 : i; };
  return static_cast<size_t>(((in(3, i3) * s[2] + in(2, i2)) * s[1] + in(1, i1)) * s[0] + in(0, i0));
}

/// Calls f(i0, i1, i2, i3) for all elements of a shape in row-major order.
template <class F>
Doubles fill(const Shape& s, F f) {
  Doubles y;
  for (int64_t i3 = 0; i3 < s[3]; ++i3)
    for (int64_t i2 = 0; i2 < s[2]; ++i2)
      for (int64_t i1 = 0; i1 < s[1]; ++i1)
        for (int64_t i0 = 0; i0 < s[0]; ++i0) y.push_back(f(i0, i1, i2, i3));
  return y;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double gelu(double x) { return x * sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)); }

/// Applies a function from row to row to rows of n elements.
template <class RowFunction>
Doubles by_rows(const Doubles& x, int64_t n, RowFunction f) {
  Doubles y;
  for (size_t i = 0; i < x.size(); i += static_cast<size_t>(n)) {
    const Doubles row = f(Doubles(x.begin() + static_cast<std::ptrdiff_t>(i),
                                  x.begin() + static_cast<std::ptrdiff_t>(i) + static_cast<std::ptrdiff_t>(n)));
    y.insert(y.end(), row.begin(), row.end());
  }
  return y;
}

double dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Doubles times(Doubles x, double factor) {
  for (double& v : x) v *= factor;
  return x;
}

Doubles normal_row(Doubles x, double mean, double eps) {
  for (double& v : x) v -= mean;
  return times(x, 1 / std::sqrt(dot(x, x) / static_cast<double>(x.size()) + eps));
}

Doubles soft_max_row(Doubles x) {
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v);
  return times(x, 1 / sum);
}

// --- cases

OpCase unary(Op op, Value (GraphBuilder::*method)(Value), double (*f)(double), float low = -3, float high = 3) {
  return {op,
          "",
          {.leaves = {{.shape = {37, 3}, .low = low, .high = high}},
           .build = [method](GraphBuilder& b, const Values& v) { return (b.*method)(v[0]); },
           .reference =
               [f](const Leaves& v) {
                 return fill({37, 3}, [&](int64_t i, int64_t j, auto, auto) { return f(v[0][at({37, 3}, i, j)]); });
               }}};
}

OpCase binary(Op op, std::string what, Value (GraphBuilder::*method)(Value, Value), const Shape& second,
              double (*f)(double, double), float low = -3, float high = 3) {
  const Shape shape{18, 3, 2};
  return {op,
          std::move(what),
          {.leaves = {{.shape = shape, .low = low, .high = high}, {.shape = second, .low = low, .high = high}},
           .build = [method](GraphBuilder& b, const Values& v) { return (b.*method)(v[0], v[1]); },
           .reference =
               [=](const Leaves& v) {
                 return fill(shape, [&](int64_t i, int64_t j, int64_t k, int64_t l) {
                   return f(v[0][at(shape, i, j, k, l)], v[1][at(second, i, j, k, l)]);
                 });
               }}};
}

using RowFunction = std::function<Doubles(const Doubles& row, const Leaves& leaves)>;

/// Rows of 70 elements: more than four vectors, with a remainder.
OpCase rows(Op op, std::string what, std::vector<GradientLeaf> more,
            std::function<Value(GraphBuilder&, const Values&)> build, RowFunction f) {
  OpCase result{op, std::move(what), {.leaves = {{.shape = {70, 2}, .low = -2, .high = 2}}, .build = std::move(build)}};
  for (GradientLeaf& leaf : more) result.c.leaves.push_back(std::move(leaf));
  result.c.reference = [f = std::move(f)](const Leaves& v) {
    return by_rows(v[0], 70, [&](const Doubles& row) { return f(row, v); });
  };
  return result;
}

Doubles plus(Doubles a, const Doubles& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}
Doubles by(Doubles a, const Doubles& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
  return a;
}
double mean(const Doubles& x) { return dot(x, Doubles(x.size(), 1.0)) / static_cast<double>(x.size()); }

void add_elementwise(std::vector<OpCase>& all) {
  using B = GraphBuilder;
  const auto add = [](double a, double b) { return a + b; };
  const auto mul = [](double a, double b) { return a * b; };
  const auto div = [](double a, double b) { return a / b; };
  const Shape same{18, 3, 2};
  all.push_back(binary(Op::add, "", &B::add, same, add));
  all.push_back(binary(Op::add, "a_row", &B::add, {18}, add));
  all.push_back(binary(Op::mul, "", &B::mul, same, mul));
  all.push_back(binary(Op::mul, "a_row_per_matrix", &B::mul, {18, 1, 2}, mul));
  all.push_back(binary(Op::mul, "a_number_per_row", &B::mul, {1, 3, 2}, mul));
  all.push_back(binary(Op::mul, "a_number", &B::mul, {1}, mul));
  all.push_back(binary(Op::div, "", &B::div, same, div, 0.5f, 2));
  all.push_back(binary(Op::div, "a_row", &B::div, {18}, div, 0.5f, 2));
  all.push_back(binary(Op::swiglu, "", &B::swiglu, same, [](double g, double u) { return silu(g) * u; }));
  all.push_back(binary(Op::geglu, "", &B::geglu, same, [](double g, double u) { return gelu(g) * u; }));
  all.push_back(binary(
      Op::swiglu_oai, "", &B::swiglu_oai, same,
      [](double gate, double up) {
        const double g = std::min(gate, 7.0), u = std::clamp(up, -7.0, 7.0);
        return g * sigmoid(double{1.702f} * g) * (u + 1);
      },
      -9, 9));
  all.push_back(unary(Op::silu, &B::silu, silu));
  all.push_back(unary(Op::sigmoid, &B::sigmoid, sigmoid));
  all.push_back(unary(Op::gelu, &B::gelu, gelu));
  all.push_back(unary(Op::relu_squared, &B::relu_squared, [](double x) { return x > 0 ? x * x : 0; }));
  all.push_back(unary(
      Op::sqrt, &B::sqrt, [](double x) { return std::sqrt(x); }, 0.5f, 4));
  all.push_back(unary(Op::exp, &B::exp, [](double x) { return std::exp(x); }));
  all.push_back(unary(Op::softplus, &B::softplus, [](double x) { return std::log1p(std::exp(x)); }));
}

void add_rowwise(std::vector<OpCase>& all) {
  all.push_back(rows(
      Op::scale, "", {}, [](auto& b, auto& v) { return b.scale(v[0], -0.75f); },
      [](auto& x, auto&) { return times(x, -0.75); }));
  all.push_back(rows(
      Op::soft_cap, "", {}, [](auto& b, auto& v) { return b.soft_cap(v[0], 1.5f); },
      [](Doubles x, auto&) {
        for (double& v : x) v = 1.5 * std::tanh(v / 1.5);
        return x;
      }));
  all.push_back(rows(
      Op::clamp, "", {}, [](auto& b, auto& v) { return b.clamp(v[0], -0.5f, 1.0f); },
      [](Doubles x, auto&) {
        for (double& v : x) v = std::clamp(v, -0.5, 1.0);
        return x;
      }));
  all.push_back(rows(
      Op::xielu, "", {},
      [](auto& b, auto& v) {
        return b.xielu(v[0], {0.8f, 1.4f, 0.5f, -1e-6f});
      },
      [](Doubles x, auto&) {
        for (double& v : x)
          v = 0.5 * v + (v > 0 ? double{0.8f} * v * v : double{1.4f} * (std::expm1(std::min(v, -1e-6)) - v));
        return x;
      }));
  all.push_back(rows(
      Op::soft_max, "", {}, [](auto& b, auto& v) { return b.soft_max(v[0]); },
      [](auto& x, auto&) { return soft_max_row(x); }));
  all.push_back(rows(
      Op::rms_norm, "", {{.shape = {70}}}, [](auto& b, auto& v) { return b.rms_norm(v[0], v[1], 0.25f); },
      [](auto& x, auto& v) { return by(normal_row(x, 0, 0.25), v[1]); }));
  all.push_back(rows(
      Op::rms_norm, "without_weight", {}, [](auto& b, auto& v) { return b.rms_norm(v[0], {}, 0); },
      [](auto& x, auto&) { return normal_row(x, 0, 0); }));
  all.push_back(rows(
      Op::layer_norm, "", {{.shape = {70}}, {.shape = {70}}},
      [](auto& b, auto& v) { return b.layer_norm(b.add(v[0], v[2]), v[1], v[2], 0.25f); },
      [](auto& row, auto& v) {
        const Doubles x = plus(row, v[2]);
        return plus(by(normal_row(x, mean(x), 0.25), v[1]), v[2]);
      }));
  all.push_back(rows(
      Op::layer_norm, "without_weight", {}, [](auto& b, auto& v) { return b.layer_norm(v[0], {}, {}, 0); },
      [](auto& x, auto&) { return normal_row(x, mean(x), 0); }));
  all.push_back(rows(
      Op::l2_norm, "", {}, [](auto& b, auto& v) { return b.l2_norm(v[0], 1e-3f); },
      [](auto& x, auto&) { return times(x, 1 / std::sqrt(dot(x, x))); }));
  all.push_back(rows(
      Op::l2_norm, "below_eps", {}, [](auto& b, auto& v) { return b.l2_norm(v[0], 50); },
      [](auto& x, auto&) { return times(x, 1.0 / 50); }));
  all.push_back(rows(
      Op::row_sum, "", {}, [](auto& b, auto& v) { return b.row_sum(v[0]); },
      [](auto& x, auto&) { return Doubles{mean(x) * 70}; }));
  all.push_back(rows(
      Op::cross_entropy, "", {{.shape = {2}, .numbers = {69, 4}}},
      [](auto& b, auto& v) { return b.cross_entropy(v[0], v[1]); },
      [](auto& x, auto& v) {
        const double target = v[1][x == Doubles(v[0].begin(), v[0].begin() + 70) ? 0 : 1];
        return Doubles{-std::log(soft_max_row(x)[static_cast<size_t>(target)])};
      }));
}

// --- products

OpCase product(std::string what, DType dtype, const Shape& weights, int64_t t) {
  const int64_t k = weights[0], n = weights[1];
  return {Op::mul_mat,
          std::move(what),
          {.leaves = {{.shape = weights, .dtype = dtype}, {.shape = {k, t}}},
           .build = [](GraphBuilder& b, const Values& v) { return b.mul_mat(v[0], v[1]); },
           .reference =
               [=](const Leaves& v) {
                 return fill({n, t}, [&](int64_t i, int64_t j, auto, auto) {
                   double sum = 0;
                   for (int64_t c = 0; c < k; ++c) sum += v[0][at(weights, c, i)] * v[1][at({k, t}, c, j)];
                   return sum;
                 });
               },
           .forward_tolerance = 1e-5}};
}

void add_products(std::vector<OpCase>& all) {
  all.push_back(product("", DType::f32, {19, 21}, 5));
  all.push_back(product("many_tokens", DType::f32, {6, 3}, 70));
  all.push_back(product("with_frozen_bf16", DType::bf16, {19, 21}, 3));
  all.push_back(product("with_frozen_q8_0", DType::q8_0, {32, 5}, 3));
  all.push_back(product("with_frozen_q4_k", DType::q4_k, {256, 18}, 2));
  const Shape w{7, 5, 2}, x{7, 2, 3};
  all.push_back({Op::mul_mat_heads,
                 "",
                 {.leaves = {{.shape = w}, {.shape = x}},
                  .build = [](GraphBuilder& b, const Values& v) { return b.mul_mat_heads(v[0], v[1]); },
                  .reference =
                      [=](const Leaves& v) {
                        return fill({5, 2, 3}, [&](int64_t i, int64_t h, int64_t t, auto) {
                          double sum = 0;
                          for (int64_t c = 0; c < 7; ++c) sum += v[0][at(w, c, i, h)] * v[1][at(x, c, h, t)];
                          return sum;
                        });
                      }}});
  for (const bool is_row : {false, true}) {
    const Shape y{18, 3}, d = is_row ? Shape{18} : y;
    all.push_back({Op::add_scaled,
                   is_row ? "a_row" : "",
                   {.leaves = {{.shape = y}, {.shape = d}, {.shape = {1, 3}}},
                    .build = [](GraphBuilder& b, const Values& v) { return b.add_scaled(v[0], v[1], v[2], 0.5f); },
                    .reference =
                        [=](const Leaves& v) {
                          return fill(y, [&](int64_t i, int64_t t, auto, auto) {
                            return v[0][at(y, i, t)] + 0.5 * v[2][static_cast<size_t>(t)] * v[1][at(d, i, t)];
                          });
                        }}});
  }
}

// --- data

OpCase data(Op op, std::string what, std::vector<GradientLeaf> leaves,
            std::function<Value(GraphBuilder&, const Values&)> build, std::function<Doubles(const Leaves&)> reference) {
  return {
      op, std::move(what), {.leaves = std::move(leaves), .build = std::move(build), .reference = std::move(reference)}};
}

/// The layout of rows 1 and 3 of x [18, 5], columns 2 to 11.
Layout two_rows() { return {.shape = {10, 2}, .nb = {4, 2 * 72, 4 * 72, 4 * 72}}; }

void add_data(std::vector<OpCase>& all) {
  const Shape x{18, 5};
  all.push_back(data(
      Op::view, "as_another_shape", {{.shape = x}},
      [](auto& b, auto& v) {
        return b.mul(b.reshape(v[0], {9, 2, 5}), b.reshape(v[0], {9, 2, 5}));
      },
      [](auto& v) { return by(v[0], v[0]); }));
  const auto part = [=](const Leaves& v) {
    return fill({10, 2}, [&](int64_t i, int64_t j, auto, auto) { return v[0][at(x, i + 2, 2 * j + 1)]; });
  };
  const auto view_part = [](GraphBuilder& b, Value v) { return b.view(v, two_rows(), 72 + 8); };
  all.push_back(data(
      Op::view, "with_gaps", {{.shape = x}}, [=](auto& b, auto& v) { return b.silu(view_part(b, v[0])); },
      [=](auto& v) {
        Doubles y = part(v);
        for (double& e : y) e = silu(e);
        return y;
      }));
  all.push_back(data(
      Op::cast, "of_a_view", {{.shape = x}}, [=](auto& b, auto& v) { return b.cast(view_part(b, v[0]), DType::f32); },
      part));
  GradientLeaf exact{.shape = {18}};
  for (int i = 0; i < 18; ++i) exact.values.push_back(static_cast<float>(i - 7) / 8);
  all.push_back(data(
      Op::cast, "through_bf16", {exact}, [](auto& b, auto& v) { return b.cast(b.cast(v[0], DType::bf16), DType::f32); },
      [](auto& v) { return v[0]; }));
  const std::vector<int32_t> ids{3, 0, 3, 4};
  all.push_back(data(
      Op::get_rows, "", {{.shape = x}, {.shape = {4}, .numbers = ids}},
      [](auto& b, auto& v) { return b.get_rows(v[0], v[1]); },
      [=](auto& v) {
        return fill({18, 4}, [&](int64_t i, int64_t j, auto, auto) {
          return v[0][at(x, i, static_cast<int64_t>(v[1][static_cast<size_t>(j)]))];
        });
      }));
  all.push_back(data(
      Op::scatter_rows, "", {{.shape = {18, 4}}, {.shape = {4}, .numbers = ids}},
      [](auto& b, auto& v) { return b.scatter_rows(v[0], v[1], 6); },
      [](auto& v) {
        return fill({18, 6}, [&](int64_t i, int64_t r, auto, auto) {
          double sum = 0;
          for (int64_t j = 0; j < 4; ++j)
            if (v[1][static_cast<size_t>(j)] == static_cast<double>(r)) sum += v[0][at({18, 4}, i, j)];
          return sum;
        });
      }));
  const Shape a{5, 3, 2}, c{7, 3, 2};
  all.push_back(data(
      Op::concat, "", {{.shape = a}, {.shape = c}}, [](auto& b, auto& v) { return b.concat(v[0], v[1]); },
      [=](auto& v) {
        return fill({12, 3, 2}, [&](int64_t i, int64_t j, int64_t k, auto) {
          return i < 5 ? v[0][at(a, i, j, k)] : v[1][at(c, i - 5, j, k)];
        });
      }));
  const Shape box{19, 3, 2, 2};
  all.push_back(data(
      Op::transpose, "", {{.shape = box}}, [](auto& b, auto& v) { return b.transpose(v[0]); },
      [=](auto& v) {
        return fill({3, 19, 2, 2},
                    [&](int64_t i, int64_t j, int64_t k, int64_t l) { return v[0][at(box, j, i, k, l)]; });
      }));
  for (const Shape& to : {Shape{19}, Shape{19, 3, 1, 2}, Shape{1, 3, 2, 2}, Shape{1, 1, 2, 1}, Shape{1}, box}) {
    all.push_back(data(
        Op::sum_to, "", {{.shape = box}}, [=](auto& b, auto& v) { return b.sum_to(v[0], to); },
        [=](auto& v) {
          Doubles y(static_cast<size_t>(to.n_elements()));
          fill(box, [&](int64_t i, int64_t j, int64_t k, int64_t l) {
            return y[at(to, i, j, k, l)] += v[0][at(box, i, j, k, l)];
          });
          return y;
        }));
    all.push_back(data(
        Op::repeat, "", {{.shape = to}}, [=](auto& b, auto& v) { return b.repeat(v[0], box); },
        [=](auto& v) {
          return fill(box, [&](int64_t i, int64_t j, int64_t k, int64_t l) { return v[0][at(to, i, j, k, l)]; });
        }));
  }
  all.push_back(data(
      Op::place, "", {{.shape = {10, 2}}},
      [=](auto& b, auto& v) {
        return b.place(v[0], {x, two_rows(), 72 + 8});
      },
      [=](auto& v) {
        return fill(x, [&](int64_t i, int64_t j, auto, auto) {
          const bool is_inside = i >= 2 && i < 12 && j % 2 == 1;
          return is_inside ? v[0][at({10, 2}, i - 2, j / 2)] : 0.0;
        });
      }));
}

OpCase rope(std::string what, RopePairs pairs, bool inverse) {
  constexpr int64_t kRot = 6, kDim = 10;
  const Shape x{kDim, 2, 3};
  const RopeTableParams params{.n_rot = kRot, .freq_base = 100.0f, .magnitude = 1.25f};
  return data(
      Op::rope, std::move(what), {{.shape = x}, {.shape = {3}, .numbers = {5, 0, 17}}},
      [=](auto& b, auto& v) { return b.rope(v[0], b.rope_table(v[1], {}, params), pairs, inverse); },
      [=](auto& v) {
        Doubles y = v[0];
        for (int64_t t = 0; t < 3; ++t)
          for (int64_t h = 0; h < 2; ++h)
            for (int64_t i = 0; i < kRot / 2; ++i) {
              const double angle = std::pow(100.0, -2.0 * static_cast<double>(i) / kRot) *
                                   v[1][static_cast<size_t>(t)] * (inverse ? -1 : 1);
              const bool is_adjacent = pairs == RopePairs::adjacent;
              const size_t first = at(x, is_adjacent ? 2 * i : i, h, t);
              const size_t second = at(x, is_adjacent ? 2 * i + 1 : i + kRot / 2, h, t);
              y[first] = 1.25 * (v[0][first] * std::cos(angle) - v[0][second] * std::sin(angle));
              y[second] = 1.25 * (v[0][first] * std::sin(angle) + v[0][second] * std::cos(angle));
            }
        return y;
      });
}

const std::vector<OpCase>& all_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    add_elementwise(all);
    add_rowwise(all);
    add_products(all);
    add_data(all);
    all.push_back(rope("adjacent", RopePairs::adjacent, false));
    all.push_back(rope("halves", RopePairs::halves, false));
    all.push_back(rope("back", RopePairs::halves, true));
    return all;
  }();
  return cases;
}

class Gradients : public ::testing::TestWithParam<size_t> {};

TEST_P(Gradients, AreDifferencesOfTheReference) {
  const OpCase& test = all_cases()[GetParam()];
  const testing::GradientLeaves leaves(test.c, testing::float_settings().front().runner.device());
  GraphBuilder b;
  test.c.build(b, leaves.add_to(b));
  const auto graph = std::move(b).finish();
  ASSERT_OK(graph);
  EXPECT_TRUE(std::ranges::any_of(graph->nodes(), [&](const Node& node) { return node.op == test.op; }));
  check_gradients(test.c);
}

INSTANTIATE_TEST_SUITE_P(All, Gradients, ::testing::Range(size_t{0}, all_cases().size()), [](const auto& info) {
  const OpCase& test = all_cases()[info.param];
  return std::string(tessera::info(test.op).name) + "_" + test.what + "_" + std::to_string(info.param);
});

constexpr struct {
  Op op;
  std::string_view enumerator;
} kOps[] = {
#define TESSERA_OP(name, family, parameters, devices) {Op::name, #name},
#include "tessera/graph/ops.def"
};

// Each operation is in the table above, or in another test file that computes gradients.
TEST(GradientCases, CoverEveryDifferentiableOperation) {
  std::string others;
  for (const auto& file : std::filesystem::recursive_directory_iterator(testing::source_dir() + "/tests")) {
    if (file.path().extension() != ".cpp" || file.path().filename() == "gradient_test.cpp") continue;
    const std::string text = testing::read_all(file.path());
    const bool differentiates = text.find("_gradients(") != std::string::npos;  // check_gradients, add_gradients
    if (differentiates) others += text;
  }
  for (const auto& [op, enumerator] : kOps) {
    const auto rule = info(op).def->gradient;
    if (rule == nullptr || rule == gradient_of_constant) continue;
    const bool is_here = std::ranges::any_of(all_cases(), [op = op](const OpCase& test) { return test.op == op; });
    const bool is_elsewhere = others.find("." + std::string(enumerator) + "(") != std::string::npos;
    EXPECT_TRUE(is_here || is_elsewhere) << enumerator << " has a gradient that no test checks";
  }
}

}  // namespace
}  // namespace tessera
