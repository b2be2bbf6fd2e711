// Merging adapters into weights. For each architecture, a merged model must compute the same as the model with the
// adapter. Tensors without an adapter are copied.
#include "tessera/convert/merge_lora.h"

#include <cmath>
#include <limits>

#include "tests/convert/quantize_support.h"
#include "tests/support/engine_support.h"
#include "tests/support/lora_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

struct ScaledLora {
  std::string path;
  float scale = 1.0f;
};

Result<> merge(const std::string& model, std::vector<ScaledLora> loras, const std::string& output,
               std::optional<DType> type = {}, int n_threads = 2) {
  TESSERA_ASSIGN(const auto files, ModelFiles::open(model));
  convert::LoraMerge merge;
  for (const auto& [path, scale] : loras) {
    TESSERA_ASSIGN(const LoraFile lora, LoraFile::open(path, *files));
    TESSERA_TRY(merge.add(lora, scale));
  }
  convert::QuantizeOptions options;
  options.edit = &merge;
  options.mix.copy_all = true;
  TESSERA_ASSIGN(auto plan, convert::plan_quantize(*files, options));
  TESSERA_TRY(merge.apply_to(plan, type));
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = n_threads}));
  const auto progress = [](float) { return true; };
  return convert::write_quantized(*files, plan, options, output, {*threads, nullptr, progress});
}

Result<std::vector<float>> logits(const std::string& model, std::vector<ScaledLora> loras = {}) {
  TESSERA_ASSIGN(const auto engine, load_engine(model));
  SessionOptions options{.n_ctx = 64, .n_outputs = 12, .type_k = DType::f32, .type_v = DType::f32};
  for (const auto& [path, scale] : loras) {
    TESSERA_ASSIGN(auto adapter, Adapter::open_lora(*engine, path));
    TESSERA_TRY(adapter->load());
    options.adapters.push_back({std::move(adapter), scale});
  }
  TESSERA_ASSIGN(const auto session, Session::create(engine, options));
  return logits_of(*session, token_ids(*engine, 12));
}

// The root of the sum of squared errors divided by the sum of squares.
double relative_error(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double error = 0, power = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
    power += double{b[i]} * double{b[i]};
  }
  return std::sqrt(error / power);
}

