// Tiny models with a prediction head: models of the tests, to which a head is added.
#pragma once

#include <string>
#include <vector>

#include "tests/support/float_model.h"
#include "tests/support/spec_model.h"
#include "tests/support/tiny_qwen.h"

namespace tessera::testing {

/// Models to which a head can be added: the architectures whose heads are supported.
inline constexpr const char* kHeadModels[] = {"glm4moe-moe", "deepseek2-moe", "qwen3next", "qwen35", "qwen35moe",
                                              "cohere2moe",  "step35",        "mimo2",     "hy_v3"};
/// Models whose heads have three blocks.
inline constexpr const char* kBlockModels[] = {"step35:3", "mimo2:3", "hy_v3:3"};

/// Two layers of attention and of a dense block, of an architecture with a flag per layer that tells which have a
/// window, or of hy_v3, which has none. The window is longer than the texts of the tests.
inline tiny::TinyModel tiny_window_model(const std::string& architecture) {
  using namespace tiny;
  TinyModel m(architecture, 2);
  const AttentionRules rules{.n_heads = 4, .n_heads_kv = 2, .has_norms = architecture == "hy_v3"};
  m.key("attention.head_count", rules.n_heads);
  m.key("attention.head_count_kv", rules.n_heads_kv);
  m.key("attention.key_length", rules.dim);
  m.key("attention.value_length", rules.dim);
  m.key("attention.sliding_window", 100);
  m.keys("attention.sliding_window_pattern", {1, 0});
  m.key("feed_forward_length", 20);
  m.norm("output_norm", {kWidth});
  for (int64_t il = 0; il < 2; ++il) {
    m.norm(block(il) + "attn_norm", {kWidth});
    m.norm(block(il) + "ffn_norm", {kWidth});
    add_attention(m, block(il), rules);
    add_ffn(m, block(il), "", 20);
  }
  return m;
}

/// The path of one of kHeadModels, without a head.
inline std::string headless_model(const std::string& name) {
  if (name == "qwen3next") return tiny::tiny_qwen(tiny::Qwen::next).write("qwen3next.gguf");
  if (name == "qwen35") return tiny::tiny_qwen(tiny::Qwen::dense35).write("qwen35.gguf");
  if (name == "qwen35moe") return tiny::tiny_qwen(tiny::Qwen::moe35).write("qwen35moe.gguf");
  if (name == "step35" || name == "mimo2" || name == "hy_v3") return tiny_window_model(name).write(name + ".gguf");
  if (name == "cohere2moe") {
    tiny::TinyModel m = tiny_window_model(name);
    m.key("logit_scale", 0.5f);
    m.key("expert_count", tiny::kExperts);
    m.key("expert_used_count", 2);
    m.key("expert_feed_forward_length", 10);
    for (int64_t il = 0; il < 2; ++il) tiny::add_experts(m, tiny::block(il), 10);
    return m.write("cohere2moe.gguf");
  }
  return arch_model(name);
}

/// A weight that the head has or takes from the model.
enum class HeadWeights : uint8_t { own, of_model };

/// Adds a head to a model of kHeadModels: blocks like that of `donor`, a layer with attention, and random weights.
inline void add_head(FloatModel& m, int donor, HeadWeights weights, uint32_t n_blocks = 1) {
  const std::string arch(m.file->metadata().get<std::string_view>("general.architecture").value());
  const auto n_layers = m.file->metadata().get<uint32_t>(arch + ".block_count").value();
  m.keys.set(arch + ".block_count", n_layers + n_blocks);
  m.keys.set(arch + ".nextn_predict_layers", n_blocks);
  if (m.file->metadata().find(arch + ".attention.recurrent_layers") != nullptr && arch == "qwen35moe")
    m.keys.set_array(arch + ".attention.recurrent_layers", std::vector<int32_t>{1, 0, 1, 0});
  std::vector<int32_t> windows(n_layers + n_blocks);
  windows[0] = 1;
  if (m.file->metadata().find(arch + ".attention.sliding_window_pattern") != nullptr)
    m.keys.set_array(arch + ".attention.sliding_window_pattern", windows);
  const std::string from = "blk." + std::to_string(donor) + ".";
  std::vector<FloatModel::Entry> donated;
  for (const FloatModel::Entry& entry : m.tensors)
    if (entry.name.starts_with(from)) donated.push_back(entry);
  const Shape table = m.at("token_embd.weight").shape;
  const int64_t n_embd = table[0];
  const double unit = std::sqrt(3.0 / static_cast<double>(n_embd));
  for (uint32_t i = 0; i < n_blocks; ++i) {
    const std::string to = "blk." + std::to_string(n_layers + i) + ".";
    for (FloatModel::Entry entry : donated) {
      entry.name.replace(0, from.size(), to);
      // Other weights than the donor's and those of the other blocks.
      std::ranges::reverse(entry.values);
      std::ranges::rotate(entry.values, entry.values.begin() + static_cast<ptrdiff_t>(i % entry.values.size()));
      m.tensors.push_back(std::move(entry));
    }
    const auto add = [&](const std::string& name, const Shape& shape, double mean, double scale) {
      const std::string whole = to + "nextn." + name + ".weight";
      m.tensors.push_back({whole, shape, spec_weights(whole, static_cast<size_t>(shape.n_elements()), mean, scale, 7)});
    };
    add("eh_proj", {2 * n_embd, n_embd}, 0, unit / 2);
    add("enorm", {n_embd}, 1, 0.4);
    add("hnorm", {n_embd}, 1, 0.4);
    if (weights == HeadWeights::of_model) continue;
    add("embed_tokens", table, 0, 1.2);
    add("shared_head_head", table, 0, unit);
    add("shared_head_norm", {n_embd}, 1, 0.4);
  }
}

/// The path of a model of kHeadModels or kBlockModels with a random head.
inline std::string head_model(const std::string& name, HeadWeights weights = HeadWeights::own) {
  const size_t colon = name.find(':');
  const std::string base = name.substr(0, colon), count = colon == std::string::npos ? "1" : name.substr(colon + 1);
  FloatModel m(headless_model(base));
  add_head(m, 1, weights, static_cast<uint32_t>(std::stoul(count)));
  return m.write(base + "-head-" + count + ".gguf");
}

/// The path of a glm4moe model whose layers do nothing, so that a token depends on the token before it alone. Its head
/// computes the same, and so all its guesses of a greedy text are right, but those of the block `wrong`.
inline std::string copying_head_model(uint32_t n_blocks = 1, int wrong = -1) {
  FloatModel m(headless_model("glm4moe-moe"));
  const auto n_layers = m.file->metadata().get<uint32_t>("glm4moe.block_count").value();
  add_head(m, 1, HeadWeights::of_model, n_blocks);
  m.drop_scales();
  for (FloatModel::Entry& entry : m.tensors) {
    const auto ends = [&](std::string_view name) { return entry.name.find(name) != std::string::npos; };
    if (ends("attn_output.weight") || ends("ffn_down")) std::ranges::fill(entry.values, 0.0f);
    if (ends("enorm")) std::ranges::fill(entry.values, 1.0f);
    if (!ends("eh_proj")) continue;
    std::ranges::fill(entry.values, 0.0f);
    const auto n_out = static_cast<size_t>(entry.shape[1]);
    const bool is_wrong = entry.name.starts_with("blk." + std::to_string(static_cast<int>(n_layers) + wrong) + ".");
    for (size_t i = 0; i < n_out; ++i)
      entry.values[i * 2 * n_out + (is_wrong && wrong >= 0 ? n_out - 1 - i : i)] = 1.0f;
  }
  return m.write("copying-head-" + std::to_string(n_blocks) + "-" + std::to_string(wrong) + ".gguf");
}

/// The path of a model with the vocabulary of story_model() and a head like that of copying_head_model().
inline std::string story_head_model(uint32_t n_blocks = 1) {
  FloatModel story(story_model());
  FloatModel m(copying_head_model(n_blocks));
  for (const auto& entry : story.file->metadata().entries())
    if (entry.key.starts_with("tokenizer.")) EXPECT_OK(m.keys.set_value(std::string(entry.key), entry.value));
  const auto n_vocab = story.at("token_embd.weight").shape[1];
  m.keys.set("glm4moe.vocab_size", static_cast<uint32_t>(n_vocab));
  for (const char* name : {"token_embd.weight", "output.weight"}) {
    FloatModel::Entry& table = m.at(name);
    table.shape[1] = n_vocab;
    table.values = spec_weights(name, static_cast<size_t>(table.shape.n_elements()), 0, 0.5, 3);
  }
  return m.write("story-head-" + std::to_string(n_blocks) + ".gguf");
}

}  // namespace tessera::testing
