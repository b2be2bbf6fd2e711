// Facts about a model and its memory as several commands show them.
#pragma once

#include <map>
#include <string>

#include "tessera/engine/engine.h"
#include "tessera/engine/memory_report.h"
#include "tessera/gguf/split.h"

namespace tessera::cli {

struct FormatShare {
  uint64_t n_tensors = 0;
  uint64_t n_bytes = 0;
};

/// The tensors and bytes of each format.
std::map<DType, FormatShare> shares_of_formats(const ModelFiles& files);

uint64_t count_parameters(const ModelFiles& files);

/// The name of a model for people: of its metadata, else its architecture. The text has no control characters.
std::string model_name(const Engine& engine);

/// The format that most bytes of the weights have.
std::string_view main_format(const ModelFiles& files);

/// "weights", "kv", "compute" or "output".
std::string_view purpose_of(MemoryPart::Kind kind);

/// A table of the buffers and their total: device, buffer, purpose, bytes, size.
std::string memory_table(const MemoryReport& report);

}  // namespace tessera::cli
