// The names of the specifications in tests/data/arch_specs: one or more per architecture (tests/support/spec_model.h).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace tessera::testing {

inline constexpr const char* kArchFiles[] = {
    "bloom-dense",    "cohere2-dense", "command-r-dense", "deepseek2-moe",  "exaone4-dense",       "falcon-dense",
    "gemma-dense",    "gemma2-dense",  "gemma3-dense",    "glm4-dense",     "glm4moe-moe",         "gpt-oss-moe",
    "gpt2-dense",     "gptneox-dense", "granite-dense",   "granite-moe",    "granitehybrid-dense", "granitemoe-dense",
    "granitemoe-moe", "jamba-dense",   "lfm2-dense",      "lfm2moe-moe",    "llama-dense",         "llama-moe",
    "mamba-dense",    "mamba2-dense",  "mistral3-dense",  "mistral3-moe",   "mpt-dense",           "nemotron-dense",
    "olmo2-dense",    "olmoe-moe",     "phi2-dense",      "phi3-dense",     "qwen2-dense",         "qwen2moe-moe",
    "qwen3-dense",    "qwen3moe-moe",  "smollm3-dense",   "stablelm-dense", "starcoder2-dense"};

/// Converts a file's name to the name of a test.
inline std::string arch_file_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace tessera::testing
