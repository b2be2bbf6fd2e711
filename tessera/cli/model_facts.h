// Facts about a model and its memory as several commands show them.
#pragma once

#include <string>

#include "tessera/engine/engine.h"
#include "tessera/engine/memory_report.h"
#include "tessera/gguf/weight_facts.h"

namespace tessera::cli {

/// The name of a model for people: of its metadata, else its architecture. The text has no control characters.
std::string model_name(const Engine& engine);

/// "weights", "kv", "compute" or "output".
std::string_view purpose_of(MemoryPart::Kind kind);

/// A table of the buffers and their total: device, buffer, purpose, bytes, size.
std::string memory_table(const MemoryReport& report);

}  // namespace tessera::cli
