// Checkpoints of Meta: parts of matrices in several files, and params.json.
#include "tessera/convert/source/meta_parts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "tessera/base/index.h"
#include "tests/convert/checkpoint_folder.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

// A PyTorch file whose tensors of floats have the values first, first + 1, ... one after another.
using NamedShapes = std::vector<std::pair<std::string, std::vector<int32_t>>>;

std::string numbered_torch_file(const NamedShapes& shapes, float first) {
  std::vector<std::pair<std::string, std::string>> members;
  std::vector<ZipFile> files;
  for (const auto& [name, shape] : shapes) {
    int32_t n = 1;
    for (const int32_t extent : shape) n *= extent;
    std::vector<int32_t> strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    const std::string key = std::to_string(members.size());
    members.emplace_back(name, pickle::tensor({.key = key, .n_stored = n, .shape = shape, .strides = strides}));
    std::vector<float> values(to_size(n));
    std::iota(values.begin(), values.end(), first);
    first += static_cast<float>(n);
    files.push_back({.name = "m/data/" + key, .bytes = vector_bytes(values)});
  }
  files.insert(files.begin(), {.name = "m/data.pkl", .bytes = pickle::whole(pickle::dictionary(members))});
  return zip_archive(files);
}

const NamedShapes kHalf = {{"tok_embeddings.weight", {3, 2}},           {"norm.weight", {4}},
                           {"layers.0.attention.wk.weight", {2, 4}},    {"layers.0.attention.wo.weight", {4, 2}},
                           {"layers.0.feed_forward.w1.weight", {3, 4}}, {"layers.0.feed_forward.w2.weight", {4, 3}}};

const std::string kParams = R"({"dim":4,"n_layers":1,"n_heads":2,"norm_eps":1e-06,"vocab_size":-1})";

Result<Checkpoint> open_meta(const NamedShapes& first, const NamedShapes& second, const std::string& params = kParams) {
  return Checkpoint::open(write_folder("meta", {{"consolidated.00.pth", numbered_torch_file(first, 0)},
                                                {"consolidated.01.pth", numbered_torch_file(second, 1000)},
                                                {"params.json", params}}));
}

std::string meta_refusal(const Result<Checkpoint>& checkpoint) {
  if (checkpoint) return "read";
  const std::string message = checkpoint.error().message(), folder = temporary_path("meta");
  return message.starts_with(folder) ? message.substr(folder.size()) : message;
}

std::vector<float> values_of_name(const Checkpoint& checkpoint, const std::string& name, int64_t first = 0,
                                  int64_t n = INT64_MAX) {
  const CheckpointTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) return {};
  std::vector<float> values(to_size(std::min(n, tensor->tensor.n_elements() - first)));
  checkpoint.read(*tensor, first, std::as_writable_bytes(std::span(values)));
  return values;
}

using MetaFloats = std::vector<float>;

