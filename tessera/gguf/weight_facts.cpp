#include "tessera/gguf/weight_facts.h"

#include <algorithm>

namespace tessera {

std::map<DType, FormatShare> shares_of_formats(const ModelFiles& files) {
  std::map<DType, FormatShare> shares;
  for (const ModelFiles::Tensor& tensor : files.tensors()) {
    FormatShare& share = shares[tensor.info.dtype];
    ++share.n_tensors;
    share.n_bytes += tensor.info.n_bytes;
  }
  return shares;
}

uint64_t count_parameters(const ModelFiles& files) {
  uint64_t n = 0;
  for (const ModelFiles::Tensor& tensor : files.tensors()) n += static_cast<uint64_t>(tensor.info.shape.n_elements());
  return n;
}

std::string_view main_format(const ModelFiles& files) {
  const std::map<DType, FormatShare> shares = shares_of_formats(files);
  const auto largest = std::ranges::max_element(shares, {}, [](const auto& entry) { return entry.second.n_bytes; });
  return largest == shares.end() ? "" : info(largest->first).name;
}

}  // namespace tessera
