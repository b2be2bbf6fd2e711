// Keys that config.json gives: names, values that it leaves out, derived ones, and bounds.
#include "tessera/convert/checkpoints/key_rows.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tessera/convert/checkpoints/derived_values.h"
#include "tessera/gguf/split.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

HubConfig row_config(const std::string& text) { return HubConfig::of(Json::parse(text), "config.json").value(); }

// All keys that were set, on one line each.
std::string keys_of(const std::string& config, std::span<const KeyRow> rows, bool with_common = false) {
  GgufBuilder builder;
  const Result<> added =
      with_common ? add_keys(row_config(config), "a", rows, builder) : add_rows(row_config(config), "a", rows, builder);
  if (!added) return added.error().message();
  const auto header = builder.header().value();
  const auto files = ModelFiles::parse_header(header, "test").value();
  std::string text;
  for (const Metadata::Entry& entry : files->metadata().entries())
    text += std::string(text.empty() ? "" : "\n") + std::string(entry.key) + " " +
            std::string(to_string(entry.value.type())) + " " + to_string(entry.value);
  return text;
}

TEST(KeyRows, TheFirstNameCounts) {
  constexpr KeyRow kRows[] = {{"k", "one two"}};
  EXPECT_EQ(keys_of(R"({"two": 2, "one": 1})", kRows), "a.k u32 1");
  EXPECT_EQ(keys_of(R"({"two": 2})", kRows), "a.k u32 2");
  EXPECT_EQ(keys_of(R"({"one": null, "two": 2})", kRows), "a.k u32 2");
  EXPECT_EQ(keys_of(R"({"three": 3})", kRows), "");
}

TEST(KeyRows, NamesLeadIntoMembers) {
  constexpr KeyRow kRows[] = {{"k", "m.n.one"}};
  EXPECT_EQ(keys_of(R"({"m": {"n": {"one": 7}}})", kRows), "a.k u32 7");
  EXPECT_EQ(keys_of(R"({"m": {"n": 1}})", kRows), "");
  EXPECT_EQ(keys_of(R"({"m": null})", kRows), "");
}

TEST(KeyRows, ValuesThatAreLeftOut) {
  constexpr KeyRow kRows[] = {{"u", "n", KeyType::u32, otherwise(3)},
                              {"f", "n", KeyType::f32, otherwise(0.5)},
                              {"b", "n", KeyType::boolean, otherwise(1)},
                              {"t", "n", KeyType::text, otherwise_text("x")}};
  EXPECT_EQ(keys_of("{}", kRows), "a.u u32 3\na.f f32 0.5\na.b bool true\na.t string \"x\"");
  constexpr KeyRow kNeeded[] = {{"k", "one two", KeyType::u32, kRequired}};
  EXPECT_EQ(keys_of("{}", kNeeded), "config.json: no one two, which a needs for the key k");
}

TEST(KeyRows, NumbersHaveBounds) {
  constexpr KeyRow kRows[] = {{"k", "n"}};
  EXPECT_EQ(keys_of(R"({"n": 0})", kRows), "a.k u32 0");
  EXPECT_EQ(keys_of(R"({"n": 2147483647})", kRows), "a.k u32 2147483647");
  const char* wrong[] = {"2147483648", "-1", "1.5"};
  for (const std::string number : wrong)
    EXPECT_NE(keys_of("{\"n\": " + number + "}", kRows).find("want an integer from 0 to 2147483647"), std::string::npos)
        << number;
  EXPECT_EQ(keys_of(R"({"n": "two"})", kRows), "config.json: n is \"two\", want a number");
  constexpr KeyRow kReal[] = {{"k", "n", KeyType::f32}};
  EXPECT_NE(keys_of(R"({"n": 1e39})", kReal).find("within the range of 32 bits"), std::string::npos);
}

TEST(KeyRows, NumbersHaveFactors) {
  constexpr KeyRow kRows[] = {{"k", "n", KeyType::u32, otherwise(5), 4.0}};
  EXPECT_EQ(keys_of(R"({"n": 3})", kRows), "a.k u32 12");
  EXPECT_EQ(keys_of("{}", kRows), "a.k u32 5");
}

TEST(KeyRows, RowsOfAClassReplaceCommonOnes) {
  constexpr KeyRow kRows[] = {{"block_count", "*", KeyType::u32, otherwise(9)}, {"context_length", ""}};
  const std::string config = R"({"num_hidden_layers": 4, "n_ctx": 5, "hidden_size": 6})";
  EXPECT_EQ(keys_of(config, kRows, true), "a.embedding_length u32 6\na.block_count u32 4");
  EXPECT_EQ(keys_of(config, {}, true), "a.block_count u32 4\na.context_length u32 5\na.embedding_length u32 6");
}

TEST(KeyRows, FunctionsHaveNumbers) {
  constexpr KeyRow kRows[] = {{"k", "f", KeyType::function}};
  EXPECT_EQ(keys_of(R"({"f": "softmax"})", kRows), "a.k u32 1");
  EXPECT_EQ(keys_of(R"({"f": "sigmoid"})", kRows), "a.k u32 2");
  EXPECT_EQ(keys_of(R"({"f": "sqrtsoftplus"})", kRows), "a.k u32 4");
  EXPECT_EQ(keys_of(R"({"f": "noaux_tc"})", kRows), "a.k u32 2");
  EXPECT_NE(keys_of(R"({"f": "tanh"})", kRows).find("f is \"tanh\", want softmax, sigmoid"), std::string::npos);
}

