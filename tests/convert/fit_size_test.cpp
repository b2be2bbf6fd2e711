// The best mix for a size: the trade-off computed by hand, and files within the size.
#include "tessera/convert/fit_size.h"

#include "tessera/gguf/weight_facts.h"

#include <limits>
#include <map>

#include "tests/convert/quantize_support.h"

namespace tessera::convert {
namespace {

using testing::SmallFile;

TEST(LowerHull, DropsWhatAMixOfTwoOthersBeats) {
  const std::vector<SizePoint> hull = lower_hull({{DType::q8_0, 80, 0.1},
                                                  {DType::q2_k, 20, 10},
                                                  {DType::q4_0, 40, 9.0},  // above the line from q2_K to q4_K
                                                  {DType::q4_k, 45, 1.0},
                                                  {DType::q5_0, 55, 1.5},    // larger and worse
                                                  {DType::iq4_nl, 45, 1.2},  // as large and worse
                                                  {DType::f32, 300, 0}});
  ASSERT_EQ(hull.size(), 4u);
  EXPECT_EQ(hull[0].dtype, DType::q2_k);
  EXPECT_EQ(hull[1].dtype, DType::q4_k);
  EXPECT_EQ(hull[2].dtype, DType::q8_0);
  EXPECT_EQ(hull[3].dtype, DType::f32);
}

TEST(SpendBytes, SteepestStepsFirstAndNeverMoreThanThereIs) {
  const std::vector<std::vector<SizePoint>> hulls = {
      {{DType::q2_k, 10, 100}, {DType::q4_k, 20, 10}, {DType::q8_0, 40, 0}},  // 9 per byte, then 0.5
      {{DType::q2_k, 10, 50}, {DType::q4_k, 20, 20}, {DType::q8_0, 40, 0}},   // 3 per byte, then 1
  };
  using Reached = std::vector<size_t>;
  EXPECT_EQ(spend_bytes(hulls, 20), (Reached{0, 0}));
  EXPECT_EQ(spend_bytes(hulls, 30), (Reached{1, 0}));
  EXPECT_EQ(spend_bytes(hulls, 40), (Reached{1, 1}));
  EXPECT_EQ(spend_bytes(hulls, 59), (Reached{1, 1}));
  EXPECT_EQ(spend_bytes(hulls, 60), (Reached{1, 2}));
  EXPECT_EQ(spend_bytes(hulls, 1000), (Reached{2, 2}));
}

class FitSize : public ::testing::Test {
 protected:
  void SetUp() override {
    SmallFile model;
    model.add("output.weight", {256, 64});
    model.add("output_norm.weight", {256});
    model.add("blk.0.attn_q.weight", {256, 64});
    model.add("blk.0.ffn_up.weight", {96, 64});
    model.add("blk.0.ffn_down.weight", {100, 64});
    files_ = ModelFiles::open(model.write("fit.gguf")).value();
    options_.program_version = "1";
  }

  Result<QuantizePlan> fit(uint64_t max_bytes, int n_threads = 2) {
    TESSERA_ASSIGN(QuantizePlan plan, plan_quantize(*files_, options_));
    TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = n_threads}));
    const auto progress = [](float) { return true; };
    TESSERA_TRY(fit_size(*files_, plan, options_, max_bytes, {*threads, nullptr, progress}));
    return plan;
  }

  static std::map<std::string, DType> types_of(const QuantizePlan& plan) {
    std::map<std::string, DType> types;
    for (const PlannedTensor& tensor : plan.tensors) types[std::string(tensor.source.info.name)] = tensor.to;
    return types;
  }

  std::unique_ptr<ModelFiles> files_;
  QuantizeOptions options_;
};

TEST_F(FitSize, NeverPassesTheTargetAndUsesMostOfIt) {
  for (const uint64_t max_bytes : {30000u, 40000u, 50000u, 80000u}) {
    const auto plan = fit(max_bytes);
    ASSERT_OK(plan);
    const auto n_bytes = output_bytes(*files_, *plan, options_);
    ASSERT_OK(n_bytes);
    EXPECT_LE(*n_bytes, max_bytes);
    EXPECT_GE(*n_bytes, max_bytes * 3 / 4);  // the steps of a model of four tensors are that large
  }
}

