#include "tessera/cpu/ops/matmul_panels.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"

namespace tessera::cpu {

namespace {

// Panels that a thread packs at a time if weights are not stored packed: enough for the kernel's row tiles.
constexpr int64_t kScratchPanels = 4;
// Bounds on the panels of one unit of work, and its multiply-adds: a fraction of a millisecond on vector units.
constexpr int64_t kMinChunk = 4, kMaxChunk = 32, kChunksPerThread = 8;
constexpr int64_t kChunkMacs = int64_t{1} << 26;

}  // namespace

ProductForm product_form(const Kernels& kernels, DType dtype, ActivationPrecision activations) {
  const PanelFormat& own = *kernels.panel_formats[to_size(dtype)];
  const PanelFormat* const in_int16 = kernels.int16_panel_formats[to_size(dtype)];
  if (activations == ActivationPrecision::float32)
    return own.dequantize_panel == nullptr
               ? ProductForm{own, own.default_group}
               : ProductForm{*kernels.panel_formats[to_size(DType::f32)], own.default_group, true};
  if (in_int16 != nullptr) return {*in_int16, in_int16->default_group};
  switch (activations) {
    case ActivationPrecision::int8_32:
      return {own, 32};
    case ActivationPrecision::int8_64:
      return {own, 64};
    case ActivationPrecision::int8_128:
      return {own, 128};
    default:
      return {own, own.default_group};
  }
}

size_t panel_scratch_bytes(const Kernels& kernels, const Step& step) {
  size_t most = Panels(kernels, step.in[0], step.activations).scratch_bytes();
  for (const Step::Product& product : step.more_products)
    most = std::max(most, Panels(kernels, product.weights, step.activations).scratch_bytes());
  return most;
}

int64_t panels_per_chunk(int64_t n_panels, int n_threads, int64_t k, int64_t n_tokens) {
  const int64_t to_balance = n_panels / (n_threads * kChunksPerThread);
  const int64_t to_cancel = kChunkMacs / (kPanelRows * k * std::max<int64_t>(n_tokens, 1));
  return std::clamp(std::min(to_balance, to_cancel), kMinChunk, kMaxChunk);
}

Panels::Panels(const Kernels& kernels, const Operand& weights, ActivationPrecision activations)
    : weights_(weights),
      stored_(*kernels.panel_formats[to_size(weights.dtype)]),
      multiplied_(product_form(kernels, weights.dtype, activations).format),
      is_widened_(product_form(kernels, weights.dtype, activations).is_widened) {}

int64_t Panels::n_panels() const { return div_ceil<int64_t>(weights_.shape()[1], kPanelRows); }

// A thread's scratch memory: panels to multiply, then one packed panel as an intermediate step.
size_t Panels::multiplied_bytes() const {
  return weights_.packed && !is_widened_ ? 0 : to_size(kScratchPanels) * multiplied_.panel_bytes(weights_.shape()[0]);
}

size_t Panels::scratch_bytes() const {
  return multiplied_bytes() + (is_widened_ && !weights_.packed ? stored_.panel_bytes(weights_.shape()[0]) : 0);
}

void Panels::multiply(int64_t index, int64_t begin, int64_t end, const PackedX& x, float* out, size_t out_stride,
                      std::byte* scratch) const {
  const int64_t n_rows = weights_.shape()[1];
  const auto product = [&](const std::byte* panels, int64_t from, int64_t to) {
    multiplied_.multiply(panels, std::min(to * kPanelRows, n_rows) - from * kPanelRows, x.shape, x.packed, 0,
                         x.shape.n_tokens, out + from * kPanelRows, out_stride);
  };
  if (multiplied_bytes() == 0) return product(stored_panel(index, begin), begin, end);
  const size_t panel_bytes = multiplied_.panel_bytes(weights_.shape()[0]);
  for (int64_t from = begin; from < end; from += kScratchPanels) {
    const int64_t to = std::min(from + kScratchPanels, end);
    for (int64_t panel = from; panel < to; ++panel)
      make_panel(index, panel, scratch + to_size(panel - from) * panel_bytes, scratch + multiplied_bytes());
    product(scratch, from, to);
  }
}

// Creates a panel to multiply; `stored` is scratch memory for its packed form.
void Panels::make_panel(int64_t index, int64_t panel, std::byte* multiplied, std::byte* stored) const {
  if (!is_widened_) return pack_panel(index, panel, multiplied);
  if (weights_.packed) {
    stored = stored_panel(index, panel);
  } else {
    pack_panel(index, panel, stored);
  }
  stored_.dequantize_panel(stored, weights_.shape()[0], reinterpret_cast<float*>(multiplied));
}

void Panels::pack_panel(int64_t index, int64_t panel, std::byte* packed) const {
  const int64_t row = panel * kPanelRows;
  const int64_t n_rows = std::min<int64_t>(kPanelRows, weights_.shape()[1] - row);
  stored_.pack(weights_.row<const void>(row, index), to_size(weights_.layout.nb[1]), static_cast<int>(n_rows),
               weights_.shape()[0], packed);
}

// Returns a panel in packed memory.
std::byte* Panels::stored_panel(int64_t index, int64_t panel) const {
  return weights_.data + to_size(index * n_panels() + panel) * stored_.panel_bytes(weights_.shape()[0]);
}

}  // namespace tessera::cpu
