#include "tessera/engine/tensor_values.h"

#include <algorithm>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/gguf/printable.h"
#include "tessera/quant/formats.h"

namespace tessera {

Result<> read_values(const ModelFiles& files, const ModelFiles::Tensor& tensor,
                     FunctionRef<Result<>(std::span<const float>)> take) {
  constexpr int64_t kPieceValues = 16384;  // whole blocks of every type
  const DTypeInfo& type = info(tensor.info.dtype);
  const quant::Format* format = quant::find_format(tensor.info.dtype);
  if (format == nullptr)
    return fail(ErrorCode::unsupported, "{}: tensor {}: type {} has no decoder", files.files()[tensor.file]->name(),
                quote_name(tensor.info.name), type.name);
  // Rows consist of whole blocks without gaps, so the tensor is one array of blocks.
  std::span<const std::byte> bytes = files.data(tensor);
  std::vector<float> values(to_size(kPieceValues));
  for (int64_t left = tensor.info.shape.n_elements(); left > 0;) {
    const int64_t n = std::min(left, kPieceValues);
    format->dequantize_row(bytes.data(), n, values.data());
    TESSERA_TRY(take(std::span(values).first(to_size(n))));
    bytes = bytes.subspan(to_size(n / type.block_elements * type.block_bytes));
    left -= n;
  }
  return {};
}

}  // namespace tessera
