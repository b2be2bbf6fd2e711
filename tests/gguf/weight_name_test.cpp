// The parts of weight names.
#include "tessera/gguf/weight_name.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(WeightName, OfALayer) {
  const WeightName name = parse_weight_name("blk.12.attn_q.weight");
  EXPECT_EQ(name.layer, 12);
  EXPECT_EQ(name.stack, "");
  EXPECT_EQ(name.role, "attn_q");
  EXPECT_EQ(name.kind, "weight");
  EXPECT_EQ(name.within_layer, "attn_q.weight");
  EXPECT_TRUE(name.is_of_layer());
  EXPECT_FALSE(name.is_output());
}

TEST(WeightName, OfAStack) {
  const WeightName name = parse_weight_name("dec.blk.0.cross_attn_q.weight");
  EXPECT_EQ(name.layer, 0);
  EXPECT_EQ(name.stack, "dec");
  EXPECT_EQ(name.role, "cross_attn_q");
  EXPECT_FALSE(name.is_of_layer());
  EXPECT_EQ(parse_weight_name("enc.output_norm.weight").stack, "enc");
  EXPECT_TRUE(parse_weight_name("enc.output_norm.weight").is_output());
}

TEST(WeightName, OutsideTheLayers) {
  const WeightName table = parse_weight_name("token_embd.weight");
  EXPECT_EQ(table.layer, std::nullopt);
  EXPECT_TRUE(table.is_token_table());
  EXPECT_FALSE(table.is_output());
  EXPECT_FALSE(parse_weight_name("token_embd_norm.weight").is_token_table());
  EXPECT_FALSE(parse_weight_name("blk.0.token_embd.weight").is_token_table());
  EXPECT_TRUE(parse_weight_name("output.weight").is_output());
  EXPECT_TRUE(parse_weight_name("output_norm.weight").is_output());
  EXPECT_TRUE(parse_weight_name("cls.output.weight").is_output());
  EXPECT_FALSE(parse_weight_name("blk.0.output.weight").is_output());
}

TEST(WeightName, OfExperts) {
  EXPECT_TRUE(parse_weight_name("blk.1.ffn_up_exps.weight").is_expert());
  EXPECT_TRUE(parse_weight_name("blk.1.ffn_down_exps.bias").is_expert());
  EXPECT_TRUE(parse_weight_name("blk.1.ffn_gate_chexps.weight").is_expert());
  EXPECT_FALSE(parse_weight_name("blk.1.ffn_up_shexp.weight").is_expert());
  EXPECT_FALSE(parse_weight_name("blk.1.ffn_gate_inp.weight").is_expert());
}

TEST(WeightName, WithoutAKind) {
  EXPECT_EQ(parse_weight_name("blk.3.ssm_a").role, "ssm_a");
  EXPECT_EQ(parse_weight_name("blk.3.ssm_a").kind, "");
  EXPECT_EQ(parse_weight_name("blk.3.ffn_up.weight.scale").kind, "weight.scale");
  EXPECT_EQ(parse_weight_name("").role, "");
}

TEST(WeightName, ALayerIsANumberBetweenDots) {
  for (const char* name : {"blk.x.attn_v.weight", "blk.-1.attn_v.weight", "blk.3", "blk.", "blk..attn_v",
                           "xblk.3.attn_v", "blk.99999999999999999999.attn_v"})
    EXPECT_EQ(parse_weight_name(name).layer, std::nullopt) << name;
}

}  // namespace
}  // namespace tessera