TEST_F(FitSize, ResultDoesNotDependOnThreads) {
  const auto one = fit(45000, 1), three = fit(45000, 3);
  ASSERT_OK(one);
  ASSERT_OK(three);
  EXPECT_EQ(types_of(*one), types_of(*three));
}

TEST_F(FitSize, MoreBytesThanTheInputHasCopyIt) {
  const auto plan = fit(1 << 20);
  ASSERT_OK(plan);
  for (const auto& [name, dtype] : types_of(*plan)) EXPECT_EQ(dtype, DType::f32) << name;
  EXPECT_EQ(plan->file_type, FileType::f32);
}

TEST_F(FitSize, TooFewBytesNameTheSmallestSize) {
  const auto refused = fit(2000);
  ASSERT_FALSE(refused);
  const std::string& message = refused.error().message();
  const size_t at = message.rfind(' ');
  EXPECT_NE(message.find("2000 bytes are too few: the smallest mix of types takes "), std::string::npos) << message;
  const uint64_t least = std::stoull(message.substr(at));
  EXPECT_OK(fit(least));
  EXPECT_FALSE(fit(least - 1));
}

TEST_F(FitSize, FlagsAndNormsAreLeftAlone) {
  options_.mix.output_type = DType::q8_0;
  const auto plan = fit(45000);
  ASSERT_OK(plan);
  const auto types = types_of(*plan);
  EXPECT_EQ(types.at("output.weight"), DType::q8_0);
  EXPECT_EQ(types.at("output_norm.weight"), DType::f32);
  EXPECT_EQ(plan->tensors[0].reason, MixReason::asked);
  for (const PlannedTensor& tensor : plan->tensors)
    EXPECT_EQ(nbytes(tensor.to, tensor.source.info.shape).value(), tensor.n_bytes);
}

// A tensor whose rows are multiples of one pattern needs few bits, so the bytes are spent on the other tensor.
TEST_F(FitSize, BytesGoWhereTheErrorIs) {
  SmallFile model;
  model.add("blk.0.a.weight", {256, 64});
  model.add("blk.0.b.weight", {256, 64});
  for (size_t i = 0; i < model.data[0].size(); ++i) model.data[0][i] = i % 3 == 0 ? 1.0f : -1.0f;
  files_ = ModelFiles::open(model.write("uneven.gguf")).value();
  const auto plan = fit(18000);
  ASSERT_OK(plan);
  EXPECT_LT(plan->tensors[0].n_bytes, plan->tensors[1].n_bytes);
}

TEST_F(FitSize, BitsAreOfEachValue) {
  EXPECT_EQ(count_parameters(*files_), 256 * 64 + 256 + 256 * 64 + 96 * 64 + 100 * 64);
  EXPECT_EQ(bytes_of_bits(4.5, *files_), count_parameters(*files_) * 45 / 80);
  EXPECT_EQ(bytes_of_files(*files_), std::filesystem::file_size(files_->name()));
}

TEST_F(FitSize, StopsOnRequest) {
  ASSERT_OK_AND_ASSIGN(QuantizePlan plan, plan_quantize(*files_, options_));
  ASSERT_OK_AND_ASSIGN(const auto threads, ThreadPool::create({}));
  const auto stops = [](float) { return false; };
  const auto stopped = fit_size(*files_, plan, options_, 40000, {*threads, nullptr, stops});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
}

TEST_F(FitSize, NonFiniteValuesAreNamed) {
  SmallFile model;
  model.add("blk.0.a.weight", {256, 2});
  model.data[0][7] = std::numeric_limits<float>::infinity();
  files_ = ModelFiles::open(model.write("inf.gguf")).value();
  EXPECT_ERROR(fit(18000), "tensor 'blk.0.a.weight': element 7 is inf");
}

}  // namespace
}  // namespace tessera::convert
