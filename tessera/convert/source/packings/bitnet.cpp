// BitNet: a byte holds the integers 0, 1 or 2 of four rows in one column; the value is (integer - 1) / scale.
#include <memory>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/convert/source/packings/matrix_source.h"
#include "tessera/convert/source/packings/packings.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr int64_t kByteRows = 4;

class TernarySource : public MatrixSource {
 public:
  TernarySource(const PackedPart& bytes, float scale) : MatrixSource(bytes.shape[1]), bytes_(bytes), scale_(scale) {}

  // Each row needs a quarter of every byte in its column.
  void forget(int64_t first, int64_t n) const override {
    if (first + n == kByteRows * bytes_.n_elements()) bytes_.forget();
  }

 private:
  // The upper quarter of the rows is in the lowest bits.
  void decode(const Tile& tile, float* values) const override {
    const int64_t n_byte_rows = bytes_.shape[0];
    for (int64_t row = tile.row; row < tile.row + tile.n_rows; ++row) {
      const int64_t shift = row / n_byte_rows * 2;
      const std::byte* bytes = bytes_.data + row % n_byte_rows * n_columns() + tile.column;
      for (int64_t i = 0; i < tile.n_columns; ++i) {
        const int integer = static_cast<int>(bytes[i]) >> shift & 3;
        *values++ = static_cast<float>(integer - 1) / scale_;
      }
    }
  }

  PackedPart bytes_;
  float scale_;
};

}  // namespace

PackedTensors make_bitnet(const PackedGroup& group, const PackingConfig&) {
  const PackedPart& bytes = *group.weight;
  TESSERA_TRY(bytes.require_type(ElementType::u8));
  TESSERA_TRY(bytes.require_rank(2));
  TESSERA_ASSIGN(const float scale, group.scale->single_scale());
  if (scale == 0.0f) return fail(ErrorCode::format, "tensor {}: a scale of 0", text::quote_text(group.scale->name));
  const int64_t n_rows = bytes.shape[0], n_columns = bytes.shape[1];
  auto n_elements = count_elements(std::vector{kByteRows, n_rows, n_columns});
  if (!n_elements) return forward_error(n_elements, "tensor " + text::quote_text(bytes.name));
  StoredTensor tensor{.name = group.name, .type = ElementType::f32, .shape = {kByteRows * n_rows, n_columns}};
  tensor.elements = std::make_shared<TernarySource>(bytes, scale);
  return std::vector{std::move(tensor)};
}

}  // namespace tessera::convert