TEST(MetaParts, MatricesAreJoinedByRowsOrByColumns) {
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, open_meta(kHalf, kHalf));
  EXPECT_EQ(checkpoint.tensors().size(), kHalf.size());
  EXPECT_EQ(values_of_name(checkpoint, "tok_embeddings.weight"),
            (MetaFloats{0, 1, 1000, 1001, 2, 3, 1002, 1003, 4, 5, 1004, 1005}));
  EXPECT_EQ(values_of_name(checkpoint, "norm.weight"), (MetaFloats{6, 7, 8, 9}));
  EXPECT_EQ(values_of_name(checkpoint, "layers.0.attention.wk.weight"),
            (MetaFloats{10, 11, 12, 13, 14, 15, 16, 17, 1010, 1011, 1012, 1013, 1014, 1015, 1016, 1017}));
  const MetaFloats wo = {18, 19, 1018, 1019, 20, 21, 1020, 1021, 22, 23, 1022, 1023, 24, 25, 1024, 1025};
  EXPECT_EQ(values_of_name(checkpoint, "layers.0.attention.wo.weight"), wo);
  for (int64_t first = 0; first < 16; ++first)
    for (int64_t n = 1; first + n <= 16; ++n)
      EXPECT_EQ(values_of_name(checkpoint, "layers.0.attention.wo.weight", first, n),
                MetaFloats(wo.begin() + first, wo.begin() + first + n));
  EXPECT_EQ(checkpoint.find("layers.0.attention.wo.weight")->tensor.shape, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(checkpoint.find("layers.0.feed_forward.w1.weight")->tensor.shape, (std::vector<int64_t>{6, 4}));
  EXPECT_EQ(checkpoint.find("layers.0.feed_forward.w2.weight")->tensor.shape, (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(values_of_name(checkpoint, "layers.0.feed_forward.w2.weight", 3, 1), MetaFloats{1038});
}

// As newer files have it: a token table of the whole width.
TEST(MetaParts, AWideTokenTableIsJoinedByRows) {
  NamedShapes wide = kHalf, longer = kHalf;
  wide[0].second = {3, 4};
  longer[0].second = {1, 4};
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, open_meta(wide, longer));
  EXPECT_EQ(checkpoint.find("tok_embeddings.weight")->tensor.shape, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(values_of_name(checkpoint, "tok_embeddings.weight", 11), (MetaFloats{11, 1000, 1001, 1002, 1003}));
  EXPECT_EQ(checkpoint.bare_model()->n_vocab, 4);
}

TEST(MetaParts, OneFileIsReadAsItIs) {
  NamedShapes whole = kHalf;
  whole[0].second = {3, 4};
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                       Checkpoint::open(write_folder("meta", {{"consolidated.00.pth", numbered_torch_file(whole, 0)},
                                                              {"params.json", kParams}})));
  EXPECT_EQ(checkpoint.find("tok_embeddings.weight")->tensor.elements, nullptr);
  EXPECT_EQ(values_of_name(checkpoint, "tok_embeddings.weight", 11), MetaFloats{11});
}

TEST(MetaParts, ParamsBecomeAConfig) {
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, open_meta(kHalf, kHalf));
  ASSERT_OK_AND_ASSIGN(const HubConfig config, HubConfig::read(checkpoint));
  EXPECT_EQ(config.class_name(), kBareClass);
  const auto number = [&](std::string_view name) { return config.require_integer({name}, 0, 1 << 20).value_or(-1); };
  EXPECT_EQ(number("hidden_size"), 4);
  EXPECT_EQ(number("intermediate_size"), 6);
  EXPECT_EQ(number("num_hidden_layers"), 1);
  EXPECT_EQ(number("num_attention_heads"), 2);
  EXPECT_EQ(number("num_key_value_heads"), 2);
  EXPECT_EQ(number("vocab_size"), 3);
  EXPECT_EQ(number("max_position_embeddings"), 2048);
  EXPECT_EQ(config.number({"rms_norm_eps"}).value(), 1e-6);
  EXPECT_EQ(config.number({"rope_theta"}).value(), 10000);
  EXPECT_EQ(config.find({"rope_scaling"}), nullptr);
}

TEST(MetaParts, ContextsFollowFromTheFamily) {
  const auto config_of = [&](const std::string& members) {
    const auto checkpoint = open_meta(kHalf, kHalf, R"({"dim":4,"n_layers":1,"n_heads":2,)" + members + "}");
    EXPECT_OK(checkpoint);
    return bare_config(*checkpoint->bare_model());
  };
  const auto context_of = [&](const std::string& members) {
    return config_of(members)["max_position_embeddings"].get<int64_t>();
  };
  EXPECT_EQ(context_of(R"("norm_eps":1e-6)"), 2048);
  EXPECT_EQ(context_of(R"("norm_eps":1e-5)"), 4096);
  EXPECT_EQ(context_of(R"("norm_eps":1e-5,"rope_theta":500000.0)"), 8192);
  EXPECT_EQ(context_of(R"("norm_eps":1e-5,"rope_theta":1000000)"), 16384);
  const Json scaled = config_of(R"("norm_eps":1e-5,"rope_theta":500000.0,"use_scaled_rope":true)");
  EXPECT_EQ(scaled["max_position_embeddings"], 131072);
  EXPECT_EQ(scaled["rope_scaling"], Json::parse(R"({"rope_type":"llama3","factor":32.0,"low_freq_factor":1.0,
    "high_freq_factor":4.0,"original_max_position_embeddings":8192})"));
  EXPECT_FALSE(config_of(R"("use_scaled_rope":false)").contains("rope_scaling"));
}

