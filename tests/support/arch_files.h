// The names of the specifications in tests/data/arch_specs: one or more per architecture (tests/support/spec_model.h).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace tessera::testing {

inline constexpr const char* kArchFiles[] = {"arcee-dense",         "arctic-moe",      "baichuan-dense",
                                             "bailingmoe-moe",      "bailingmoe2-moe", "bloom-dense",
                                             "codeshell-dense",     "cogvlm-dense",    "cohere2-dense",
                                             "command-r-dense",     "dbrx-moe",        "deepseek-moe",
                                             "deepseek2-moe",       "dots1-moe",       "dream-dense",
                                             "ernie4_5-moe",        "exaone4-dense",   "falcon-dense",
                                             "falcon-h1-dense",     "gemma-dense",     "gemma2-dense",
                                             "gemma3-dense",        "glm4-dense",      "glm4moe-moe",
                                             "gpt-oss-moe",         "gpt2-dense",      "gptneox-dense",
                                             "granite-dense",       "granite-moe",     "granitehybrid-dense",
                                             "granitemoe-dense",    "granitemoe-moe",  "grok-moe",
                                             "hunyuan-dense-dense", "internlm2-dense", "jais-dense",
                                             "jamba-dense",         "kimi-linear-moe", "lfm2-dense",
                                             "lfm2moe-moe",         "llada-dense",     "llama-dense",
                                             "llama-moe",           "llama4-moe",      "maincoder-dense",
                                             "mamba-dense",         "mamba2-dense",    "minicpm-dense",
                                             "minicpm-moe",         "minimax-m2-moe",  "mistral3-dense",
                                             "mistral3-moe",        "mistral4-moe",    "mpt-dense",
                                             "nemotron-dense",      "olmo-dense",      "olmo2-dense",
                                             "olmoe-moe",           "orion-dense",     "pangu-embedded-dense",
                                             "phi2-dense",          "phi3-dense",      "phimoe-moe",
                                             "plamo-dense",         "qwen-dense",      "qwen2-dense",
                                             "qwen2moe-moe",        "qwen2vl-dense",   "qwen3-dense",
                                             "qwen3moe-moe",        "qwen3vl-dense",   "refact-dense",
                                             "refact-moe",          "rnd1-moe",        "smallthinker-moe",
                                             "smollm3-dense",       "stablelm-dense",  "starcoder-dense",
                                             "starcoder2-dense"};

/// Converts a file's name to the name of a test.
inline std::string arch_file_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace tessera::testing
