// The flags that add adapters to a model: LoRA files and control vectors, each with its scale.
#pragma once

#include <vector>

#include "tessera/cli/args.h"
#include "tessera/engine/loaded_model.h"

namespace tessera::cli {

/// --lora and --lora-scaled, in the order in which they are given.
void add_lora_flags(FlagTable& table, std::vector<AdapterSource>& loras);

/// These, and those of control vectors.
void add_adapter_flags(FlagTable& table, AdapterSources& adapters);

}  // namespace tessera::cli
