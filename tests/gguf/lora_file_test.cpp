// LoRA files: every mismatch with a model is refused with a one-line message.
#include "tessera/gguf/lora_file.h"

#include <limits>

#include "tests/support/lora_support.h"

namespace tessera {
namespace {

using namespace testing;

Result<std::unique_ptr<ModelFiles>> small_model() {
  AdapterFile file;
  file.builder.set("general.architecture", "llama");
  file.add_random("token_embd.weight", {8, 20}, 1);
  file.add_random("blk.0.attn_q.weight", {8, 12}, 1);
  file.add_random("blk.0.ffn_up_exps.weight", {8, 6, 3}, 1);
  return ModelFiles::open(file.write("base.gguf"));
}

class LoraFileTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(model_, small_model()); }

  Result<LoraFile> open(const AdapterFile& file) const { return LoraFile::open(file.write("lora.gguf"), *model_); }
  // A file with one pair for a weight.
  static AdapterFile pair(const std::string& weight, const Shape& a, const Shape& b) {
    AdapterFile file = AdapterFile::lora("llama", 6);
    file.add_random(weight + ".lora_a", a, 1);
    file.add_random(weight + ".lora_b", b, 1);
    return file;
  }
  static AdapterFile good() { return pair("blk.0.attn_q.weight", {8, 2}, {2, 12}); }

  std::unique_ptr<ModelFiles> model_;
};

TEST_F(LoraFileTest, PairsHaveWeightRankAndFactor) {
  AdapterFile file = good();
  file.add_random("blk.0.ffn_up_exps.weight.lora_b", {3, 6, 3}, 1);  // in any order
  file.add_random("blk.0.ffn_up_exps.weight.lora_a", {8, 3, 3}, 1);
  file.add_random("token_embd.weight.lora_a", {4, 20}, 1);
  file.add_random("token_embd.weight.lora_b", {4, 8}, 1);
  ASSERT_OK_AND_ASSIGN(const LoraFile lora, open(file));
  ASSERT_EQ(lora.pairs().size(), 3u);
  const int64_t ranks[] = {2, 3, 4};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lora.pairs()[i].rank, ranks[i]);
    EXPECT_EQ(lora.factor(lora.pairs()[i]), 6.0f / static_cast<float>(ranks[i]));
    EXPECT_EQ(lora.pairs()[i].is_table, i == 2);
  }
  EXPECT_EQ(lora.pairs()[0].weight, model_->find_tensor("blk.0.attn_q.weight"));
  EXPECT_EQ(lora.pairs()[1].up->info.name, "blk.0.ffn_up_exps.weight.lora_b");
}

TEST_F(LoraFileTest, WithoutAlphaTheFactorIsOne) {
  AdapterFile file = good();
  file.builder.remove("adapter.lora.alpha");
  ASSERT_OK_AND_ASSIGN(const LoraFile lora, open(file));
  EXPECT_EQ(lora.factor(lora.pairs()[0]), 1.0f);
}

TEST_F(LoraFileTest, TaskNameAndPromptPrefixAreThoseOfTheFile) {
  AdapterFile file = good();
  {
    ASSERT_OK_AND_ASSIGN(const LoraFile lora, open(file));
    EXPECT_EQ(lora.task_name(), "");
    EXPECT_EQ(lora.prompt_prefix(), "");
  }
  file.builder.set("adapter.lora.task_name", "rhymes");
  file.builder.set("adapter.lora.prompt_prefix", "In verse: ");
  ASSERT_OK_AND_ASSIGN(const LoraFile lora, open(file));
  EXPECT_EQ(lora.task_name(), "rhymes");
  EXPECT_EQ(lora.prompt_prefix(), "In verse: ");
}

TEST_F(LoraFileTest, RefusesFilesThatAreNoAdapterOfTheModel) {
  const auto refused = [&](auto change, const char* why) {
    AdapterFile file = good();
    change(file.builder);
    EXPECT_ERROR(open(file), why);
  };
  refused([](auto& b) { b.set("general.architecture", "qwen2"); }, "an adapter for architecture 'qwen2', the model ");
  refused([](auto& b) { b.remove("general.architecture"); }, "general.architecture");
  refused([](auto& b) { b.set("general.type", "model"); }, "key 'general.type' is 'model', want \"adapter\"");
  refused([](auto& b) { b.remove("general.type"); }, "key 'general.type': missing");
  refused([](auto& b) { b.set("adapter.type", "control"); }, "key 'adapter.type' is 'control', want \"lora\"");
  refused([](auto& b) { b.set("adapter.lora.alpha", std::numeric_limits<float>::quiet_NaN()); },
          "key 'adapter.lora.alpha' is nan, want a finite number");
  refused([](auto& b) { b.set("adapter.lora.alpha", std::numeric_limits<float>::infinity()); }, "is inf");
  refused([](auto& b) { b.set("adapter.lora.alpha", "16"); }, "adapter.lora.alpha");
  refused([](auto& b) { b.set_array("adapter.alora.invocation_tokens", std::vector<int32_t>{1}); },
          "are not supported");
}

TEST_F(LoraFileTest, RefusesTensorsThatDoNotFit) {
  const auto refused = [&](const AdapterFile& file, const char* why) { EXPECT_ERROR(open(file), why); };
  const std::string q = "blk.0.attn_q.weight", experts = "blk.0.ffn_up_exps.weight", table = "token_embd.weight";
  refused(pair(q, {8, 2}, {3, 12}), "do not fit the model's 'blk.0.attn_q.weight' [8, 12]");
  refused(pair(q, {7, 2}, {2, 12}), "[7, 2] and 'blk.0.attn_q.weight.lora_b' [2, 12] do not fit");
  refused(pair(q, {8, 2}, {2, 11}), "do not fit");
  refused(pair(q, {2, 8}, {2, 12}), "do not fit");
  refused(pair(q, {8, 2}, {12, 2}), "do not fit");
  refused(pair(q, {8, 2, 3}, {2, 12}), "do not fit");
  refused(pair(experts, {8, 2}, {2, 6}), "do not fit");
  refused(pair(experts, {8, 2, 3}, {2, 6, 2}), "do not fit");
  refused(pair(table, {8, 2}, {2, 20}), "do not fit");
  refused(pair(q, {8, 65537}, {65537, 12}), "rank 65537, limit 65536");
  refused(pair("blk.9.attn_q.weight", {8, 2}, {2, 12}), "has no 'blk.9.attn_q.weight'");
  AdapterFile single = AdapterFile::lora("llama", 1);
  single.add_random(q + ".lora_a", {8, 2}, 1);
  refused(single, "without 'blk.0.attn_q.weight.lora_b'");
  AdapterFile other = good();
  other.add_random("blk.0.attn_norm.weight", {8}, 1);
  refused(other, "want names that end in .lora_a or .lora_b");
  refused(AdapterFile::lora("llama", 1), "an adapter without tensors");
}

TEST_F(LoraFileTest, RefusesATruncatedFile) {
  const std::string whole = read_all(good().write("whole.gguf"));
  for (const size_t n : {size_t{0}, size_t{10}, whole.size() / 2, whole.size() - 40})
    EXPECT_FALSE(LoraFile::open(write_temporary("cut.gguf", whole.substr(0, n)), *model_).has_value()) << n;
}

}  // namespace
}  // namespace tessera
