#include "tessera/nn/pooling.h"

#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;
using nn::Pooling;

TEST(Pooling, NamesAreThoseOfTheFlag) {
  EXPECT_EQ(nn::pooling_from_name("none").value(), Pooling::none);
  EXPECT_EQ(nn::pooling_from_name("mean").value(), Pooling::mean);
  EXPECT_EQ(nn::pooling_from_name("cls").value(), Pooling::cls);
  EXPECT_EQ(nn::pooling_from_name("last").value(), Pooling::last);
  EXPECT_EQ(nn::pooling_from_name("rank").value(), Pooling::rank);
  EXPECT_ERROR(nn::pooling_from_name("max"), "'max' is not one of none, mean, cls, last, rank");
}

TEST(Pooling, NumbersAreThoseOfFiles) {
  EXPECT_EQ(static_cast<int>(Pooling::none), 0);
  EXPECT_EQ(static_cast<int>(Pooling::mean), 1);
  EXPECT_EQ(static_cast<int>(Pooling::cls), 2);
  EXPECT_EQ(static_cast<int>(Pooling::last), 3);
  EXPECT_EQ(static_cast<int>(Pooling::rank), 4);
}

TEST(Pooling, TakesTheTokensItNeeds) {
  const auto tokens = [](Pooling pooling) {
    const Range range = nn::pooled_tokens(pooling, 5);
    return std::pair(range.begin, range.end);
  };
  EXPECT_EQ(tokens(Pooling::none), std::pair(int64_t{0}, int64_t{5}));
  EXPECT_EQ(tokens(Pooling::mean), std::pair(int64_t{0}, int64_t{5}));
  EXPECT_EQ(tokens(Pooling::cls), std::pair(int64_t{0}, int64_t{1}));
  EXPECT_EQ(tokens(Pooling::last), std::pair(int64_t{4}, int64_t{5}));
}

TEST(Pooling, MeanIsColumnByColumn) {
  const std::vector<float> rows = {1, 10, 2, 20, 6, -30};
  std::vector<float> mean(2);
  nn::RowMean whole(2), pieces(2);
  whole.add(rows);
  whole.write(mean);
  EXPECT_EQ(mean, (std::vector<float>{3, 0}));
  pieces.add(std::span(rows).first(4));
  pieces.add(std::span(rows).subspan(4));
  pieces.write(mean);
  EXPECT_EQ(mean, (std::vector<float>{3, 0}));
}

TEST(Pooling, MeanIsSummedInDouble) {
  const std::vector<float> rows = {3e8f, 1, 1, -3e8f};  // in f32 the ones would be lost
  std::vector<float> mean(1);
  nn::RowMean sum(1);
  sum.add(rows);
  sum.write(mean);
  EXPECT_EQ(mean[0], 0.5f);
}

// One embedding of two elements through small heads, computed by hand.
std::vector<float> scores(const GraphRunner& runner, const nn::RankHead& head, const std::vector<float>& x) {
  GraphBuilder b;
  b.output(nn::rank(b, b.input("x", DType::f32, {2, 1}), head), "y");
  auto graph = std::move(b).finish();
  EXPECT_OK(graph);
  const auto y = runner.run_y(std::move(*graph), {{"x", bytes_of(x)}});
  EXPECT_OK(y);
  return y.value_or(std::vector<float>{});
}

TEST(RankHead, IsDenseTanhAndOutput) {
  const GraphRunner runner;
  const BufferType& type = runner.device().buffer_type();
  const OwnedTensor dense(type, "cls.weight", DType::f32, {2, 2}, bytes_of<float>({1, 0, 0.5f, 0.25f}));
  const OwnedTensor bias(type, "cls.bias", DType::f32, {2}, bytes_of<float>({0.125f, -1}));
  const OwnedTensor output(type, "cls.output.weight", DType::f32, {2, 2}, bytes_of<float>({1, 1, 2, -1}));
  const OwnedTensor output_bias(type, "cls.output.bias", DType::f32, {2}, bytes_of<float>({0, 10}));
  nn::RankHead head{.dense = {.weight = &dense.tensor, .bias = &bias.tensor},
                    .output = {.weight = &output.tensor, .bias = &output_bias.tensor}};
  EXPECT_TRUE(head.present());
  EXPECT_EQ(head.n_scores(), 2);
  const double h0 = std::tanh(0.5 + 0.125), h1 = std::tanh(0.25 + 0.5 - 1);
  expect_near(scores(runner, head, {0.5f, 2}), {h0 + h1, 2 * h0 - h1 + 10}, 1e-6);

  head.has_soft_max = true;
  const double e0 = std::exp(h0 + h1), e1 = std::exp(2 * h0 - h1 + 10);
  expect_near(scores(runner, head, {0.5f, 2}), {e0 / (e0 + e1), e1 / (e0 + e1)}, 1e-6);
}

TEST(RankHead, MayHaveGeluAndANorm) {
  const GraphRunner runner;
  const BufferType& type = runner.device().buffer_type();
  const OwnedTensor dense(type, "cls.weight", DType::f32, {2, 2}, bytes_of<float>({1, 0, 0, 1}));
  const OwnedTensor weight(type, "cls.norm.weight", DType::f32, {2}, bytes_of<float>({3, 5}));
  const nn::RankHead head{.dense = {.weight = &dense.tensor},
                          .norm = {.kind = nn::NormKind::layer, .weight = &weight.tensor, .eps = 0.0f},
                          .activation = nn::RankHead::Activation::gelu};
  // GELU leaves 2 larger than -1. The norm maps two values to 1 and -1.
  expect_near(scores(runner, head, {2, -1}), {3, -5}, 1e-5);
}

TEST(RankHead, MayBeOneLayer) {
  const GraphRunner runner;
  const BufferType& type = runner.device().buffer_type();
  const OwnedTensor output(type, "cls.output.weight", DType::f32, {2, 1}, bytes_of<float>({1, -2}));
  const nn::RankHead head{.output = {.weight = &output.tensor}};
  EXPECT_EQ(head.n_scores(), 1);
  expect_near(scores(runner, head, {3, 5}), {-7}, 1e-6);
  EXPECT_FALSE(nn::RankHead{}.present());
}

}  // namespace
}  // namespace tessera
