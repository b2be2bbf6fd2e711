// Draft models in files of their own that take hidden states of another model, with random weights: eagle3, and the
// assistant of Gemma 4 with a model for which it guesses.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "tests/support/float_model.h"
#include "tests/support/tiny_models.h"

namespace tessera::testing {

/// An eagle3 file for a target.
struct EagleFile {
  int64_t width = 24;  // n_embd of the draft; without tables of its own it is the target's
  std::vector<int32_t> layers{0, 1, 2};
  bool has_tables = true;         // token_embd and output
  std::vector<int64_t> tokens{};  // d2t; empty: none
  bool norms_states = false;      // enc.output_norm
  bool adds_normed = false;       // norm_before_residual
  int64_t target_width = 0;       // that the file names; 0: the target's
  int64_t n_vocab = 0;            // likewise
};

inline constexpr tiny::AttentionRules kEagleRules{
    .n_heads = 4, .n_heads_kv = 2, .dim = 8, .n_rot = 8, .is_adjacent = true};

/// Its weights for a target, with the keys of the target's tokenizer.
inline tiny::TinyModel eagle_weights(const std::string& target, const EagleFile& file) {
  FloatModel other(target);
  const Shape table = other.at("token_embd.weight").shape;
  const int64_t width = file.width, n_in = 3 * (file.target_width > 0 ? file.target_width : table[0]);
  const int64_t n_vocab = file.n_vocab > 0 ? file.n_vocab : table[1];
  tiny::TinyModel m("eagle3", 1, 5, n_vocab);
  for (const auto& entry : other.file->metadata().entries())
    if (entry.key.starts_with("tokenizer.")) EXPECT_OK(m.builder.set_value(std::string(entry.key), entry.value));
  m.key("embedding_length", width);
  m.key("feed_forward_length", 20);
  m.key("attention.head_count", kEagleRules.n_heads);
  m.key("attention.head_count_kv", kEagleRules.n_heads_kv);
  m.key("attention.key_length", kEagleRules.dim);
  m.key("attention.value_length", kEagleRules.dim);
  m.key("target_hidden_size", n_in / 3);
  m.keys("target_layers", file.layers);
  if (file.adds_normed) m.key("norm_before_residual", true);
  m.weights.clear();
  m.shapes.clear();
  const std::string blk = tiny::block(0);
  for (const char* name : {"attn_norm", "attn_norm_2", "ffn_norm"}) m.norm(blk + name, {width});
  const int64_t n_q = kEagleRules.n_heads * kEagleRules.dim, n_kv = kEagleRules.n_heads_kv * kEagleRules.dim;
  m.add(blk + "attn_q.weight", {2 * width, n_q});
  m.add(blk + "attn_k.weight", {2 * width, n_kv});
  m.add(blk + "attn_v.weight", {2 * width, n_kv});
  m.add(blk + "attn_output.weight", {n_q, width});
  m.add(blk + "ffn_gate.weight", {width, 20});
  m.add(blk + "ffn_up.weight", {width, 20});
  m.add(blk + "ffn_down.weight", {20, width});
  m.add("fc.weight", {n_in, width});
  m.norm("output_norm", {width});
  if (file.norms_states) m.norm("enc.output_norm", {n_in});
  if (!file.has_tables) return m;
  m.add("token_embd.weight", {width, n_vocab});
  m.add("output.weight", {width, file.tokens.empty() ? n_vocab : static_cast<int64_t>(file.tokens.size())});
  return m;
}

/// Writes a model, with d2t if there are tokens.
inline std::string write_eagle(tiny::TinyModel m, const EagleFile& file, const std::string& name) {
  if (file.tokens.empty()) return m.write(name);
  std::vector<std::span<const std::byte>> data;
  for (const auto& [tensor, values] : m.weights) {
    EXPECT_OK(m.builder.add_tensor(tensor, DType::f32, m.shapes[tensor]));
    data.push_back(std::as_bytes(std::span(values)));
  }
  EXPECT_OK(m.builder.add_tensor("d2t", DType::i64, {static_cast<int64_t>(file.tokens.size())}));
  data.push_back(std::as_bytes(std::span(file.tokens)));
  const auto bytes = gguf_to_bytes(m.builder, data);
  EXPECT_OK(bytes);
  return write_temporary(name, std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
}

/// The path of an eagle3 file with random weights for a target.
inline std::string eagle_file(const std::string& target, const EagleFile& file = {}) {
  return write_eagle(eagle_weights(target, file), file, "eagle3.gguf");
}

// --- Gemma 4

/// Heads of layers with a window, and of the others.
inline constexpr tiny::AttentionRules kWindowHeads{.n_heads = 4, .n_heads_kv = 2, .dim = 8, .n_rot = 8, .scale = 1},
    kFullHeads{.n_heads = 4, .n_heads_kv = 2, .dim = 12, .n_rot = 12, .scale = 1};
inline constexpr int64_t kDraftWindow = 10, kAssistantWidth = 16;

inline void add_gemma4_keys(tiny::TinyModel& m, int64_t n_layers, int64_t window) {
  m.key("attention.head_count", kFullHeads.n_heads);
  m.key("attention.head_count_kv", kFullHeads.n_heads_kv);
  m.key("attention.key_length", kFullHeads.dim);
  m.key("attention.value_length", kFullHeads.dim);
  m.key("attention.key_length_swa", kWindowHeads.dim);
  m.key("attention.value_length_swa", kWindowHeads.dim);
  m.key("attention.sliding_window", window);
  m.key("feed_forward_length", 20);
  std::vector<int32_t> pattern(static_cast<size_t>(n_layers));
  for (size_t il = 0; il < pattern.size(); il += 2) pattern[il] = 1;
  m.keys("attention.sliding_window_pattern", pattern);
}

/// Norms, Q and the dense block of a layer; even ones have a window.
inline void add_gemma4_layer(tiny::TinyModel& m, int64_t il, int64_t width) {
  const tiny::AttentionRules& rules = il % 2 == 0 ? kWindowHeads : kFullHeads;
  const std::string blk = tiny::block(il);
  for (const char* name : {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"})
    m.norm(blk + name, {width});
  m.norm(blk + "attn_q_norm", {rules.dim});
  m.add(blk + "attn_q.weight", {width, rules.n_heads * rules.dim});
  m.add(blk + "attn_output.weight", {rules.n_heads * rules.dim, width});
  m.add(blk + "ffn_gate.weight", {width, 20});
  m.add(blk + "ffn_up.weight", {width, 20});
  m.add(blk + "ffn_down.weight", {20, width});
}

/// A gemma4 model of four layers.
inline tiny::TinyModel gemma4_weights() {
  tiny::TinyModel m("gemma4", 4);
  add_gemma4_keys(m, 4, kDraftWindow);
  m.norm("output_norm", {tiny::kWidth});
  for (int64_t il = 0; il < 4; ++il) {
    const tiny::AttentionRules& rules = il % 2 == 0 ? kWindowHeads : kFullHeads;
    const std::string blk = tiny::block(il);
    add_gemma4_layer(m, il, tiny::kWidth);
    m.norm(blk + "attn_k_norm", {rules.dim});
    m.add(blk + "attn_k.weight", {tiny::kWidth, rules.n_heads_kv * rules.dim});
    m.add(blk + "attn_v.weight", {tiny::kWidth, rules.n_heads_kv * rules.dim});
  }
  return m;
}

/// A gemma4-assistant of two layers for that model.
inline tiny::TinyModel assistant_weights(int64_t window = kDraftWindow, int64_t target_width = tiny::kWidth) {
  tiny::TinyModel m("gemma4-assistant", 2, 7);
  m.weights.clear();
  m.shapes.clear();
  m.key("embedding_length", kAssistantWidth);
  m.key("embedding_length_out", target_width);
  add_gemma4_keys(m, 2, window);
  m.add("token_embd.weight", {kAssistantWidth, tiny::kVocab});
  m.norm("output_norm", {kAssistantWidth});
  m.add("nextn.pre_projection.weight", {2 * target_width, kAssistantWidth});
  m.add("nextn.post_projection.weight", {kAssistantWidth, target_width});
  for (int64_t il = 0; il < 2; ++il) {
    add_gemma4_layer(m, il, kAssistantWidth);
    m.add(tiny::block(il) + "layer_output_scale.weight", {1}, 0.2f, 1.0f);
  }
  return m;
}

}  // namespace tessera::testing
