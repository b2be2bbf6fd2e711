// The rows of all classes of models: names that lead to one row, and patterns that fit together.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tessera/convert/checkpoints/model_class.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

HubConfig class_config(const std::string& name, const std::string& members = "") {
  return HubConfig::of(Json::parse(R"({"architectures": [")" + name + "\"]" + members + "}"), "config.json").value();
}

TEST(ModelClasses, ANameHasOneRowThatAlwaysFits) {
  std::set<std::string_view> names;
  for (const ModelClass* row : all_model_classes()) {
    ASSERT_FALSE(split_names(row->names).empty());
    for (const std::string_view name : split_names(row->names)) {
      if (row->fits != nullptr) continue;
      EXPECT_TRUE(names.insert(name).second) << name;
      ASSERT_OK_AND_ASSIGN(const ModelClass* const found, find_model_class(class_config(std::string(name))));
      if (name != "GraniteMoeHybridForCausalLM") {  // rows that fit only some configs come first
        EXPECT_EQ(found, row) << name;
      }
    }
  }
}

TEST(ModelClasses, ConfigsChooseBetweenRowsOfAName) {
  const auto architecture = [](const std::string& members) {
    const auto row = find_model_class(class_config("GraniteMoeHybridForCausalLM", members));
    return row ? std::string((*row)->architecture) + ((*row)->rules.size() > 5 ? " with experts" : "")
               : row.error().message();
  };
  const std::string mamba = R"(, "layer_types": ["attention", "mamba"])", experts = R"(, "num_local_experts": 4)";
  EXPECT_EQ(architecture(mamba + experts), "granitehybrid with experts");
  EXPECT_EQ(architecture(mamba), "granitehybrid");
  EXPECT_EQ(architecture(experts), "granitemoe with experts");
  EXPECT_EQ(architecture(""), "granite");
}

// A pattern of the result has no place that the hub's pattern does not fill. Layers after the last one are numbered.
void expect_filled(const TensorRule& rule) {
  const auto has = [](std::string_view pattern, std::string_view place) {
    return pattern.find(place) != std::string_view::npos;
  };
  if (rule.change == Change::drop) {
    EXPECT_EQ(rule.gguf, "") << rule.hub;
    return;
  }
  EXPECT_NE(rule.gguf, "") << rule.hub;
  EXPECT_TRUE(!has(rule.gguf, "{i}") || has(rule.hub, "{i}") || rule.is_after_layers) << rule.hub;
  EXPECT_TRUE(!has(rule.gguf, "{e}") || has(rule.hub, "{e}")) << rule.hub;
  EXPECT_EQ(rule.gguf.ends_with("{}"), rule.hub.ends_with("{}")) << rule.hub;
}

TEST(ModelClasses, PatternsOfResultsAreFilled) {
  for (const TensorRule& rule : decoder_rules()) expect_filled(rule);
  for (const ModelClass* row : all_model_classes()) {
    for (const TensorRule& rule : row->rules) expect_filled(rule);
    for (const TensorRule& rule : row->shared_rules) expect_filled(rule);
  }
}

TEST(ModelClasses, KeysOfAClassDiffer) {
  for (const ModelClass* row : all_model_classes()) {
    std::set<std::string_view> keys;
    for (const KeyRow& key : row->keys) EXPECT_TRUE(keys.insert(key.key).second) << row->names << " " << key.key;
    keys.clear();
    for (const KeyRow& key : row->shared_keys) EXPECT_TRUE(keys.insert(key.key).second) << row->names << " " << key.key;
  }
}

}  // namespace
}  // namespace tessera::convert
