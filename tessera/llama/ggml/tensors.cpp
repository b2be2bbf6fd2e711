// ggml.h: the tensors of a GGUF file.
#include <algorithm>
#include <cstring>

#include "tessera/llama/ggml/objects.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

constexpr size_t kTensorOverhead = 368;  // a tensor and its object in ggml's memory: 336 and 32 bytes

ggml_tensor tensor_of(const GgufTensor& from) {
  ggml_tensor to{};
  to.type = static_cast<int32_t>(from.dtype);
  const DTypeInfo& type = info(from.dtype);
  size_t bytes = static_cast<size_t>(type.block_bytes);
  for (size_t i = 0; i < std::size(to.ne); ++i) {
    to.ne[i] = from.shape.ne[i];
    to.nb[i] = bytes;
    // The reader has checked that the bytes of the whole tensor fit.
    bytes *= static_cast<size_t>(i == 0 ? to.ne[0] / type.block_elements : to.ne[i]);
  }
  static_assert(kGgufMaxTensorNameBytes < sizeof to.name);
  std::ranges::copy(from.name, to.name);
  return to;
}

}  // namespace

Result<std::unique_ptr<ggml_context>> llama::read_tensors(const GgufFile& file, bool has_data) {
  auto ctx = std::make_unique<ggml_context>();
  ctx->tensors.reserve(file.tensors().size());
  for (const GgufTensor& tensor : file.tensors()) {
    ctx->tensors.push_back(tensor_of(tensor));
    if (!has_data) continue;
    const std::span<const std::byte> bytes = file.data(tensor);
    ctx->data.emplace_back(bytes.begin(), bytes.end());
    ctx->tensors.back().data = ctx->data.back().data();
  }
  return ctx;
}

size_t tessera_ggml_tensor_overhead() { return kTensorOverhead; }

void tessera_ggml_free(ggml_context* ctx) {
  if (ctx == nullptr) return;
  guarded("ggml_free", [&]() -> Result<> {
    TESSERA_TRY(require(ctx, "ctx"));
    const std::unique_ptr<ggml_context> last(ctx);
    return {};
  });
}

ggml_tensor* tessera_ggml_get_first_tensor(const ggml_context* ctx) {
  return guarded<ggml_tensor*>("ggml_get_first_tensor", nullptr, [&]() -> Result<ggml_tensor*> {
    TESSERA_TRY(require(ctx, "ctx"));
    return ctx->tensors.empty() ? nullptr : const_cast<ggml_tensor*>(ctx->tensors.data());
  });
}

ggml_tensor* tessera_ggml_get_next_tensor(const ggml_context* ctx, ggml_tensor* tensor) {
  return guarded<ggml_tensor*>("ggml_get_next_tensor", nullptr, [&]() -> Result<ggml_tensor*> {
    TESSERA_TRY(require(ctx, "ctx"));
    for (size_t i = 0; i < ctx->tensors.size(); ++i)
      if (&ctx->tensors[i] == tensor) return i + 1 == ctx->tensors.size() ? nullptr : tensor + 1;
    return fail(ErrorCode::invalid_argument, "tensor: not of this context");
  });
}

ggml_tensor* tessera_ggml_get_tensor(ggml_context* ctx, const char* name) {
  return guarded<ggml_tensor*>("ggml_get_tensor", nullptr, [&]() -> Result<ggml_tensor*> {
    TESSERA_TRY(require(ctx, "ctx"));
    TESSERA_ASSIGN(const std::string_view wanted, read_text(name, "name"));
    for (ggml_tensor& tensor : ctx->tensors)
      if (tensor.name == wanted) return &tensor;
    return nullptr;
  });
}
