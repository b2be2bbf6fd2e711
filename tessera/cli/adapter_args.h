// Flags that add adapters to a model: LoRA files and control vectors, each with its scale.
#pragma once

#include <vector>

#include "tessera/cli/args.h"
#include "tessera/engine/loaded_model.h"

namespace tessera::cli {

/// Adds --lora and --lora-scaled. `loras` gets the files in the order of the flags.
void add_lora_flags(FlagTable& table, std::vector<AdapterSource>& loras);

/// Adds the LoRA flags and the flags of control vectors.
void add_adapter_flags(FlagTable& table, AdapterSources& adapters);

}  // namespace tessera::cli
