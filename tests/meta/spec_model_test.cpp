// Tests the generator of small models (tests/support/spec_model.h) and the list of their specifications.
#include "tests/support/spec_model.h"

#include <filesystem>
#include <set>

#include "tests/support/arch_files.h"
#include "tests/support/testing.h"

namespace tessera::testing {
namespace {

// With seed 0 and an empty name a state is 0xCBF29CE484222325 (the start of FNV-1a) ^ 0xE220A8397B1DCDAF (the first
// number of splitmix64 of seed 0) + (i + 1) * 0x9E3779B97F4A7C15; the weights are computed from there in integers.
TEST(SpecWeights, AreAFunctionOfNameSeedAndIndex) {
  EXPECT_EQ(spec_weights("", 2, 0, 1, 0), (std::vector<float>{-0.2880260944366455f, 0.35108256340026855f}));
  EXPECT_EQ(spec_weights("token_embd.weight", 4, 0, 1, 2026),
            (std::vector<float>{-0x1.69cb28p-2f, -0x1.3bc180p-2f, 0x1.98e930p-3f, -0x1.c67768p-1f}));
  const std::vector<float> more = spec_weights("token_embd.weight", 5, 0, 1, 2026);
  EXPECT_EQ(std::vector(more.begin(), more.end() - 1), spec_weights("token_embd.weight", 4, 0, 1, 2026));
}

// 1 + 0.1 x has more digits than a float, so the sum must be computed in double and rounded once.
TEST(SpecWeights, AreRoundedOnce) {
  EXPECT_EQ(spec_weights("blk.0.attn_norm.weight", 4, 1.0, 0.1, 7),
            (std::vector<float>{0x1.04e468p+0f, 0x1.1903d8p+0f, 0x1.0d7824p+0f, 0x1.0e65eep+0f}));
}

TEST(SpecModels, TheirListIsTheFolder) {
  const std::set<std::string> listed(std::begin(kArchFiles), std::end(kArchFiles));
  std::set<std::string> specs, logits;
  for (const auto& entry : std::filesystem::directory_iterator(data_path("arch_specs")))
    (entry.path().extension() == ".json" ? specs : logits).insert(entry.path().stem());
  EXPECT_EQ(specs, listed);
  EXPECT_EQ(logits, listed);
}

TEST(SpecModels, BadSpecificationsAreErrors) {
  const std::string out = temporary_dir() / "bad.gguf";
  const auto write = [&](const std::string& spec) { return write_spec_model(write_temporary("bad.json", spec), out); };
  EXPECT_ERROR(write("{"), "parse error");
  EXPECT_ERROR(write(R"({"seed": 1, "keys": []})"), "tensors");
  EXPECT_ERROR(write(R"({"seed": 1, "keys": [["a", "u33", 1]], "tensors": []})"), "key a: type u33");
  EXPECT_ERROR(write(R"({"seed": 1, "keys": [], "tensors": [["t", [2], {"values": [1]}]]})"),
               "tensor t: 1 values, want 2");
}

}  // namespace
}  // namespace tessera::testing
