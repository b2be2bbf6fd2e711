// config.json: names, types, bounds, and the configs of language models within others.
#include "tessera/convert/source/hub_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

HubConfig config_of(const char* text) { return HubConfig::of(Json::parse(text), "config.json").value(); }

TEST(HubConfig, TheFirstNameCounts) {
  const HubConfig config = config_of(R"({"architectures":["GPT2LMHeadModel"],"n_layer":2,"num_layers":3,"none":null})");
  EXPECT_EQ(config.class_name(), "GPT2LMHeadModel");
  EXPECT_EQ(config.integer({"none", "n_layer", "num_layers"}, 1, 9).value(), 2);
  EXPECT_EQ(config.integer({"num_layers", "n_layer"}, 1, 9).value(), 3);
  EXPECT_EQ(config.integer({"absent", "none"}, 1, 9).value(), std::nullopt);
  EXPECT_EQ(config.require_integer({"n_layer"}, 1, 9).value(), 2);
  EXPECT_ERROR(config.require_integer({"hidden_size", "n_embd"}, 1, 9), "config.json: no hidden_size");
}

TEST(HubConfig, TheLanguageModelHidesOuterValues) {
  const HubConfig config = config_of(
      R"({"architectures":["Outer"],"hidden_size":1,"vocab_size":7,
          "text_config":{"architectures":["Inner"],"hidden_size":2}})");
  EXPECT_EQ(config.class_name(), "Inner");
  EXPECT_EQ(config.integer({"hidden_size"}, 0, 9).value(), 2);
  EXPECT_EQ(config.integer({"vocab_size"}, 0, 9).value(), 7);
  EXPECT_EQ(config_of(R"({"architectures":["Outer"],"llm_config":{"x":1}})").class_name(), "Outer");
  EXPECT_EQ(config_of(R"({"thinker_config":{"text_config":{"x":4}}})").integer({"x"}, 0, 9).value(), 4);
  EXPECT_EQ(config_of(R"({"text_config":3,"x":4})").integer({"x"}, 0, 9).value(), 4);
  for (const char* text : {"{}", R"({"architectures":[]})", R"({"architectures":[3]})", R"({"architectures":"A"})"})
    EXPECT_EQ(config_of(text).class_name(), "") << text;
}

TEST(HubConfig, ValuesHaveTypesAndBounds) {
  const HubConfig config = config_of(
      R"({"i":5,"f":1.5,"b":true,"s":"text","l":[1,2],"mixed":[1,"2"],"large":18446744073709551615,"low":-1})");
  EXPECT_EQ(config.number({"f"}).value(), 1.5);
  EXPECT_EQ(config.number({"i"}).value(), 5);
  EXPECT_EQ(config.flag({"b"}).value(), true);
  EXPECT_EQ(config.text({"s"}).value(), "text");
  EXPECT_EQ(config.integers({"l"}, 1, 2).value(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(config.integers({"absent"}, 1, 2).value(), std::nullopt);
  EXPECT_EQ(config.integer({"i"}, 5, 5).value(), 5);
  EXPECT_ERROR(config.integer({"i"}, 6, 9), "config.json: i is 5, want an integer from 6 to 9");
  EXPECT_ERROR(config.integer({"i"}, 0, 4), "config.json: i is 5, want an integer from 0 to 4");
  EXPECT_ERROR(config.integer({"f"}, 0, 9), "config.json: f is 1.5, want an integer");
  EXPECT_ERROR(config.integer({"large"}, 0, INT64_MAX), "config.json: large is 18446744073709551615");
  EXPECT_ERROR(config.integer({"low"}, 0, 9), "config.json: low is -1");
  EXPECT_ERROR(config.number({"s"}), "config.json: s is \"text\", want a number");
  EXPECT_ERROR(config.flag({"i"}), "config.json: i is 5, want true or false");
  EXPECT_ERROR(config.text({"i"}), "config.json: i is 5, want a string");
  EXPECT_ERROR(config.integers({"mixed"}, 0, 9),
               "config.json: mixed is [1,\"2\"], want a list of integers from 0 to 9");
  EXPECT_ERROR(config.integers({"l"}, 0, 1), "config.json: l is [1,2]");
  EXPECT_ERROR(config.integers({"i"}, 0, 9), "config.json: i is 5, want a list");
  EXPECT_ERROR(HubConfig::of(Json::parse("[]"), "config.json"), "config.json: no object");
  const std::string long_text(100, 'x');
  EXPECT_ERROR(config_of((R"({"x":")" + long_text + "\"}").c_str()).flag({"x"}),
               long_text.substr(0, 59) + "..., want true");
}

}  // namespace
}  // namespace tessera::convert
