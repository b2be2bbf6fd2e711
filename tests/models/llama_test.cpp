// Keys and tensors that the llama architecture requires of a file, and the errors if they are wrong.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <functional>

#include "tessera/gguf/writer.h"
#include "tessera/models/model.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

/// A small llama file: two layers, n_embd 16, 2 heads of 8, 1 KV head, 32 tokens.
struct SmallLlama {
  GgufBuilder builder;
  std::vector<std::pair<std::string, Shape>> tensors;

  SmallLlama() {
    builder.set("general.architecture", "llama");
    builder.set("llama.context_length", uint32_t{64});
    builder.set("llama.embedding_length", uint32_t{16});
    builder.set("llama.block_count", uint32_t{2});
    builder.set("llama.feed_forward_length", uint32_t{24});
    builder.set("llama.attention.head_count", uint32_t{2});
    builder.set("llama.attention.head_count_kv", uint32_t{1});
    builder.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    tensors = {{"token_embd.weight", {16, 32}}, {"output_norm.weight", {16}}, {"output.weight", {16, 32}}};
    for (int il = 0; il < 2; ++il)
      for (const auto& [name, shape] : std::initializer_list<std::pair<const char*, Shape>>{{"attn_norm", {16}},
                                                                                            {"attn_q", {16, 16}},
                                                                                            {"attn_k", {16, 8}},
                                                                                            {"attn_v", {16, 8}},
                                                                                            {"attn_output", {16, 16}},
                                                                                            {"ffn_norm", {16}},
                                                                                            {"ffn_gate", {16, 24}},
                                                                                            {"ffn_up", {16, 24}},
                                                                                            {"ffn_down", {24, 16}}})
        tensors.emplace_back(fmt::format("blk.{}.{}.weight", il, name), shape);
  }

  Shape& shape_of(const std::string& name) {
    return std::ranges::find(tensors, name, [](const auto& t) { return t.first; })->second;
  }
  void drop(const std::string& name) {
    std::erase_if(tensors, [&](const auto& t) { return t.first == name; });
  }
};

/// Applies `change` to the small file, writes and opens it.
Result<std::unique_ptr<ModelFiles>> files_of(const std::function<void(SmallLlama&)>& change) {
  SmallLlama llama;
  change(llama);
  std::vector<std::vector<std::byte>> data;
  for (const auto& [name, shape] : llama.tensors) {
    TESSERA_TRY(llama.builder.add_tensor(name, DType::f32, shape));
    data.emplace_back(nbytes(DType::f32, shape).value());
  }
  const std::vector<std::span<const std::byte>> spans(data.begin(), data.end());
  TESSERA_ASSIGN(const auto bytes, gguf_to_bytes(llama.builder, spans));
  const std::string path =
      testing::write_temporary("small.gguf", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return ModelFiles::open(path);
}

void expect_refused(const std::function<void(SmallLlama&)>& change, const char* why, ErrorCode code) {
  ASSERT_OK_AND_ASSIGN(const auto files, files_of(change));
  const auto model = create_model(*files, {});
  EXPECT_ERROR(model, why);
  if (!model) {
    EXPECT_EQ(model.error().code(), code) << model.error().message();
    EXPECT_NE(model.error().message().find("small.gguf"), std::string::npos) << model.error().message();
  }
}

template <class T>
std::function<void(SmallLlama&)> with(std::string key, T value) {
  return [=](SmallLlama& m) { m.builder.set(key, value); };
}

TEST(Llama, ReadsKeysAndListsWeights) {
  ASSERT_OK_AND_ASSIGN(const auto files, files_of([](auto&) {}));
  ASSERT_OK_AND_ASSIGN(const auto model, create_model(*files, {}));
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.architecture, "llama");
  EXPECT_EQ(info.n_vocab, 32);
  EXPECT_EQ(info.n_embd, 16);
  EXPECT_EQ(info.n_ctx_train, 64);
  EXPECT_EQ(info.kv_layers, (std::vector<KvLayerShape>(2, {.n_heads_kv = 1, .k_dim = 8, .v_dim = 8})));
  EXPECT_EQ(info.ropes.at(0).config.n_rot, 8);
  EXPECT_EQ(info.ropes[0].config.pairs, RopePairs::adjacent);
  ASSERT_EQ(info.ropes.size(), 1u);
  EXPECT_EQ(info.ropes[0].factors, nullptr);
  EXPECT_EQ(info.kv_ropes, (std::vector<int>(2, 0)));
  EXPECT_EQ(model->weights().weights().size(), 3u + 2 * 9);
  EXPECT_EQ(model->weights().weights()[0].use, Op::get_rows);
}

