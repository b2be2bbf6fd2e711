// Small diffusion language models with a vocabulary: the reference files, which have none, with tokens added.
#pragma once

#include <string>
#include <vector>

#include "tests/support/editable_model.h"
#include "tests/support/spec_model.h"

namespace tessera::testing {

inline constexpr int32_t kDiffusionEnd = 2, kDiffusionMask = 3;
inline constexpr int32_t kFirstDiffusionWord = 4;
inline constexpr int32_t kDiffusionVocab = 256;

/// Tokens: <unk>, <s>, </s>, <mask>, the letters a to z, then words of capital letters. spec: "dream-dense",
/// "llada-dense" or "rnd1-moe". No key "diffusion.shift_logits" is set.
inline EditableModel diffusion_model(const std::string& spec) {
  EditableModel model(arch_model(spec));
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "<mask>"};
  std::vector<int32_t> types = {2, 3, 3, 3};
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  while (tokens.size() < kDiffusionVocab) {
    const auto i = static_cast<int>(tokens.size());
    tokens.push_back({static_cast<char>('A' + i / 26), static_cast<char>('A' + i % 26)});
  }
  types.resize(tokens.size(), 1);
  model.builder.set("tokenizer.ggml.model", "llama");
  model.builder.set_array("tokenizer.ggml.tokens", tokens);
  model.builder.set_array("tokenizer.ggml.token_type", types);
  model.builder.set_array("tokenizer.ggml.scores", std::vector<float>(tokens.size(), -1.0f));
  model.builder.set("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(kDiffusionEnd));
  model.builder.set("tokenizer.ggml.mask_token_id", static_cast<uint32_t>(kDiffusionMask));
  model.builder.set("tokenizer.ggml.add_bos_token", false);
  model.builder.set("tokenizer.ggml.add_space_prefix", false);
  return model;
}

}  // namespace tessera::testing
