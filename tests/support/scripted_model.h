// A model whose replies a test chooses: each token has one successor, and attention and feed-forward are zero. For
// tests of conversations, where random weights would never write a tool call or Markdown.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/gguf/writer.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// The pieces of a reply, one token each. No two pieces of a model are equal.
struct ScriptedReply {
  std::vector<std::string> pieces;
  bool is_endless = false;  // the first piece follows the last one
};

/// The template of scripted models: the model gives its N-th reply after N answers.
inline constexpr std::string_view kScriptedTemplate =
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{{ tools and tools|tojson }}{# <tool_call> "
    "<think> "
    "</think> #}{% if add_generation_prompt %}"
    "<reply{{ messages|selectattr('role', 'equalto', 'assistant')|list|length }}>{% endif %}";

/// Writes a model file, with kScriptedTemplate as its chat template, and returns its path. Sampling must be greedy.
inline std::string scripted_model(const std::vector<ScriptedReply>& replies, const std::string& name) {
  constexpr int32_t kEnd = 2, kHead = 64;
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte)), types.push_back(6);
  std::vector<int32_t> successors(tokens.size(), kEnd);
  const auto add_token = [&](const std::string& text, int32_t type) {
    for (const std::string& other : tokens) EXPECT_NE(text, other) << "each piece has one successor";
    tokens.push_back(text);
    types.push_back(type);
    successors.push_back(static_cast<int32_t>(tokens.size()));
  };
  for (size_t i = 0; i < replies.size(); ++i) {
    add_token(fmt::format("<reply{}>", i), 3);
    const auto first = static_cast<int32_t>(tokens.size());
    for (const std::string& piece : replies[i].pieces) add_token(piece, 1);
    successors.back() = replies[i].is_endless ? first : kEnd;
  }

  const auto n_vocab = static_cast<int64_t>(tokens.size());
  const int64_t n_embd = (n_vocab + kHead - 1) / kHead * kHead;
  GgufBuilder builder;
  const auto key = [&](const std::string& key_name, int64_t value) {
    builder.set("llama." + key_name, static_cast<uint32_t>(value));
  };
  builder.set("general.architecture", "llama");
  builder.set("general.name", "scripted");
  key("context_length", 100000);
  key("embedding_length", n_embd);
  key("block_count", 1);
  key("feed_forward_length", kHead);
  key("attention.head_count", n_embd / kHead);
  builder.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  builder.set("tokenizer.ggml.model", "llama");
  builder.set("tokenizer.ggml.add_bos_token", false);
  builder.set("tokenizer.ggml.add_space_prefix", false);
  builder.set("tokenizer.chat_template", kScriptedTemplate);
  builder.set_array("tokenizer.ggml.tokens", std::vector<std::string_view>(tokens.begin(), tokens.end()));
  builder.set_array("tokenizer.ggml.token_type", types);
  builder.set_array("tokenizer.ggml.scores", std::vector<float>(tokens.size(), 0.0f));

  std::vector<std::vector<float>> weights;
  const auto add = [&](const std::string& tensor, int64_t n_in, int64_t n_out, float value = 0.0f) {
    EXPECT_OK(builder.add_tensor(tensor, DType::f32, n_out == 0 ? Shape{n_in} : Shape{n_in, n_out}));
    weights.emplace_back(static_cast<size_t>(n_in * std::max<int64_t>(n_out, 1)), value);
    return &weights.back();
  };
  const auto at = [&](int32_t row, int32_t column) { return static_cast<size_t>(row * n_embd + column); };
  std::vector<float>& embeddings = *add("token_embd.weight", n_embd, n_vocab);
  for (int32_t i = 0; i < n_vocab; ++i) embeddings[at(i, i)] = 1;
  std::vector<float>& output = *add("output.weight", n_embd, n_vocab);
  for (int32_t i = 0; i < n_vocab; ++i) output[at(successors[static_cast<size_t>(i)], i)] = 1;
  add("output_norm.weight", n_embd, 0, 1.0f);
  for (const char* norm : {"attn_norm", "ffn_norm"}) add(fmt::format("blk.0.{}.weight", norm), n_embd, 0, 1.0f);
  for (const char* matrix : {"attn_q", "attn_k", "attn_v", "attn_output"})
    add(fmt::format("blk.0.{}.weight", matrix), n_embd, n_embd);
  for (const char* matrix : {"ffn_gate", "ffn_up"}) add(fmt::format("blk.0.{}.weight", matrix), n_embd, kHead);
  add("blk.0.ffn_down.weight", kHead, n_embd);

  std::vector<std::span<const std::byte>> data;
  for (const std::vector<float>& values : weights) data.push_back(std::as_bytes(std::span(values)));
  const auto bytes = gguf_to_bytes(builder, data);
  EXPECT_OK(bytes);
  return write_temporary(name, std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
}

}  // namespace tessera::testing
