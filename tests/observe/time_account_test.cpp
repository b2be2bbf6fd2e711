// The time of steps by kind of work: the work and the bounds equal those of the model, and the times add up.
#include "tessera/observe/time_account.h"

#include <algorithm>
#include <numeric>

#include "tests/support/engine_support.h"
#include "tests/support/fake_device.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using observe::TimeAccount;
using observe::TimeAccountant;
using observe::WorkPart;

constexpr int64_t kDepth = 3, kTokens = 5;
// Multiply-adds per token of the story model: in each of 5 layers before attention, and after it.
constexpr double kBefore = 64 * 64 + 2 * 64 * 32, kAfter = 64 * 64 + 3 * 64 * 172, kHead = 64 * 512;

const WorkPart& part_of(const TimeAccount& account, const std::string& name) {
  const auto found = std::ranges::find(account.parts, name, &WorkPart::name);
  if (found != account.parts.end()) return *found;
  static const WorkPart none;
  ADD_FAILURE() << "no part " << name;
  return none;
}

// The account of kTokens tokens at position kDepth, of which the last one has logits. Its total is a little longer than
// the step.
TimeAccount account_of(const std::string& model, const DevicePeaks& peaks, int n_threads,
                       ActivationPrecision activations = ActivationPrecision::automatic) {
  const auto engine = testing::load_engine(model);
  EXPECT_OK(engine);
  const auto session =
      Session::create(*engine, {.n_ctx = 64, .activations = activations, .threads = {.n_threads = n_threads}});
  EXPECT_OK(session);
  const std::vector<int32_t> ids = testing::token_ids(**engine, kDepth + kTokens);
  EXPECT_OK((*session)->decode(Batch::prompt(std::span(ids).first(kDepth), 0, 0)));
  TimeAccountant accountant({peaks}, activations);
  double step_us = 0;
  (*session)->observe_steps([&](const StepView& step) {
    accountant.add(step, kDepth);
    step_us += step.log.slices.back().begin_us + step.log.slices.back().us;
  });
  EXPECT_OK((*session)->decode(Batch::prompt(std::span(ids).subspan(kDepth), kDepth, 0)));
  return accountant.account(step_us + 7);
}

TEST(TimeAccount, CountsTheWorkOfTheModel) {
  const DevicePeaks peaks{.int8_gmacs = 1e6, .f32_gmacs = 2, .read_gbps = 1e6};
  const TimeAccount account = account_of(testing::story_model(), peaks, 2);
  const WorkPart& products = part_of(account, "products f32");
  const double macs = kTokens * (5 * kBefore + 4 * kAfter) + kAfter + kHead;
  EXPECT_DOUBLE_EQ(products.macs, macs);
  EXPECT_DOUBLE_EQ(products.bytes, 4 * (5 * (kBefore + kAfter) + kHead));
  EXPECT_EQ(products.bound, "f32");
  EXPECT_NEAR(products.bound_us, macs * 1e-3 / 2, 1e-6 * macs);
  const WorkPart& attention = part_of(account, "attention");
  const double pairs = 4 + 5 + 6 + 7 + 8;
  EXPECT_DOUBLE_EQ(attention.macs, pairs * 5 * 8 * (8 + 8));
  EXPECT_DOUBLE_EQ(attention.bytes, 8 * 5 * 2 * (4 * 8) * 2);  // positions, layers, K and V, KV heads, f16
  EXPECT_NEAR(account.bound_us, products.bound_us + attention.bound_us, 1e-9 * macs);
}

TEST(TimeAccount, TimesAddUpAndTheGreatestLossIsFirst) {
  const DevicePeaks peaks{.int8_gmacs = 1, .f32_gmacs = 1e3, .read_gbps = 1e3};
  const TimeAccount account = account_of(testing::story_model(), peaks, 2);
  double sum = 0;
  for (const WorkPart& part : account.parts) sum += part.us;
  EXPECT_NEAR(sum, account.us, 1e-6 * account.us);
  EXPECT_NEAR(part_of(account, "between steps").us, 7, 1e-6 * account.us);
  EXPECT_TRUE(std::ranges::is_sorted(account.parts, std::greater(), &WorkPart::lost_us));
  for (const char* name : {"norms", "RoPE", "element-wise operations", "writing the KV cache", "rows of tables",
                           "packing activations", "waiting for other threads"}) {
    EXPECT_GT(part_of(account, name).us, 0) << name;
    EXPECT_EQ(part_of(account, name).bound, "") << name;
    EXPECT_EQ(part_of(account, name).lost_us(), part_of(account, name).us) << name;
  }
}

TEST(TimeAccount, QuantizedWeightsAreBoundByIntegersUnlessActivationsAreFloats) {
  ASSERT_OK_AND_ASSIGN(const std::string model,
                       testing::requantize(testing::story_model(), DType::q8_0, "account-q8_0.gguf"));
  const DevicePeaks peaks{.int8_gmacs = 1, .f32_gmacs = 2, .read_gbps = 1e6};
  const WorkPart products = part_of(account_of(model, peaks, 1), "products q8_0");
  EXPECT_EQ(products.bound, "int8");
  EXPECT_NEAR(products.bound_us, products.macs * 1e-3, 1e-6 * products.macs);
  const WorkPart floats = part_of(account_of(model, peaks, 1, ActivationPrecision::float32), "products q8_0");
  EXPECT_EQ(floats.bound, "f32");
  EXPECT_NEAR(floats.bound_us, products.bound_us / 2, 1e-6 * products.macs);
}

