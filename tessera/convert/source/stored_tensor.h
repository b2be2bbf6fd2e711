// A tensor of a checkpoint: where its elements are in a file. All containers are reduced to this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/base/result.h"
#include "tessera/convert/source/element_type.h"

namespace tessera::convert {

/// The most dimensions of a tensor in a checkpoint.
inline constexpr size_t kMaxStoredRank = 8;
/// The most tensors of a checkpoint, and of each of its files.
inline constexpr size_t kMaxStoredTensors = size_t{1} << 20;

/// Elements that are computed when they are read, such as those of packed matrices.
class ElementSource {
 public:
  virtual ~ElementSource() = default;
  ElementSource(const ElementSource&) = delete;
  ElementSource& operator=(const ElementSource&) = delete;

  /// Writes elements, as many as `into` has room for, from number `first` on. `into` is aligned for the element type.
  /// Several threads may read at once. A short read costs little more than its own elements.
  virtual void read(int64_t first, std::span<std::byte> into) const = 0;

  /// Releases the memory of the file for elements [first, first + n), which were read. Sources that read all of their
  /// parts for any element release them with the last element.
  virtual void forget(int64_t first, int64_t n) const = 0;

 protected:
  ElementSource() = default;
};

struct StoredTensor {
  std::string name{};
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape{};    // outermost first, as PyTorch writes it
  std::vector<int64_t> strides{};  // in elements, one for each dimension; empty: elements lie one after another
  uint64_t offset = 0;             // of the first element, in bytes from the start of the file or of `elements`
  std::shared_ptr<const ElementSource> elements{};  // null: those of the file

  /// Elements of the tensor. The containers' readers have checked that it does not overflow.
  int64_t n_elements() const;
  /// Numbers in these elements: more where an element is a block.
  int64_t n_values() const { return n_elements() * element_values(type); }

  /// Copies elements in the order of the shape, as many as `into` has room for, from number `first` on. `file`: all
  /// bytes of the tensor's file. The containers' readers have checked that all elements are in it. `into` is aligned
  /// for the element type if elements are computed.
  void read(std::span<const std::byte> file, int64_t first, std::span<std::byte> into) const;

  /// Whether elements that lie one after another in the file are in different rows, as in a transposed matrix. Reads of
  /// kColumnRows rows at once cost least per element, of less than a row most.
  bool is_by_columns() const { return column_dimension().has_value(); }
  static constexpr int64_t kColumnRows = 32;

  /// Releases the memory of elements [first, first + n) in the order of the shape, which were read, as all before them
  /// were. Elements in another order may be anywhere in the tensor, which is then released with its last element.
  void forget(const MappedFile& file, int64_t first, int64_t n) const;

 private:
  void copy(std::span<const std::byte> file, int64_t element, std::span<std::byte> into) const;
  void read_runs(std::span<const std::byte> file, int64_t first, std::span<std::byte> into) const;
  void read_columns(std::span<const std::byte> file, size_t dimension, int64_t first, std::span<std::byte> into) const;
  std::optional<size_t> column_dimension() const;

  /// Elements of the file or of `elements`, numbered from `offset` on.
  struct ElementRange {
    int64_t first = 0, n = 0;
  };
  ElementRange finished_by(int64_t first, int64_t n) const;
};

/// The number of elements of a shape. Errors: format (a negative extent; more than 2^63 elements); limit (rank).
Result<int64_t> count_elements(std::span<const int64_t> shape);

/// The strides of elements that lie one after another.
std::vector<int64_t> contiguous_strides(std::span<const int64_t> shape);

}  // namespace tessera::convert