TEST(Llama, AModelWithoutOutputUsesItsEmbedding) {
  ASSERT_OK_AND_ASSIGN(const auto files, files_of([](SmallLlama& m) { m.drop("output.weight"); }));
  ASSERT_OK_AND_ASSIGN(const auto model, create_model(*files, {}));
  EXPECT_EQ(model->weights().weights()[0].tensor.name, "token_embd.weight");
  EXPECT_EQ(model->weights().weights()[0].use, Op::mul_mat);
}

TEST(Llama, WithoutKvHeadsEveryHeadHasItsOwn) {
  ASSERT_OK_AND_ASSIGN(const auto files, files_of([](SmallLlama& m) {
                         m.builder.remove("llama.attention.head_count_kv");
                         for (const char* name : {"blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.1.attn_k.weight",
                                                  "blk.1.attn_v.weight"})
                           m.shape_of(name) = {16, 16};
                       }));
  ASSERT_OK_AND_ASSIGN(const auto model, create_model(*files, {}));
  EXPECT_EQ(model->info().kv_layers[1].n_heads_kv, 2);
}

TEST(Llama, LayersMayDifferInHeadsAndWidth) {
  ASSERT_OK_AND_ASSIGN(const auto files, files_of([](SmallLlama& m) {
                         m.builder.set_array("llama.attention.head_count_kv", std::vector<int32_t>{1, 2});
                         m.builder.set_array("llama.feed_forward_length", std::vector<int32_t>{24, 40});
                         m.shape_of("blk.1.attn_k.weight") = m.shape_of("blk.1.attn_v.weight") = {16, 16};
                         m.shape_of("blk.1.ffn_gate.weight") = m.shape_of("blk.1.ffn_up.weight") = {16, 40};
                         m.shape_of("blk.1.ffn_down.weight") = {40, 16};
                       }));
  ASSERT_OK_AND_ASSIGN(const auto model, create_model(*files, {}));
  EXPECT_EQ(model->info().kv_layers[0].n_heads_kv, 1);
  EXPECT_EQ(model->info().kv_layers[1].n_heads_kv, 2);
}

TEST(Llama, EveryNeededTensorIsMissedByName) {
  for (const auto& [name, shape] : SmallLlama().tensors) {
    if (name == "output.weight") continue;
    const std::string why = name == "token_embd.weight"
                                ? "tensor token_embd.weight is missing"
                                : fmt::format("tensor {} {} is missing", name, to_string(shape));
    expect_refused([&](SmallLlama& m) { m.drop(name); }, why.c_str(), ErrorCode::not_found);
  }
}

TEST(Llama, EveryTensorOfAnotherShapeIsRefused) {
  for (const auto& [name, shape] : SmallLlama().tensors) {
    if (name == "token_embd.weight") continue;  // its number of rows is the vocabulary size: see below
    Shape other = shape;
    other[0] += 8;
    const std::string why =
        fmt::format("tensor {} is {}, the model's keys want {}", name, to_string(other), to_string(shape));
    expect_refused([&](SmallLlama& m) { m.shape_of(name) = other; }, why.c_str(), ErrorCode::mismatch);
  }
  expect_refused(
      [](SmallLlama& m) {
        m.shape_of("token_embd.weight") = {16, 31};
      },
      "tensor output.weight is [16, 32]", ErrorCode::mismatch);
}

TEST(Llama, EveryNeededKeyIsMissedByName) {
  for (const char* key :
       {"general.architecture", "llama.context_length", "llama.embedding_length", "llama.block_count",
        "llama.feed_forward_length", "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"})
    expect_refused([&](SmallLlama& m) { m.builder.remove(key); }, key, ErrorCode::not_found);
}

TEST(Llama, KeysOfAnotherTypeAreRefused) {
  expect_refused(with("llama.block_count", "two"), "llama.block_count", ErrorCode::mismatch);
  expect_refused(with("llama.attention.layer_norm_rms_epsilon", uint32_t{1}), "rms_epsilon", ErrorCode::mismatch);
  expect_refused(with("general.architecture", uint32_t{1}), "general.architecture", ErrorCode::mismatch);
}