TEST(KeyRows, ListsByLayer) {
  constexpr KeyRow kWindows[] = {{"w", "layer_types", KeyType::windows}};
  constexpr KeyRow kHeads[] = {{"h", "layer_types", KeyType::kv_heads}};
  const std::string layers =
      R"({"num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "layer_types": )";
  EXPECT_EQ(keys_of(layers + R"(["sliding_attention", "full_attention", "attention"]})", kWindows),
            "a.w array [true, false, false]");
  EXPECT_EQ(keys_of(layers + R"(["conv", "full_attention", "attention"]})", kHeads), "a.h array [0, 2, 2]");
  EXPECT_EQ(keys_of(R"({"num_hidden_layers": 3})", kWindows), "");
  const char* wrong[] = {R"(["a", "b"]})", R"("abc"})", R"(["a", "b", 1]})", R"({"a": "x", "b": "x", "c": "x"}})"};
  for (const char* list : wrong)
    EXPECT_NE(keys_of(layers + list, kWindows).find("want a list of one name per layer"), std::string::npos) << list;
  EXPECT_NE(keys_of(R"({"num_hidden_layers": 4097, "layer_types": []})", kWindows).find("from 0 to 4096"),
            std::string::npos);
}

TEST(KeyRows, SectionsArePaddedToFour) {
  constexpr KeyRow kRows[] = {{"k", "s", KeyType::dimensions_4}};
  EXPECT_EQ(keys_of(R"({"s": [1, 2, 3]})", kRows), "a.k array [1, 2, 3, 0]");
  EXPECT_EQ(keys_of(R"({"s": [1, 2, 3, 4]})", kRows), "a.k array [1, 2, 3, 4]");
  EXPECT_NE(keys_of(R"({"s": [1, 2, 3, 4, 5]})", kRows).find("5 numbers, limit 4"), std::string::npos);
}

TEST(KeyRows, DerivedValues) {
  const auto value = [](const char* name, const std::string& config) {
    const auto number = number_of(row_config(config), name);
    return number && *number ? **number : -1.0;
  };
  const std::string heads = R"({"hidden_size": 64, "num_attention_heads": 4)";
  EXPECT_EQ(value("=head_size", heads + "}"), 16);
  EXPECT_EQ(value("=head_size", heads + R"(, "head_dim": 20})"), 20);
  EXPECT_EQ(value("=head_size", R"({"hidden_size": 64})"), -1);
  EXPECT_EQ(value("=plain_head_size", heads + R"(, "head_dim": 20})"), 16);
  EXPECT_EQ(value("=plain_head_size", R"({"hidden_size": 64})"), -1);
  EXPECT_EQ(value("=rotated", heads + "}"), 16);
  EXPECT_EQ(value("=rotated_half", heads + "}"), 8);
  EXPECT_EQ(value("=rotated_quarter", heads + "}"), 4);
  EXPECT_EQ(value("=rotated", heads + R"(, "rotary_pct": 0.3})"), 4);
  EXPECT_EQ(value("=embedding", heads + "}"), 64);
  EXPECT_EQ(value("=heads", heads + "}"), 4);
  EXPECT_EQ(value("=all_layers", R"({"n_layer": 3, "num_nextn_predict_layers": 2})"), 5);
  EXPECT_EQ(value("=all_layers", R"({"n_layer": 3})"), 3);
  EXPECT_EQ(value("=mamba_width", heads + "}"), 128);
  EXPECT_EQ(value("=mamba_width", heads + R"(, "expand": 3})"), 192);
  EXPECT_EQ(value("=mamba_rank", R"({"hidden_size": 65})"), 5);
  EXPECT_EQ(value("=latent_key", R"({"kv_lora_rank": 5, "qk_rope_head_dim": 3})"), 8);
  EXPECT_EQ(value("=latent_key", R"({"kv_lora_rank": 5})"), -1);
  EXPECT_EQ(value("=full_key", R"({"qk_nope_head_dim": 7, "qk_rope_head_dim": 3})"), 10);
  EXPECT_EQ(value("=lfm2_ffn", R"({"block_ff_dim": 144, "block_multiple_of": 32})"), 96);
  EXPECT_EQ(value("=lfm2_ffn", R"({"block_ff_dim": 145, "block_multiple_of": 32})"), 96);
  EXPECT_EQ(value("=lfm2_ffn", R"({"block_ff_dim": 147, "block_multiple_of": 32})"), 128);
  EXPECT_EQ(value("=lfm2_ffn", R"({"block_ff_dim": 144, "block_auto_adjust_ff_dim": false})"), 144);
  EXPECT_EQ(value("=linear_width", R"({"linear_value_head_dim": 16, "linear_num_value_heads": 4})"), 64);
  EXPECT_EQ(value("=shared_width", R"({"moe_intermediate_size": 12, "num_shared_experts": 3})"), 36);
  EXPECT_EQ(value("=shared_width", R"({"moe_intermediate_size": 12})"), -1);
  EXPECT_EQ(find_derived_value("=other"), nullptr);
}

}  // namespace
}  // namespace tessera::convert
