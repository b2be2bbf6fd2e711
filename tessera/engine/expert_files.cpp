#include "tessera/engine/expert_files.h"

#include <algorithm>

#include "tessera/base/index.h"

namespace tessera {

namespace {

constexpr int64_t kLeastSlots = 2;  // one to compute with, one to read into

}  // namespace

Result<std::vector<StreamedWeight>> divide_slots(const StreamedBufferType& type, std::span<const Tensor* const> weights,
                                                 uint64_t bytes) {
  std::vector<StreamedWeight> slots;
  std::vector<size_t> slot_bytes;
  int64_t most = 0;
  for (const Tensor* weight : weights) {
    const int64_t n = weight->shape()[2];
    most = std::max(most, n);
    slots.push_back({weight, std::min(kLeastSlots, n)});
    TESSERA_ASSIGN(slot_bytes.emplace_back(), type.slot_bytes(weight->dtype, weight->shape()));
  }
  TESSERA_ASSIGN(const size_t least, type.cache_bytes(slots));
  uint64_t left = bytes - std::min<uint64_t>(bytes, least);
  for (int64_t n = kLeastSlots + 1; n <= most; ++n)
    for (size_t i = 0; i < slots.size(); ++i) {
      if (n > weights[i]->shape()[2]) continue;
      if (slot_bytes[i] > left) return slots;
      slots[i].n_slots = n;
      left -= slot_bytes[i];
    }
  return slots;
}

Result<std::unique_ptr<ExpertFiles>> ExpertFiles::open(const ModelFiles& files, std::vector<const Weight*> weights,
                                                       bool direct) {
  std::unique_ptr<ExpertFiles> source(new ExpertFiles(files, std::move(weights)));
  for (const auto& file : files.files()) {
    source->direct_.emplace_back();
    if (!direct || file->file() == nullptr) continue;
    TESSERA_ASSIGN(DirectFile opened, DirectFile::open(*file->file()));
    source->direct_.back().emplace(std::move(opened));
  }
  return source;
}

Result<std::span<const std::byte>> ExpertFiles::read(size_t index, size_t offset, size_t n,
                                                     std::span<std::byte> staging) {
  const ModelFiles::Tensor& tensor = *weights_[index]->source;
  const uint64_t at = tensor.info.file_offset + offset;
  if (direct_[tensor.file]) return direct_[tensor.file]->read(at, n, staging);
  const File* file = files_.files()[tensor.file]->file();
  if (file == nullptr) return files_.data(tensor).subspan(offset, n);
  TESSERA_TRY(file->read_at(at, staging.first(n)));
  return std::span<const std::byte>(staging.first(n));
}

}  // namespace tessera