TEST(Llama, NumbersOutOfRangeAreRefused) {
  expect_refused(with("llama.block_count", uint32_t{0}), "'llama.block_count': 0, want 1 to 512", ErrorCode::limit);
  expect_refused(with("llama.block_count", uint32_t{0xffffffff}), "want 1 to 512", ErrorCode::limit);
  expect_refused(with("llama.block_count", int32_t{-1}), "-1, want 1 to 512", ErrorCode::limit);
  expect_refused(with("llama.context_length", uint32_t{0}), "llama.context_length", ErrorCode::limit);
  expect_refused(with("llama.embedding_length", uint64_t{1} << 40), "llama.embedding_length", ErrorCode::limit);
  expect_refused(with("llama.embedding_length", uint64_t{1} << 63), "llama.embedding_length", ErrorCode::limit);
  expect_refused(with("llama.attention.head_count", uint32_t{0}), "head_count", ErrorCode::limit);
  expect_refused(with("llama.attention.head_count_kv", uint32_t{0}), "head_count_kv", ErrorCode::limit);
  expect_refused(with("llama.attention.key_length", uint32_t{1} << 20), "key_length", ErrorCode::limit);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_refused(with("llama.attention.layer_norm_rms_epsilon", nan), "rms_epsilon", ErrorCode::limit);
  expect_refused(with("llama.rope.freq_base", nan), "freq_base", ErrorCode::limit);
  expect_refused(with("llama.rope.scaling.factor", -1.0f), "factor", ErrorCode::limit);
}

TEST(Llama, ArraysOfAnotherLengthThanTheLayersAreRefused) {
  for (const char* key : {"llama.feed_forward_length", "llama.attention.head_count", "llama.attention.head_count_kv"})
    for (const size_t n : {size_t{1}, size_t{3}})
      expect_refused([&](SmallLlama& m) { m.builder.set_array(key, std::vector<int32_t>(n, 2)); }, key,
                     ErrorCode::mismatch);
}

TEST(Llama, HeadsMustBeAMultipleOfKvHeads) {
  expect_refused(with("llama.attention.head_count_kv", uint32_t{3}), "layer 0: 2 heads for 3 KV heads",
                 ErrorCode::mismatch);
}

TEST(Llama, RopeTurnsTheWholeHead) {
  expect_refused(with("llama.rope.dimension_count", uint32_t{4}), "rope.dimension_count 4 and key length 8",
                 ErrorCode::mismatch);
  expect_refused(with("llama.attention.key_length", uint32_t{7}), "key length 7", ErrorCode::mismatch);
}

/// The small file with 4 experts, of which each token uses 2.
void add_experts(SmallLlama& m) {
  m.builder.set("llama.expert_count", uint32_t{4});
  m.builder.set("llama.expert_used_count", uint32_t{2});
  for (int il = 0; il < 2; ++il)
    for (const auto& [name, shape] : std::initializer_list<std::pair<std::string, Shape>>{
             {"ffn_gate", {16, 24, 4}}, {"ffn_up", {16, 24, 4}}, {"ffn_down", {24, 16, 4}}}) {
      m.drop(fmt::format("blk.{}.{}.weight", il, name));
      m.tensors.emplace_back(fmt::format("blk.{}.{}_exps.weight", il, name), shape);
    }
  for (int il = 0; il < 2; ++il) m.tensors.emplace_back(fmt::format("blk.{}.ffn_gate_inp.weight", il), Shape{16, 4});
}

/// add_experts, followed by another change.
std::function<void(SmallLlama&)> experts_and(const std::function<void(SmallLlama&)>& change) {
  return [=](SmallLlama& m) {
    add_experts(m);
    change(m);
  };
}

TEST(Llama, ListsTheWeightsOfExperts) {
  ASSERT_OK_AND_ASSIGN(const auto files, files_of(add_experts));
  ASSERT_OK_AND_ASSIGN(const auto model, create_model(*files, {}));
  EXPECT_EQ(model->weights().weights().size(), 3u + 2 * 10);
  int n_expert_products = 0;
  for (const Weight& weight : model->weights().weights()) {
    const bool is_experts = weight.tensor.name.ends_with("_exps.weight");
    EXPECT_EQ(weight.use == Op::mul_mat_experts, is_experts) << weight.tensor.name;
    n_expert_products += is_experts ? 1 : 0;
  }
  EXPECT_EQ(n_expert_products, 2 * 3);
}

