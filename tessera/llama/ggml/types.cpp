// ggml.h: element types, 16-bit floats, and the sizes of tensors.
#include <algorithm>
#include <cstring>

#include "tessera/base/checked.h"
#include "tessera/base/half.h"
#include "tessera/llama/ggml/objects.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

constexpr const char* kNoTypeName = "NONE";

const DTypeInfo* find_type(int32_t type) {
  if (type < 0) return nullptr;
  const auto dtype = dtype_from_gguf_id(static_cast<uint32_t>(type));
  return dtype ? &info(*dtype) : nullptr;
}

template <class From, class To, class Convert>
void convert_row(const char* function, const From* x, To* y, int64_t n, Convert&& convert) {
  guarded(function, [&]() -> Result<> {
    if (n < 0) return fail(ErrorCode::invalid_argument, "n: {}, want at least 0", n);
    TESSERA_ASSIGN(const std::span<const From> from, read_items(x, static_cast<uint64_t>(n), "x"));
    TESSERA_ASSIGN(const std::span<To> to, read_items(y, static_cast<uint64_t>(n), "y"));
    std::ranges::transform(from, to.begin(), convert);
    return {};
  });
}

Result<> require_tensor(const ggml_tensor* tensor) {
  if (tensor == nullptr) return fail(ErrorCode::invalid_argument, "tensor: is NULL");
  return {};
}

// Extents of a program may be any numbers.
Result<int64_t> product_of(std::span<const int64_t> extents) {
  int64_t product = 1;
  for (const int64_t extent : extents) {
    const auto next = checked_mul(product, extent);
    if (!next) return fail(ErrorCode::limit, "tensor: more than 2^63 elements");
    product = *next;
  }
  return product;
}

// The bytes from the first to behind the last element, which may have gaps between.
Result<size_t> spanned_bytes(const ggml_tensor& tensor) {
  const DTypeInfo* type = find_type(tensor.type);
  if (type == nullptr) return fail(ErrorCode::invalid_argument, "tensor: type {} is unknown", tensor.type);
  if (std::ranges::any_of(tensor.ne, [](int64_t extent) { return extent <= 0; })) return 0;
  const auto n_blocks = static_cast<size_t>(tensor.ne[0] / type->block_elements);
  auto bytes = std::optional(static_cast<size_t>(type->block_bytes));
  if (type->is_blocked())
    bytes = checked_mul(n_blocks, tensor.nb[0]);
  else
    bytes = checked_mul(n_blocks - 1, tensor.nb[0]).and_then([&](size_t gap) { return checked_add(*bytes, gap); });
  for (size_t i = 1; bytes && i < std::size(tensor.ne); ++i) {
    const auto more = checked_mul(static_cast<size_t>(tensor.ne[i] - 1), tensor.nb[i]);
    bytes = more ? checked_add(*bytes, *more) : std::nullopt;
  }
  if (!bytes) return fail(ErrorCode::limit, "tensor: more than 2^64 bytes");
  return *bytes;
}

}  // namespace

// Names are literals, so they end with a NUL.
const char* tessera_ggml_type_name(int32_t type) {
  const DTypeInfo* found = find_type(type);
  return found == nullptr ? kNoTypeName : found->name.data();
}
size_t tessera_ggml_type_size(int32_t type) {
  const DTypeInfo* found = find_type(type);
  return found == nullptr ? 0 : static_cast<size_t>(found->block_bytes);
}
int64_t tessera_ggml_blck_size(int32_t type) {
  const DTypeInfo* found = find_type(type);
  return found == nullptr ? 0 : found->block_elements;
}
bool tessera_ggml_is_quantized(int32_t type) {
  const DTypeInfo* found = find_type(type);
  return found != nullptr && found->is_blocked();
}
size_t tessera_ggml_row_size(int32_t type, int64_t ne) {
  return guarded<size_t>("ggml_row_size", 0, [&]() -> Result<size_t> {
    const DTypeInfo* found = find_type(type);
    if (found == nullptr) return fail(ErrorCode::invalid_argument, "type {} is unknown", type);
    return row_bytes(found->dtype, ne);
  });
}

float tessera_ggml_fp16_to_fp32(uint16_t x) { return f16_to_f32(x); }
uint16_t tessera_ggml_fp32_to_fp16(float x) { return f32_to_f16(x); }
float tessera_ggml_bf16_to_fp32(ggml_bf16_t x) { return bf16_to_f32(x.bits); }
ggml_bf16_t tessera_ggml_fp32_to_bf16(float x) { return {f32_to_bf16(x)}; }
void tessera_ggml_fp16_to_fp32_row(const uint16_t* x, float* y, int64_t n) {
  convert_row("ggml_fp16_to_fp32_row", x, y, n, tessera_ggml_fp16_to_fp32);
}
void tessera_ggml_fp32_to_fp16_row(const float* x, uint16_t* y, int64_t n) {
  convert_row("ggml_fp32_to_fp16_row", x, y, n, tessera_ggml_fp32_to_fp16);
}
void tessera_ggml_bf16_to_fp32_row(const ggml_bf16_t* x, float* y, int64_t n) {
  convert_row("ggml_bf16_to_fp32_row", x, y, n, tessera_ggml_bf16_to_fp32);
}
void tessera_ggml_fp32_to_bf16_row(const float* x, ggml_bf16_t* y, int64_t n) {
  convert_row("ggml_fp32_to_bf16_row", x, y, n, tessera_ggml_fp32_to_bf16);
}

int32_t tessera_ggml_n_dims(const ggml_tensor* tensor) {
  return guarded<int32_t>("ggml_n_dims", 0, [&]() -> Result<int32_t> {
    TESSERA_TRY(require_tensor(tensor));
    int32_t rank = static_cast<int32_t>(std::size(tensor->ne));
    while (rank > 1 && tensor->ne[rank - 1] == 1) --rank;
    return rank;
  });
}
int64_t tessera_ggml_nelements(const ggml_tensor* tensor) {
  return guarded<int64_t>("ggml_nelements", 0, [&]() -> Result<int64_t> {
    TESSERA_TRY(require_tensor(tensor));
    return product_of(tensor->ne);
  });
}
int64_t tessera_ggml_nrows(const ggml_tensor* tensor) {
  return guarded<int64_t>("ggml_nrows", 0, [&]() -> Result<int64_t> {
    TESSERA_TRY(require_tensor(tensor));
    return product_of(std::span(tensor->ne).subspan(1));
  });
}
size_t tessera_ggml_nbytes(const ggml_tensor* tensor) {
  return guarded<size_t>("ggml_nbytes", 0, [&]() -> Result<size_t> {
    TESSERA_TRY(require_tensor(tensor));
    return spanned_bytes(*tensor);
  });
}
size_t tessera_ggml_element_size(const ggml_tensor* tensor) {
  return guarded<size_t>("ggml_element_size", 0, [&]() -> Result<size_t> {
    TESSERA_TRY(require_tensor(tensor));
    return tessera_ggml_type_size(tensor->type);
  });
}
const char* tessera_ggml_get_name(const ggml_tensor* tensor) { return tensor == nullptr ? nullptr : tensor->name; }
void* tessera_ggml_get_data(const ggml_tensor* tensor) { return tensor == nullptr ? nullptr : tensor->data; }
