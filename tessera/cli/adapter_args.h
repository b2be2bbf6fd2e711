// The flags that add adapters to a model: LoRA files and control vectors, each with its scale.
#pragma once

#include <string>
#include <vector>

#include "tessera/cli/args.h"
#include "tessera/engine/session.h"

namespace tessera::cli {

struct ScaledFile {
  std::string path;
  float scale = 1.0f;
};

/// --lora and --lora-scaled, in the order in which they are given.
void add_lora_flags(FlagTable& table, std::vector<ScaledFile>& loras);

struct AdapterArgs {
  std::vector<ScaledFile> loras, control_vectors;
  LayerSpan layers{};  // that control vectors are added to

  void add_to(FlagTable& table);
};

/// Opens what the flags name for an opened model; loads nothing. Errors: those of Adapter.
Result<std::vector<SessionAdapter>> open_adapters(const AdapterArgs& args, const Engine& engine);

/// Errors: those of Adapter::load().
Result<> load_adapters(std::span<const SessionAdapter> adapters);

}  // namespace tessera::cli