TEST(TimeAccount, ProductsOfHalvesAreBoundByInt16UnlessActivationsAreFloats) {
  ASSERT_OK_AND_ASSIGN(const std::string model,
                       testing::requantize(testing::story_model(), DType::f16, "account-f16.gguf"));
  const DevicePeaks peaks{.int8_gmacs = 1e6, .f32_gmacs = 2, .int16_gmacs = 4, .read_gbps = 1e6};
  const WorkPart floats = part_of(account_of(model, peaks, 1, ActivationPrecision::float32), "products f16");
  EXPECT_EQ(floats.bound, "f32");
  const WorkPart products = part_of(account_of(model, peaks, 1), "products f16");
  EXPECT_EQ(products.bound, "int16");
  EXPECT_NEAR(products.bound_us, products.macs * 1e-3 / 4, 1e-6 * products.macs);
}

TEST(TimeAccount, AttentionIsBoundByTheProductsThatItUses) {
  ASSERT_OK_AND_ASSIGN(const std::string model,
                       testing::requantize(testing::story_model(), DType::q8_0, "account-q8_0.gguf"));
  DevicePeaks peaks{.int8_gmacs = 1e6, .f32_gmacs = 2, .int16_gmacs = 4, .read_gbps = 1e6};
  const WorkPart rounded = part_of(account_of(model, peaks, 1), "attention");
  EXPECT_EQ(rounded.bound, "int16");
  EXPECT_NEAR(rounded.bound_us, rounded.macs * 1e-3 / 4, 1e-6 * rounded.macs);
  const WorkPart floats = part_of(account_of(testing::story_model(), peaks, 1), "attention");
  EXPECT_EQ(floats.bound, "f32");
  EXPECT_NEAR(floats.bound_us, floats.macs * 1e-3 / 2, 1e-6 * floats.macs);
  peaks.int16_gmacs = 0;  // not measured
  EXPECT_EQ(part_of(account_of(model, peaks, 1), "attention").bound, "f32");
}

// A token uses two of the four experts, and five tokens may use all of them. The second of the two layers computes only
// the last token.
TEST(TimeAccount, ExpertsCountAsFarAsTheyAreUsed) {
  ASSERT_OK_AND_ASSIGN(const auto engine, testing::load_engine(testing::arch_model("qwen3moe-moe")));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 64}));
  double expert_bytes = 0;
  for (const ModelFiles::Tensor& tensor : engine->files().tensors())
    if (tensor.info.name.ends_with("_exps.weight")) expert_bytes += static_cast<double>(tensor.info.n_bytes);
  ASSERT_GT(expert_bytes, 0);
  const std::vector<int32_t> ids = testing::token_ids(*engine, 5);
  const auto product_bytes = [&](size_t n_tokens) {
    TimeAccountant accountant({{}}, ActivationPrecision::automatic);
    EXPECT_OK(session->clear());
    session->observe_steps([&](const StepView& step) { accountant.add(step, 0); });
    EXPECT_OK(session->decode(Batch::prompt(std::span(ids).first(n_tokens), 0, 0)));
    session->observe_steps({});
    double bytes = 0;
    for (const WorkPart& part : accountant.account(1e9).parts)
      if (part.name.starts_with("products")) bytes += part.bytes;
    return bytes;
  };
  EXPECT_DOUBLE_EQ(product_bytes(5) - product_bytes(1), expert_bytes / 2 / 2);
}

TEST(TimeAccount, RecurrentLayersAreBoundByTheirMultiplyAdds) {
  const DevicePeaks peaks{.int8_gmacs = 1, .f32_gmacs = 2, .read_gbps = 1e6};
  const WorkPart scans = part_of(account_of(testing::arch_model("mamba-dense"), peaks, 1), "recurrent layers");
  EXPECT_GT(scans.macs, 0);
  EXPECT_EQ(scans.bound, "f32");
  EXPECT_NEAR(scans.bound_us, scans.macs * 1e-3 / 2, 1e-6 * scans.macs);
}

TEST(TimeAccount, SlowMemoryBoundsTheProducts) {
  const DevicePeaks peaks{.int8_gmacs = 1e6, .f32_gmacs = 1e6, .read_gbps = 0.5};
  const WorkPart products = part_of(account_of(testing::story_model(), peaks, 1), "products f32");
  EXPECT_EQ(products.bound, "read");
  EXPECT_NEAR(products.bound_us, products.bytes * 1e-3 / 0.5, 1e-6 * products.bytes);
  EXPECT_EQ(products.lost_us(), 0);  // the weights come from the CPU's cache
}

TEST(TimeAccount, DevicesThatMeasureNoNodesHaveOnePart) {
  const auto registry = testing::fake_registry({{}});
  ASSERT_OK_AND_ASSIGN(
      const std::shared_ptr<Engine> engine,
      Engine::open(*registry, testing::story_model(), {.placement = {.devices = {"fake:0"}, .n_gpu_layers = 3}}));
  ASSERT_OK(engine->load({}));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 64}));
  TimeAccountant accountant({{}, {}}, ActivationPrecision::automatic);
  session->observe_steps([&](const StepView& step) { accountant.add(step, 0); });
  ASSERT_OK(session->decode(Batch::prompt(testing::token_ids(*engine, 20), 0, 0)));
  const TimeAccount account = accountant.account(1e9);
  EXPECT_GT(part_of(account, "operations that are not measured").us, 0);
  EXPECT_GT(part_of(account, "copies between devices").us, 0);
  EXPECT_GT(part_of(account, "products f32").us, 0);  // of the layers on the CPU
  EXPECT_EQ(account.bound_us, 0);                     // without peaks there is no bound
}

}  // namespace
}  // namespace tessera
