#include "tessera/engine/fingerprint.h"

#include <algorithm>

#include "tessera/base/index.h"

namespace tessera {

void add_fingerprint(Hash64& hash, const ModelFiles& files) {
  constexpr size_t kSample = 64;
  for (const auto& file : files.files()) hash.add(file->bytes().first(to_size(file->data_offset())));
  for (const ModelFiles::Tensor& tensor : files.tensors()) {
    const std::span<const std::byte> data = files.data(tensor);
    const size_t n = std::min(kSample, data.size());
    hash.add(data.first(n)).add(data.subspan((data.size() - n) / 2, n)).add(data.last(n));
  }
}

}  // namespace tessera