class MergedLora : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, MergedLora,
                         ::testing::Values("story", "llama-moe", "qwen2moe-moe", "gemma2-dense", "phi3-dense",
                                           "gpt-oss-moe", "mamba-dense", "lfm2-dense", "gpt2-dense"),
                         [](const auto& instance) {
                           std::string name = std::filesystem::path(instance.param).filename().string();
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// An adapter for every matrix of a product, including experts and tied embeddings.
TEST_P(MergedLora, SaysWhatTheAdaptedModelSays) {
  const std::string model = named_model(GetParam());
  const auto leave_out = [](std::string_view name) {
    constexpr std::string_view kNotProducts[] = {"conv", "position_embd"};
    return std::ranges::any_of(kNotProducts, [&](std::string_view part) { return name.contains(part); });
  };
  const std::vector<ScaledLora> loras = {{write_lora(model, "one.gguf", 4, 8, 1, leave_out), 0.75f},
                                         {write_lora(model, "two.gguf", 3, 0, 2, leave_out), -0.5f}};
  const std::string merged = temporary_path("merged.gguf");
  ASSERT_OK(merge(model, loras, merged));
  ASSERT_OK_AND_ASSIGN(const auto plain, logits(model));
  ASSERT_OK_AND_ASSIGN(const auto adapted, logits(model, loras));
  ASSERT_OK_AND_ASSIGN(const auto want, logits(merged));
  EXPECT_LT(relative_error(adapted, want), 1e-5);  // sums in another order
  EXPECT_GT(relative_error(adapted, plain), 1e-2);
}

class MergeLoraTest : public ::testing::Test {
 protected:
  void SetUp() override { model_ = story_model(); }
  std::string model_;
};

bool is_not_query(std::string_view name) { return name.find("attn_q") == std::string_view::npos; }

TEST_F(MergeLoraTest, CopiesEverythingElse) {
  const std::string lora = write_lora(model_, "q.gguf", 2, 4, 3, is_not_query), out = temporary_path("copied.gguf");
  ASSERT_OK(merge(model_, {{lora}}, out));
  ASSERT_OK_AND_ASSIGN(const auto before, GgufFile::open(model_));
  ASSERT_OK_AND_ASSIGN(const auto after, GgufFile::open(out));
  ASSERT_EQ(after->tensors().size(), before->tensors().size());
  size_t n_changed = 0;
  for (const GgufTensor& tensor : before->tensors()) {
    const GgufTensor* copy = after->find_tensor(tensor.name);
    ASSERT_NE(copy, nullptr) << tensor.name;
    EXPECT_EQ(copy->dtype, tensor.dtype);
    const bool is_same = std::ranges::equal(before->data(tensor), after->data(*copy));
    EXPECT_EQ(is_same, is_not_query(tensor.name)) << tensor.name;
    n_changed += is_same ? 0 : 1;
  }
  EXPECT_EQ(n_changed, 5u);
}

TEST_F(MergeLoraTest, GivesTheSameBytesForAnyNumberOfThreads) {
  const auto leave_out = [](std::string_view name) { return name.find("ffn_down") != std::string_view::npos; };
  const std::string lora = write_lora(model_, "threads.gguf", 3, 4, 4, leave_out);
  ASSERT_OK(merge(model_, {{lora}}, temporary_path("one.gguf"), DType::q8_0, 1));
  ASSERT_OK(merge(model_, {{lora}}, temporary_path("three.gguf"), DType::q8_0, 3));
  EXPECT_EQ(read_all(temporary_path("one.gguf")), read_all(temporary_path("three.gguf")));
}

TEST_F(MergeLoraTest, WeightsKeepTheirTypeOrGetTheOneAskedFor) {
  ASSERT_OK_AND_ASSIGN(const std::string quantized, requantize(model_, DType::q8_0, "q8.gguf"));
  const std::string lora = write_lora(model_, "types.gguf", 2, 4, 5, is_not_query);
  const auto type_in = [&](const std::string& path, std::string_view tensor) {
    const auto file = GgufFile::open(path);
    EXPECT_OK(file);
    return (*file)->find_tensor(tensor)->dtype;
  };
  const std::string out = temporary_path("typed.gguf");
  ASSERT_OK(merge(quantized, {{lora}}, out));
  EXPECT_EQ(type_in(out, "blk.0.attn_q.weight"), DType::q8_0);
  ASSERT_OK_AND_ASSIGN(const auto adapted, logits(quantized, {{lora}}));
  ASSERT_OK_AND_ASSIGN(const auto again, logits(out));
  EXPECT_LT(relative_error(again, adapted), 5e-2);  // rounded to 8 bits a second time
  ASSERT_OK(merge(quantized, {{lora}}, out, DType::f16));
  EXPECT_EQ(type_in(out, "blk.0.attn_q.weight"), DType::f16);
  EXPECT_EQ(type_in(out, "blk.0.attn_k.weight"), DType::q8_0);
  EXPECT_ERROR(merge(model_, {{lora}}, out, DType::q4_k), "rows of 64 are no whole blocks of q4_K");
}

TEST_F(MergeLoraTest, RefusesWhatIsNotFiniteAndLeavesNothing) {
  const std::string out = temporary_path("refused.gguf");
  const auto refused = [&](const std::vector<float>& a, std::optional<DType> type, const char* why) {
    AdapterFile file = AdapterFile::lora("llama", 1);
    file.add("blk.2.attn_q.weight.lora_a", {64, 1}, a);
    file.add("blk.2.attn_q.weight.lora_b", {1, 64}, std::vector<float>(64, 1e3f));
    EXPECT_ERROR(merge(model_, {{file.write("bad.gguf")}}, out, type), why);
    EXPECT_EQ(count_files_like(out), 0u);
  };
  std::vector<float> values(64, 1.0f);
  values[9] = std::numeric_limits<float>::quiet_NaN();
  refused(values, {}, "tensor 'blk.2.attn_q.weight.lora_a': element 9 is nan");
  values[9] = 3e38f;
  refused(values, {}, "tensor 'blk.2.attn_q.weight': element 9 is inf");
  values[9] = 1e3f;
  refused(values, DType::f16, "which passes the range of f16");
}

}  // namespace
}  // namespace tessera
