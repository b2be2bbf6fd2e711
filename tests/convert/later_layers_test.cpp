// Layers that predict further tokens, kept and left out. The checkpoints are under ../shared/golden/convert.
#include <gtest/gtest.h>

#include "tessera/convert/conversion.h"
#include "tessera/convert/mix_rules.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

// The names of tensors in layers from number `first` on.
size_t count_from_layer(const ModelFiles& files, int64_t first) {
  size_t n = 0;
  for (const ModelFiles::Tensor& tensor : files.tensors())
    if (tensor.info.name.starts_with("blk.") && layer_of(tensor.info.name) >= first) ++n;
  return n;
}

class LaterLayersOf : public ::testing::TestWithParam<std::pair<const char*, int64_t>> {};

TEST_P(LaterLayersOf, AreKeptUnlessTheyAreLeftOut) {
  const auto [name, n_layers] = GetParam();
  TESSERA_SHARED_OR_SKIP(folder, std::string("golden/convert/hf/") + name);
  ASSERT_OK_AND_ASSIGN(const auto whole, Conversion::open(folder, FileType::bf16));
  ASSERT_OK_AND_ASSIGN(const auto less, Conversion::open(folder, FileType::bf16, {.drops_later_layers = true}));
  const Metadata &kept = whole->files().metadata(), &left = less->files().metadata();
  const std::string arch(kept.get<std::string_view>("general.architecture").value());
  const std::string blocks = arch + ".block_count", more = arch + ".nextn_predict_layers";
  EXPECT_EQ(kept.get<uint32_t>(blocks).value(), n_layers + 1);
  EXPECT_EQ(kept.get<uint32_t>(more).value(), 1u);
  EXPECT_EQ(left.get<uint32_t>(blocks).value(), n_layers);
  EXPECT_EQ(left.find(more), nullptr);
  EXPECT_EQ(left.entries().size() + 1, kept.entries().size());
  const size_t n_later = count_from_layer(whole->files(), n_layers);
  EXPECT_GT(n_later, 5u);
  EXPECT_EQ(count_from_layer(less->files(), n_layers), 0u);
  EXPECT_GT(count_from_layer(less->files(), n_layers - 1), 0u);
  EXPECT_EQ(less->files().tensors().size() + n_later, whole->files().tensors().size());
}

INSTANTIATE_TEST_SUITE_P(Models, LaterLayersOf,
                         ::testing::Values(std::pair("glm4moe", int64_t{2}), std::pair("qwen3next", int64_t{4}),
                                           std::pair("qwen35", int64_t{4}), std::pair("qwen35moe", int64_t{4})),
                         [](const auto& test) { return std::string(test.param.first); });

// DeepSeek's are never kept, and a llama has none.
TEST(LaterLayers, OtherModelsStayAsTheyAre) {
  for (const char* name : {"deepseek2", "llama"}) {
    TESSERA_SHARED_OR_SKIP(folder, std::string("golden/convert/hf/") + name);
    ASSERT_OK_AND_ASSIGN(const auto whole, Conversion::open(folder, FileType::bf16));
    ASSERT_OK_AND_ASSIGN(const auto less, Conversion::open(folder, FileType::bf16, {.drops_later_layers = true}));
    EXPECT_TRUE(std::ranges::equal(whole->files().files()[0]->bytes(), less->files().files()[0]->bytes())) << name;
  }
}

}  // namespace
}  // namespace tessera::convert
