// Helpers for the tests of the matrix kernels: every format of weights of every instruction set, and rows of weights.
#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "tessera/base/checked.h"
#include "tessera/quant/formats.h"
#include "tests/cpu/kernels_testing.h"

namespace tessera::testing {

using cpu::ActivationShape;
using cpu::Kernels;
using cpu::kPanelRows;
using cpu::PanelFormat;

/// 64-byte aligned bytes of exactly the requested size, so that the address sanitizer detects every overrun.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t n) : data_(static_cast<uint8_t*>(::operator new (n, std::align_val_t{64}))), n_(n) {
    std::fill_n(data_.get(), n, uint8_t{0xcd});
  }
  uint8_t* data() const { return data_.get(); }
  size_t size() const { return n_; }

 private:
  struct Delete {
    void operator()(uint8_t* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<uint8_t, Delete> data_;
  size_t n_;
};

struct FormatCase {
  const Kernels* kernels;
  DType dtype;
  bool in_int16 = false;

  const PanelFormat& format() const {
    return *(in_int16 ? kernels->int16_panel_formats : kernels->panel_formats)[static_cast<int>(dtype)];
  }
  size_t row_bytes(int64_t k) const {
    return static_cast<size_t>(k / info(dtype).block_elements * info(dtype).block_bytes);
  }
  std::string name() const {
    return std::string(kernels->isa) + "_" + std::string(info(dtype).name) + (in_int16 ? "_in_int16" : "");
  }
};

inline std::vector<FormatCase> format_cases(const Kernels* kernels) {
  std::vector<FormatCase> cases;
  for (const DTypeInfo& info : all_dtypes()) {
    if (kernels->panel_formats[static_cast<int>(info.dtype)] != nullptr) cases.push_back({kernels, info.dtype});
    if (kernels->int16_panel_formats[static_cast<int>(info.dtype)] != nullptr)
      cases.push_back({kernels, info.dtype, true});
  }
  return cases;
}

inline std::vector<FormatCase> all_format_cases() {
  std::vector<FormatCase> cases;
  for (const Kernels* kernels : usable_kernels()) std::ranges::copy(format_cases(kernels), std::back_inserter(cases));
  return cases;
}

/// Weight rows in file layout.
struct FileRows {
  FormatCase c;
  int64_t n_rows, k;
  std::vector<std::byte> rows;

  FileRows(const FormatCase& c, int64_t n_rows, int64_t k)
      : c(c), n_rows(n_rows), k(k), rows(static_cast<size_t>(n_rows) * c.row_bytes(k)) {}

  static FileRows random(const FormatCase& c, int64_t n_rows, int64_t k, Rng& rng) {
    if (info(c.dtype).is_blocked()) return plausible(c, n_rows, k, 0x1c00, rng);  // scales of 2^-8
    FileRows w(c, n_rows, k);
    for (int64_t r = 0; r < n_rows; ++r) {
      const auto x = random_floats(rng, k, 1.0f);
      quant::find_format(c.dtype)->quantize_row_compat(x.data(), nullptr, k, w.row(r));
    }
    return w;
  }
  static FileRows random_bytes(const FormatCase& c, int64_t n_rows, int64_t k, Rng& rng) {
    FileRows w(c, n_rows, k);
    for (std::byte& b : w.rows) b = static_cast<std::byte>(rng.next_u32() >> 24);
    return w;
  }

  /// Random bytes whose scales are f16 `scale` (or as near as the dtype has).
  static FileRows plausible(const FormatCase& c, int64_t n_rows, int64_t k, uint16_t scale, Rng& rng) {
    FileRows w = random_bytes(c, n_rows, k, rng);
    w.set_scales(scale);
    return w;
  }
  void set_scales(uint16_t scale) {
    const auto bytes = static_cast<size_t>(info(c.dtype).block_bytes);
    for (size_t at = 0; at < rows.size(); at += bytes) set_block_scales(&rows[at], scale);
  }
  void set_block_scales(std::byte* block, uint16_t scale) const {
    const auto put = [&](int offset) { std::memcpy(block + offset, &scale, 2); };
    switch (c.dtype) {
      case DType::q4_1:
      case DType::q5_1:
      case DType::q4_k:
      case DType::q5_k:
        return put(0), put(2);
      case DType::q2_k:
        return put(80), put(82);
      case DType::q3_k:
        return put(108);
      case DType::q6_k:
        return put(208);
      case DType::tq1_0:
        return put(52);
      case DType::tq2_0:
        return put(64);
      case DType::mxfp4:
        block[0] = std::byte{128};
        return;
      case DType::nvfp4:  // 2^-1 to 2^1
        for (int i = 0; i < 4; ++i) block[i] = static_cast<std::byte>(0x30 + (std::to_integer<int>(block[i]) & 0x18));
        return;
      case DType::iq1_m:
        for (int i = 0; i < 4; ++i) {
          const auto top = static_cast<std::byte>((scale >> (4 * i) & 15) << 4);
          block[49 + 2 * i] = (block[49 + 2 * i] & std::byte{0x0f}) | top;
        }
        return;
      default:
        return put(0);
    }
  }

  std::byte* row(int64_t r) { return rows.data() + static_cast<size_t>(r) * c.row_bytes(k); }
  std::vector<float> values(int64_t r) {
    std::vector<float> out(static_cast<size_t>(k));
    quant::find_format(c.dtype)->dequantize_row(row(r), k, out.data());
    return out;
  }
  AlignedBytes packed() {
    const size_t bytes = c.format().panel_bytes(k);
    AlignedBytes panels(bytes * static_cast<size_t>(div_ceil<int64_t>(n_rows, kPanelRows)));
    for (int64_t r = 0; r < n_rows; r += kPanelRows)
      c.format().pack(row(r), c.row_bytes(k), static_cast<int>(std::min<int64_t>(kPanelRows, n_rows - r)), k,
                      panels.data() + static_cast<size_t>(r / kPanelRows) * bytes);
    return panels;
  }
};

inline AlignedBytes pack_activations(const FormatCase& c, const std::vector<float>& x, const ActivationShape& shape) {
  AlignedBytes packed(c.format().activation_bytes(shape));
  c.format().pack_activations(x.data(), static_cast<size_t>(shape.k) * sizeof(float), shape, 0, shape.n_tokens,
                              packed.data());
  return packed;
}

/// The output [n_rows, n_tokens] of one call.
inline std::vector<float> multiply(const FormatCase& c, const AlignedBytes& panels, int64_t n_rows, int64_t k,
                                   const std::vector<float>& x, int64_t n_tokens, int64_t max_group = 128) {
  const ActivationShape shape{.k = k, .n_tokens = n_tokens, .max_group = max_group};
  const AlignedBytes packed = pack_activations(c, x, shape);
  Guarded<float> out(n_rows * n_tokens);
  c.format().multiply(panels.data(), n_rows, shape, packed.data(), 0, n_tokens, out.data(),
                      static_cast<size_t>(n_rows) * sizeof(float));
  EXPECT_TRUE(out.intact()) << c.name() << " rows " << n_rows << " tokens " << n_tokens << " k " << k;
  return out.values();
}

}  // namespace tessera::testing
