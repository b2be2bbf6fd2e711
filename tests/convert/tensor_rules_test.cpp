// Rules on tensors of a checkpoint: names, orders, experts, and what is refused.
#include "tessera/convert/checkpoints/tensor_rules.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/convert/checkpoint_files.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

struct RuledTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// A checkpoint whose elements are numbered from 0 on, through all tensors.
Checkpoint numbered_checkpoint(const std::vector<RuledTensor>& tensors) {
  std::string header = "{", data;
  for (const RuledTensor& tensor : tensors) {
    std::string shape;
    int64_t n = 1;
    for (const int64_t extent : tensor.shape) {
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
      n *= extent;
    }
    if (header.size() > 1) header += ",";
    header += "\"" + tensor.name + R"(":{"dtype":"F32","shape":[)" + shape + R"(],"data_offsets":[)" +
              std::to_string(data.size()) + ",";
    for (int64_t i = 0; i < n; ++i) data += number_bytes(static_cast<float>(data.size() / 4));
    header += std::to_string(data.size()) + "]}";
  }
  return Checkpoint::open(write_temporary("ruled.safetensors", safetensors_file(header + "}", data))).value();
}

std::vector<float> values_of_parts(const Checkpoint& checkpoint, const ConvertedTensor& tensor) {
  std::vector<float> values;
  for (const ConvertedTensor::Part& part : tensor.parts) {
    std::vector<float> more(static_cast<size_t>(part.view.n_elements()));
    checkpoint.read({part.view, part.file}, 0, std::as_writable_bytes(std::span(more)));
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

constexpr TensorRule kRules[] = {{"embed", "token_embd.weight"},
                                 {"layers.{i}.q.{}", "blk.{i}.attn_q.{}", Change::rope_q},
                                 {"layers.{i}.k.{}", "blk.{i}.attn_k.{}", Change::rope_k},
                                 {"layers.{i}.norm", "blk.{i}.attn_norm.weight", Change::add_one},
                                 {"layers.{i}.decay", "blk.{i}.ssm_a", Change::minus_exp},
                                 {"layers.{i}.turned", "blk.{i}.turned.weight", Change::transpose},
                                 {"layers.{i}.conv", "blk.{i}.conv.weight", Change::squeeze},
                                 {"layers.{i}.experts.{e}.up", "blk.{i}.ffn_up_exps.weight"},
                                 {"layers.{i}.unused", "", Change::drop}};

TEST(TensorRules, ChangesNamesAndOrders) {
  const Checkpoint checkpoint = numbered_checkpoint({{"embed", {2, 2}},              // 0 to 3
                                                     {"layers.0.q.weight", {8, 1}},  // 4 to 11
                                                     {"layers.0.k.bias", {4}},       // 12 to 15
                                                     {"layers.1.norm", {2}},
                                                     {"layers.1.decay", {2}},
                                                     {"layers.1.turned", {2, 3}},  // 20 to 25
                                                     {"layers.1.conv", {2, 1, 2}},
                                                     {"layers.1.unused", {5}}});
  ASSERT_OK_AND_ASSIGN(const auto tensors, apply_rules(checkpoint.tensors(), kRules, {.heads = {.q = 2, .kv = 1}}));
  ASSERT_EQ(tensors.size(), 7u);
  const auto expect = [&](size_t i, const char* name, const std::vector<int64_t>& shape, ValueChange change,
                          const std::vector<float>& values) {
    EXPECT_EQ(tensors[i].name, name);
    EXPECT_EQ(tensors[i].shape, shape) << name;
    EXPECT_EQ(tensors[i].values, change) << name;
    EXPECT_EQ(values_of_parts(checkpoint, tensors[i]), values) << name;
  };
  expect(0, "token_embd.weight", {2, 2}, ValueChange::none, {0, 1, 2, 3});
  expect(1, "blk.0.attn_q.weight", {8, 1}, ValueChange::none, {4, 6, 5, 7, 8, 10, 9, 11});
  expect(2, "blk.0.attn_k.bias", {4}, ValueChange::none, {12, 14, 13, 15});
  expect(3, "blk.1.attn_norm.weight", {2}, ValueChange::add_one, {16, 17});
  expect(4, "blk.1.ssm_a", {2}, ValueChange::minus_exp, {18, 19});
  expect(5, "blk.1.turned.weight", {3, 2}, ValueChange::none, {20, 23, 21, 24, 22, 25});
  expect(6, "blk.1.conv.weight", {2, 2}, ValueChange::none, {26, 27, 28, 29});
}

TEST(TensorRules, ExpertsAreStackedInTheOrderOfTheirNumbers) {
  const Checkpoint checkpoint =
      numbered_checkpoint({{"layers.3.experts.1.up", {1, 2}}, {"layers.3.experts.0.up", {1, 2}}, {"embed", {1}}});
  ASSERT_OK_AND_ASSIGN(const auto tensors, apply_rules(checkpoint.tensors(), kRules, {}));
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "blk.3.ffn_up_exps.weight");
  EXPECT_EQ(tensors[0].shape, (std::vector<int64_t>{2, 1, 2}));
  EXPECT_EQ(values_of_parts(checkpoint, tensors[0]), (std::vector<float>{2, 3, 0, 1}));
}

TEST(TensorRules, HalvesOfRows) {
  constexpr TensorRule kHalves[] = {{"both", "first.weight", Change::first_half},
                                    {"both", "second.weight", Change::second_half}};
  const Checkpoint matrix = numbered_checkpoint({{"both", {4, 2}}});
  ASSERT_OK_AND_ASSIGN(const auto rows, apply_rules(matrix.tensors(), kHalves, {}));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "first.weight");
  EXPECT_EQ(rows[0].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(values_of_parts(matrix, rows[0]), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(values_of_parts(matrix, rows[1]), (std::vector<float>{4, 5, 6, 7}));
  const Checkpoint experts = numbered_checkpoint({{"both", {2, 2, 1}}});
  ASSERT_OK_AND_ASSIGN(const auto stacked, apply_rules(experts.tensors(), kHalves, {}));
  EXPECT_EQ(stacked[1].shape, (std::vector<int64_t>{2, 1, 1}));
  EXPECT_EQ(values_of_parts(experts, stacked[0]), (std::vector<float>{0, 2}));
  EXPECT_EQ(values_of_parts(experts, stacked[1]), (std::vector<float>{1, 3}));
  const Checkpoint odd = numbered_checkpoint({{"both", {3, 2}}});
  const auto refused = apply_rules(odd.tensors(), kHalves, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message(), "both: its rows have no halves");
}

TEST(TensorRules, TransposedExperts) {
  constexpr TensorRule kTurned[] = {{"t", "t.weight", Change::transpose}};
  const Checkpoint checkpoint = numbered_checkpoint({{"t", {2, 2, 3}}});
  ASSERT_OK_AND_ASSIGN(const auto tensors, apply_rules(checkpoint.tensors(), kTurned, {}));
  EXPECT_EQ(tensors[0].shape, (std::vector<int64_t>{2, 3, 2}));
  EXPECT_EQ(values_of_parts(checkpoint, tensors[0]), (std::vector<float>{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}));
}

TEST(TensorRules, SparesAreUsedOnlyWithoutAnother) {
  constexpr TensorRule kSpares[] = {
      {"shared", "embd", Change::spare}, {"own", "embd"}, {"third", "embd", Change::spare}};
  const auto used = [&](const std::vector<RuledTensor>& tensors) {
    const Checkpoint checkpoint = numbered_checkpoint(tensors);
    const auto applied = apply_rules(checkpoint.tensors(), kSpares, {}).value();
    EXPECT_EQ(applied.size(), 1u);
    return values_of_parts(checkpoint, applied[0]);
  };
  EXPECT_EQ(used({{"shared", {1}}, {"own", {1}}}), (std::vector<float>{1}));
  EXPECT_EQ(used({{"shared", {1}}, {"third", {1}}}), (std::vector<float>{0}));
  EXPECT_EQ(used({{"third", {1}}}), (std::vector<float>{0}));
}

TEST(TensorRules, MembersOfAStackHaveNumbers) {
  constexpr TensorRule kMembers[] = {{"{i}.b", "blk.{i}.ab", Change::same, nullptr, false, 1},
                                     {"{i}.a", "blk.{i}.ab", Change::same, nullptr, false, 0}};
  const Checkpoint checkpoint = numbered_checkpoint({{"4.b", {2}}, {"4.a", {2}}});
  ASSERT_OK_AND_ASSIGN(const auto tensors, apply_rules(checkpoint.tensors(), kMembers, {}));
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].name, "blk.4.ab");
  EXPECT_EQ(tensors[0].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(values_of_parts(checkpoint, tensors[0]), (std::vector<float>{2, 3, 0, 1}));
}

TEST(TensorRules, LayersAfterTheLastOne) {
  constexpr TensorRule kLater[] = {{"layers.{i}.a", "blk.{i}.a"},
                                   {"more.{i}.a", "blk.{i}.a", Change::same, nullptr, true},
                                   {"more.b", "blk.{i}.b", Change::same, nullptr, true}};
  const auto names = [&](const std::vector<RuledTensor>& tensors, bool drops) {
    const Checkpoint checkpoint = numbered_checkpoint(tensors);
    std::string text;
    const RuleFacts facts{.n_layers = 3, .drops_later_layers = drops};
    const auto applied = apply_rules(checkpoint.tensors(), kLater, facts).value();
    for (const ConvertedTensor& tensor : applied) text += tensor.name + " ";
    return text;
  };
  EXPECT_EQ(names({{"more.0.a", {1}}, {"more.1.a", {1}}, {"more.b", {1}}}, false), "blk.3.a blk.4.a blk.3.b ");
  EXPECT_EQ(names({{"layers.2.a", {1}}, {"layers.3.a", {1}}}, true), "blk.2.a ");
  EXPECT_EQ(names({{"layers.2.a", {1}}, {"layers.3.a", {1}}}, false), "blk.2.a blk.3.a ");
}

TEST(TensorRules, NamesMayLackThePrefix) {
  constexpr TensorRule kPlain[] = {{"a", "x"}};
  const Checkpoint checkpoint = numbered_checkpoint({{"model.a", {1}}});
  ASSERT_OK_AND_ASSIGN(const auto tensors, apply_rules(checkpoint.tensors(), kPlain, {.prefix = "model."}));
  EXPECT_EQ(tensors[0].name, "x");
  EXPECT_FALSE(apply_rules(checkpoint.tensors(), kPlain, {}).has_value());
}

TEST(TensorRules, FactorsFollowTheirTensor) {
  constexpr TensorRule kFactors[] = {{"{i}.q.weight", "blk.{i}.q.weight", Change::rope_q},
                                     {"{i}.e.{e}.weight", "blk.{i}.e.weight"}};
  const Checkpoint checkpoint = numbered_checkpoint({{"0.q.weight", {4, 1}},
                                                     {"0.q.scale", {1}},
                                                     {"0.q.input_scale", {1}},
                                                     {"1.e.1.scale", {1}},
                                                     {"1.e.0.scale", {1}}});
  ASSERT_OK_AND_ASSIGN(const auto tensors, apply_rules(checkpoint.tensors(), kFactors, {.heads = {.q = 1, .kv = 1}}));
  ASSERT_EQ(tensors.size(), 4u);
  EXPECT_EQ(tensors[1].name, "blk.0.q.scale");
  EXPECT_EQ(tensors[1].shape, (std::vector<int64_t>{1}));
  EXPECT_EQ(tensors[2].name, "blk.0.q.input_scale");
  EXPECT_EQ(tensors[3].name, "blk.1.e.scale");
  EXPECT_EQ(values_of_parts(checkpoint, tensors[3]), (std::vector<float>{7, 6}));
}

TEST(TensorRules, RulesMayBeForFactorsThemselves) {
  constexpr TensorRule kNamed[] = {
      {"{i}.r.weight", "blk.{i}.r.weight"}, {"{i}.r.scale", "blk.{i}.own", Change::add_one}, {"{i}.s.scale", "s"}};
  const Checkpoint checkpoint = numbered_checkpoint({{"2.r.weight", {1}}, {"2.s.scale", {3}}});
  ASSERT_OK_AND_ASSIGN(const auto tensors, apply_rules(checkpoint.tensors(), kNamed, {}));
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[1].name, "s");
  EXPECT_EQ(tensors[1].shape, (std::vector<int64_t>{3}));
  const Checkpoint both = numbered_checkpoint({{"2.r.scale", {2}}, {"2.r.input_scale", {1}}});
  ASSERT_OK_AND_ASSIGN(const auto factors, apply_rules(both.tensors(), kNamed, {}));
  ASSERT_EQ(factors.size(), 2u);
  EXPECT_EQ(factors[0].name, "blk.2.own");
  EXPECT_EQ(factors[0].values, ValueChange::add_one);
  EXPECT_EQ(factors[1].name, "blk.2.r.input_scale");
}

TEST(TensorRules, WhatDoesNotFitIsRefused) {
  const auto refusal_of = [](const std::vector<RuledTensor>& tensors, std::span<const TensorRule> rules = kRules) {
    const Checkpoint checkpoint = numbered_checkpoint(tensors);
    const auto applied = apply_rules(checkpoint.tensors(), rules, {.heads = {.q = 2, .kv = 1}});
    return applied ? "applied" : applied.error().message();
  };
  const auto expect_refusal = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nwant " << part;
  };
  expect_refusal(refusal_of({{"other", {1}}}), "no rule for tensor \"other\"");
  expect_refusal(refusal_of({{"layers.0.q.weight", {6, 1}}}), "no whole pairs of rows for 2 heads");
  expect_refusal(refusal_of({{"layers.0.turned", {3}}}), "is no matrix");
  expect_refusal(refusal_of({{"layers.0.experts.1.up", {1}}}), "expert 0 is missing");
  expect_refusal(refusal_of({{"layers.0.experts.0.up", {1}}, {"layers.0.experts.2.up", {1}}}), "expert 1 is missing");
  expect_refusal(refusal_of({{"layers.0.experts.0.up", {1}}, {"layers.0.experts.1.up", {2}}}), "another shape");
  constexpr TensorRule kSame[] = {{"a", "c"}, {"b", "c"}};
  expect_refusal(refusal_of({{"a", {1}}, {"b", {1}}}, kSame), "two tensors become c, one of them \"b\"");
}

}  // namespace
}  // namespace tessera::convert
