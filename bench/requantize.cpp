// tessera_requantize IN.gguf OUT.gguf f32|f16|bf16|q8_0|q4_0: a model with its matrices in another type, for benchmarks
// that compare types. Every matrix gets the type (f16 where its rows are not whole blocks of it); all else stays.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "tessera/gguf/keys.h"
#include "tessera/gguf/reader.h"
#include "tessera/gguf/writer.h"
#include "tessera/quant/formats.h"

namespace tessera {
namespace {

struct TargetType {
  DType dtype;
  uint32_t file_type;  // of general.file_type
};
constexpr std::array<TargetType, 5> kTargets = {
    {{DType::f32, 0}, {DType::f16, 1}, {DType::q4_0, 2}, {DType::q8_0, 7}, {DType::bf16, 32}}};

Result<TargetType> target_of(std::string_view name) {
  const auto dtype = dtype_from_name(name);
  const auto target = std::ranges::find_if(kTargets, [&](const TargetType& t) { return dtype == t.dtype; });
  if (target == kTargets.end())
    return fail(ErrorCode::invalid_argument, "type '{}', want f32, f16, bf16, q8_0 or q4_0", name);
  return *target;
}

DType new_type(const GgufTensor& tensor, DType wanted) {
  const bool is_matrix = tensor.shape[1] > 1 && quant::find_format(tensor.dtype) != nullptr;
  if (!is_matrix) return tensor.dtype;
  return tensor.shape[0] % info(wanted).block_elements == 0 ? wanted : DType::f16;
}

Result<> write_converted(GgufWriter& writer, const GgufTensor& tensor, std::span<const std::byte> data, DType dtype) {
  const int64_t n = tensor.shape[0];
  TESSERA_ASSIGN(const size_t from_bytes, row_bytes(tensor.dtype, n));
  TESSERA_ASSIGN(const size_t to_bytes, row_bytes(dtype, n));
  const quant::Format &from = *quant::find_format(tensor.dtype), &to = *quant::find_format(dtype);
  std::vector<float> values(static_cast<size_t>(n));
  std::vector<std::byte> row(to_bytes);
  for (size_t at = 0; at < data.size(); at += from_bytes) {
    from.dequantize_row(data.data() + at, n, values.data());
    to.quantize_row_compat(values.data(), nullptr, n, row.data());
    TESSERA_TRY(writer.append(row));
  }
  return {};
}

Result<> requantize(const std::string& in, const std::string& out, std::string_view type_name) {
  TESSERA_ASSIGN(const TargetType target, target_of(type_name));
  TESSERA_ASSIGN(const auto file, GgufFile::open(in));
  GgufBuilder builder;
  TESSERA_TRY(builder.set_all(file->metadata()));
  builder.set(keys::kFileType, target.file_type);
  for (const GgufTensor& tensor : file->tensors())
    TESSERA_TRY(builder.add_tensor(tensor.name, new_type(tensor, target.dtype), tensor.shape));
  TESSERA_ASSIGN(GgufWriter writer, GgufWriter::create(out, builder));
  for (const GgufTensor& tensor : file->tensors()) {
    const DType dtype = new_type(tensor, target.dtype);
    TESSERA_TRY(dtype == tensor.dtype ? writer.append(file->data(tensor))
                                      : write_converted(writer, tensor, file->data(tensor), dtype));
  }
  return writer.finish();
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: {} IN.gguf OUT.gguf f32|f16|bf16|q8_0|q4_0\n", argv[0]);
    return 2;
  }
  const auto done = tessera::requantize(argv[1], argv[2], argv[3]);
  if (!done) fmt::print(stderr, "error: {}\n", done.error().message());
  return done ? 0 : 1;
}
