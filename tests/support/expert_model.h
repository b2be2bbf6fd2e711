// A small mixture of experts most of whose bytes are experts, with a vocabulary: for tests of experts that stay in the
// file.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera::testing {

inline constexpr int64_t kManyExperts = 32;  // of which a token uses 2, in 2 layers; 19 MB

/// Writes arch_model("qwen3moe-moe") with 32 experts instead of 4 and with the vocabulary of story_model().
inline std::string many_experts_model(const std::string& name) {
  const auto file = GgufFile::open(arch_model("qwen3moe-moe")).value();
  const auto story = GgufFile::open(story_model()).value();
  GgufBuilder builder;
  EXPECT_OK(builder.set_all(file->metadata()));
  for (const auto& [key, value] : story->metadata().entries())
    if (key.starts_with("tokenizer.")) EXPECT_OK(builder.set_value(key, value));
  builder.set("qwen3moe.expert_count", static_cast<uint32_t>(kManyExperts));
  builder.set("qwen3moe.vocab_size", uint32_t{512});
  builder.set("qwen3moe.context_length", uint32_t{2048});
  std::vector<std::vector<std::byte>> data;
  for (const GgufTensor& tensor : file->tensors()) {
    Shape shape = tensor.shape;
    const bool is_vocabulary = tensor.name == "token_embd.weight" || tensor.name == "output.weight";
    int last = 3;
    while (last > 0 && shape[last] == 1) --last;
    if (tensor.name.find("_exps.") != std::string::npos || tensor.name.find("gate_inp") != std::string::npos)
      shape[last] = kManyExperts;
    if (is_vocabulary) shape[1] = 512;
    EXPECT_OK(builder.add_tensor(tensor.name, tensor.dtype, shape));
    // Copies of the values, each turned by some more, so that no two experts are equal.
    const auto bytes = file->data(tensor);
    const auto n_copies = static_cast<size_t>(shape.n_elements() / tensor.shape.n_elements());
    for (size_t copy = 0; copy < n_copies; ++copy) {
      if (copy == 0) data.emplace_back();
      std::vector<std::byte> turned(bytes.begin(), bytes.end());
      std::ranges::rotate(turned, turned.begin() + static_cast<int64_t>(copy * 28 % turned.size()));
      data.back().insert(data.back().end(), turned.begin(), turned.end());
    }
  }
  const std::vector<std::span<const std::byte>> spans(data.begin(), data.end());
  const auto bytes = gguf_to_bytes(builder, spans).value();
  return write_temporary(name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace tessera::testing
