// Experts that stay in a model's files: their bytes for a device's cache (backend/streamed_weights.h), and how many of
// each weight a cache of a given size holds.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/backend/streamed_weights.h"
#include "tessera/engine/placement.h"
#include "tessera/gguf/split.h"

namespace tessera {

/// Divides `bytes` among the weights: each gets the same number of slots, as far as it has so many matrices. What is
/// left gives the first weights one slot more. No weight gets less than two slots, so the cache may need more bytes.
/// Errors: those of StreamedBufferType::cache_bytes().
Result<std::vector<StreamedWeight>> divide_slots(const StreamedBufferType& type, std::span<const Tensor* const> weights,
                                                 uint64_t bytes);

class ExpertFiles final : public StreamSource {
 public:
  /// direct: reads pass the page cache by, where the file system can. The files and weights must outlive the source.
  /// Errors: io.
  static Result<std::unique_ptr<ExpertFiles>> open(const ModelFiles& files, std::vector<const Weight*> weights,
                                                   bool direct);

  Result<std::span<const std::byte>> read(size_t index, size_t offset, size_t n, std::span<std::byte> staging) override;

 private:
  ExpertFiles(const ModelFiles& files, std::vector<const Weight*> weights)
      : files_(files), weights_(std::move(weights)) {}

  const ModelFiles& files_;
  std::vector<const Weight*> weights_;
  std::vector<std::optional<DirectFile>> direct_;  // by file
};

}  // namespace tessera