TEST(MetaParts, TheFactorOfRopeDependsOnTheWidth) {
  for (const int64_t width : {3072, 3073}) {
    const Json json = {{"dim", width}, {"n_layers", 1}, {"n_heads", width}, {"use_scaled_rope", true}};
    ASSERT_OK_AND_ASSIGN(const HubConfig params, HubConfig::of(json, "params.json"));
    const std::vector<StoredTensor> tensors = {{.name = "tok_embeddings.weight", .shape = {5, width}},
                                               {.name = "layers.0.attention.wk.weight", .shape = {width, width}},
                                               {.name = "layers.0.feed_forward.w1.weight", .shape = {7, width}}};
    ASSERT_OK_AND_ASSIGN(const BareModel model, model_of_params(params, tensors));
    EXPECT_EQ(model.rope_factor, width == 3072 ? 32 : 8);
    EXPECT_EQ(model.n_ff, 7);
  }
}

TEST(MetaParts, PartsThatDoNotFitAreRefused) {
  const auto with = [](size_t index, const std::string& name, const std::vector<int32_t>& shape) {
    NamedShapes shapes = kHalf;
    shapes[index] = {name, shape};
    return shapes;
  };
  EXPECT_EQ(meta_refusal(open_meta(kHalf, kHalf)), "read");
  EXPECT_EQ(meta_refusal(open_meta(kHalf, with(1, "other", {4}))).substr(0, 10), ": tensor \"");
  EXPECT_NE(meta_refusal(open_meta(kHalf, with(1, "other", {4}))).find("\" is in 1 of 2 files"), std::string::npos);
  EXPECT_EQ(meta_refusal(open_meta(kHalf, with(1, "norm.weight", {5}))),
            R"(: tensor "norm.weight": parts F32 [4] and F32 [5])");
  EXPECT_EQ(meta_refusal(open_meta(kHalf, with(2, "layers.0.attention.wk.weight", {2, 3}))),
            R"(: tensor "layers.0.attention.wk.weight": parts F32 [2, 4] and F32 [2, 3])");
  EXPECT_EQ(meta_refusal(open_meta(kHalf, with(2, "layers.0.attention.wk.weight", {8}))),
            R"(: tensor "layers.0.attention.wk.weight": parts F32 [2, 4] and F32 [8])");
  EXPECT_EQ(meta_refusal(open_meta(kHalf, with(3, "layers.0.attention.wo.weight", {3, 2}))),
            R"(: tensor "layers.0.attention.wo.weight": parts F32 [4, 2] and F32 [3, 2])");
  EXPECT_EQ(meta_refusal(open_meta(kHalf, kHalf, R"({"dim":5,"n_layers":1,"n_heads":2})")),
            "/params.json: 2 heads do not divide a width of 5");
  EXPECT_EQ(meta_refusal(open_meta(kHalf, kHalf, "[]")), "/params.json: no object");
  for (const char* name : {"dim", "n_layers", "n_heads"}) {
    Json params = Json::parse(kParams);
    params.erase(name);
    EXPECT_EQ(meta_refusal(open_meta(kHalf, kHalf, params.dump())), fmt::format("/params.json: no {}", name));
    params[name] = 0;
    EXPECT_NE(meta_refusal(open_meta(kHalf, kHalf, params.dump())).find(fmt::format("{} is 0, want", name)),
              std::string::npos);
  }
  const NamedShapes no_table = {kHalf.begin() + 1, kHalf.end()};
  EXPECT_EQ(meta_refusal(open_meta(no_table, no_table)), "/params.json: no matrix tok_embeddings.weight");
  EXPECT_EQ(meta_refusal(Checkpoint::open(write_folder("meta", {{"consolidated.00.pth", "x"}}))),
            ": no params.json beside consolidated.00.pth");
}

}  // namespace
}  // namespace tessera::convert
