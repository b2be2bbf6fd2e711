// Checkpoints as Meta publishes llamas: params.json, and consolidated.00.pth, .01 ..., each with a part of every
// matrix.
#pragma once

#include <span>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/convert/source/bare_model.h"
#include "tessera/convert/source/hub_config.h"

namespace tessera::convert {

/// The tensors of a file, whose bytes must outlive them.
struct FilePart {
  std::vector<StoredTensor> tensors{};
  std::span<const std::byte> bytes{};
  const MappedFile* map = nullptr;  // that has the bytes, if a file does
};

/// Joins tensors of equal names: those of wo and w2 side by side, other matrices one below the other, and the token
/// table in the way that gives it a width of n_embd. Vectors are whole in each file, so the first one counts.
/// Errors: format (a tensor that a file lacks; other types or shapes).
Result<std::vector<StoredTensor>> join_parts(std::span<const FilePart> parts, int64_t n_embd);

/// The model of params.json, whose tensors are these. The file lacks the context length, which follows from what it
/// has. Errors: those of HubConfig; format (shapes).
Result<BareModel> model_of_params(const HubConfig& params, std::span<const StoredTensor> tensors);

/// dim of params.json. Errors: those of HubConfig.
Result<int64_t> width_of_params(const HubConfig& params);

}  // namespace tessera::convert
