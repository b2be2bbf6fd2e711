// Names of tensors against the patterns of rules.
#include "tessera/convert/checkpoints/name_pattern.h"

#include <gtest/gtest.h>

namespace tessera::convert {
namespace {

TEST(NamePattern, PlacesAreNumbersAndTheEnd) {
  constexpr std::string_view kPattern = "model.layers.{i}.mlp.experts.{e}.up_proj.{}";
  const NamePlaces places{.layer = 12, .expert = 0, .end = "weight"};
  EXPECT_EQ(match_name(kPattern, "model.layers.12.mlp.experts.0.up_proj.weight"), places);
  EXPECT_EQ(match_name("a.{i}", "a.99999"), (NamePlaces{.layer = 99999}));
  EXPECT_EQ(match_name("a.{}", "a.bias"), (NamePlaces{.end = "bias"}));
  EXPECT_EQ(match_name("a.b", "a.b"), NamePlaces{});
  EXPECT_EQ(match_name("a.{i}.*", "a.3.b.c"), NamePlaces{.layer = 3});
  EXPECT_FALSE(match_name("a.*", "b.a.c"));
  EXPECT_EQ(name_of_pattern(kPattern, places), "model.layers.12.mlp.experts.0.up_proj.weight");
  EXPECT_EQ(name_of_pattern("blk.{i}.ffn_up_exps.{}", places), "blk.12.ffn_up_exps.weight");
  EXPECT_EQ(name_of_pattern("output.weight", places), "output.weight");
}

TEST(NamePattern, OtherNamesDoNotFit) {
  for (const char* name : {"", "a", "a.", "a.x", "a.-1", "a.01", "a.100000", "a.4294967296", "a.99999999999999999999",
                           "a.1x", "a.1.", "b.1", "a.1.b.c"})
    EXPECT_FALSE(match_name("a.{i}", name)) << name;
  for (const char* name : {"a", "a.", "a.weights", "a.weight.x", "a.scale"})
    EXPECT_FALSE(match_name("a.{}", name)) << name;
  EXPECT_FALSE(match_name("a.b", "a.b.c"));
  EXPECT_FALSE(match_name("a.b.c", "a.b"));
  EXPECT_TRUE(match_name("a.{i}", "a.0"));
}

}  // namespace
}  // namespace tessera::convert
