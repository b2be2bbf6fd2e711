// Files of PLaMo models: the first lines of tokenizer.jsonl, which are special tokens and bytes, and a small PLaMo 3.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "tests/convert/hub_folder.h"

namespace tessera::testing {

inline constexpr size_t kPlamoFirstByte = 5, kPlamoFirst = kPlamoFirstByte + 256;

inline std::string plamo_lines() {
  std::string lines =
      "[\"<|plamo:unk|>\", 0.0, \"UNKNOWN\"]\n[\"<|plamo:bos|>\", 0.0, \"CONTROL\"]\n"
      "[\"<|plamo:eos|>\", 0.0, \"CONTROL\"]\n[\"<|plamo:pad|>\", 0.0, \"CONTROL\"]\n"
      "[\"<|plamo:op|>\", 0.0, \"NORMAL\"]\n";
  for (size_t byte = 0; byte < 256; ++byte) lines += fmt::format("[\"<0x{:02X}>\", 0.0, \"BYTE\"]\n", byte);
  return lines;
}

/// A PLaMo 3 with two layers: embedding 64, FFN 96, 4 heads of 16, of which 2 are KV heads.
inline HubFolder hub_plamo3(size_t n_tokens) {
  const auto n = static_cast<int64_t>(n_tokens);
  HubFolder folder;
  folder.config = fmt::format(
      R"({{"architectures": ["Plamo3ForCausalLM"], "hidden_size": 64, "intermediate_size": 96, "head_dim": 16,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": {}, "window_size": 16,
      "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "rope_theta": 10000, "tie_word_embeddings": true}})",
      n);
  folder.add("model.embed_tokens.weight", {n, 64});
  folder.add("model.norm.weight", {64});
  for (const std::string layer : {"model.layers.layers.0.", "model.layers.layers.1."}) {
    folder.add(layer + "pre_mixer_norm.weight", {64});
    folder.add(layer + "post_mixer_norm.weight", {64});
    folder.add(layer + "pre_mlp_norm.weight", {64});
    folder.add(layer + "post_mlp_norm.weight", {64});
    folder.add(layer + "mixer.qkv_proj.weight", {128, 64});
    folder.add(layer + "mixer.o_proj.weight", {64, 64});
    folder.add(layer + "mixer.q_norm.weight", {16});
    folder.add(layer + "mixer.k_norm.weight", {16});
    folder.add(layer + "mlp.gate_up_proj.weight", {192, 64});
    folder.add(layer + "mlp.down_proj.weight", {64, 96});
  }
  return folder;
}

}  // namespace tessera::testing