TEST(Llama, NumbersOfExpertsThatCannotBeAreRefused) {
  const auto used = [](auto n) { return experts_and(with("llama.expert_used_count", n)); };
  expect_refused(used(uint32_t{0}), "'llama.expert_used_count': 0, want 1 to 4", ErrorCode::limit);
  expect_refused(used(uint32_t{5}), "'llama.expert_used_count': 5, want 1 to 4", ErrorCode::limit);
  expect_refused(used(int32_t{-1}), "'llama.expert_used_count': -1, want 1 to 4", ErrorCode::limit);
  expect_refused(experts_and([](SmallLlama& m) { m.builder.remove("llama.expert_used_count"); }),
                 "llama.expert_used_count", ErrorCode::not_found);
  expect_refused(experts_and(with("llama.expert_count", uint32_t{513})), "'llama.expert_count': 513, want 0 to 512",
                 ErrorCode::limit);
  expect_refused(experts_and(with("llama.expert_count", uint32_t{3})), "the model's keys want [16, 3]",
                 ErrorCode::mismatch);
}

TEST(Llama, EveryTensorOfExpertsIsMissedByNameAndShape) {
  SmallLlama small;
  add_experts(small);
  for (const auto& [name, shape] : small.tensors) {
    if (!name.ends_with("_exps.weight") && !name.ends_with("ffn_gate_inp.weight")) continue;
    const std::string missing = fmt::format("tensor {} {} is missing", name, to_string(shape));
    expect_refused(experts_and([&](SmallLlama& m) { m.drop(name); }), missing.c_str(), ErrorCode::not_found);
    for (const int dimension : {0, 1, 2}) {
      Shape other = shape;
      other[dimension] += 8;
      const std::string why =
          fmt::format("tensor {} is {}, the model's keys want {}", name, to_string(other), to_string(shape));
      expect_refused(experts_and([&](SmallLlama& m) { m.shape_of(name) = other; }), why.c_str(), ErrorCode::mismatch);
    }
  }
}

TEST(Llama, ZeroExpertsAreADenseModel) {
  ASSERT_OK_AND_ASSIGN(const auto files, files_of([](SmallLlama& m) {
                         m.builder.set("llama.expert_count", uint32_t{0});
                         m.builder.set("llama.expert_used_count", uint32_t{0});
                       }));
  ASSERT_OK_AND_ASSIGN(const auto model, create_model(*files, {}));
  EXPECT_EQ(model->weights().weights().size(), 3u + 2 * 9);
}

TEST(Llama, AnUnknownRopeScalingIsRefused) {
  expect_refused(with("llama.rope.scaling.type", "dynamic"), "rope scaling 'dynamic'", ErrorCode::unsupported);
}

TEST(Llama, ScalingComesFromTheFileUnlessOverridden) {
  ASSERT_OK_AND_ASSIGN(const auto files, files_of([](SmallLlama& m) {
                         m.builder.set("llama.rope.scaling.type", "yarn");
                         m.builder.set("llama.rope.scaling.factor", 4.0f);
                         m.builder.set("llama.rope.scaling.original_context_length", uint32_t{32});
                       }));
  ASSERT_OK_AND_ASSIGN(const auto model, create_model(*files, {}));
  EXPECT_EQ(model->info().ropes[0].config.scaling, nn::RopeScaling::yarn);
  EXPECT_EQ(model->info().ropes[0].config.factor, 4.0f);
  EXPECT_EQ(model->info().ropes[0].config.original_context, 32);
  RopeOverrides overrides;
  overrides.scaling = nn::RopeScaling::none;
  overrides.freq_base = 500.0f;
  ASSERT_OK_AND_ASSIGN(const auto other, create_model(*files, overrides));
  EXPECT_EQ(other->info().ropes[0].config.scaling, nn::RopeScaling::none);
  EXPECT_EQ(other->info().ropes[0].config.freq_base, 500.0f);
  overrides.factor = -1.0f;
  EXPECT_ERROR(create_model(*files, overrides), "rope settings are out of range");
}

TEST(Loader, AnUnknownArchitectureListsTheKnown) {
  expect_refused(with("general.architecture", "abacus"), "architecture 'abacus' is not supported (supported: llama",
                 ErrorCode::unsupported);
}

}  // namespace
}  // namespace tessera
