// Counts over the weights of a model's files.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "tessera/gguf/split.h"

namespace tessera {

struct FormatShare {
  uint64_t n_tensors = 0;
  uint64_t n_bytes = 0;
};

/// The tensors and bytes of each format.
std::map<DType, FormatShare> shares_of_formats(const ModelFiles& files);

/// The number of elements of all tensors.
uint64_t count_parameters(const ModelFiles& files);

/// The name of the format that most bytes of the weights have; "" without tensors.
std::string_view main_format(const ModelFiles& files);

}  // namespace tessera
