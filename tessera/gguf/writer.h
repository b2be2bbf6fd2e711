// Writes GGUF files: callers collect keys and tensors in a GgufBuilder, then stream the data of the tensors through a
// GgufWriter. Used by quantize, convert, split, merge and the trainer. The format is version 3, little-endian. The
// alignment is 32 and its key is omitted, because several tools pad to 32 regardless of the key. Every tensor,
// including the last, is padded with zeros.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/base/result.h"
#include "tessera/gguf/reader.h"
#include "tessera/gguf/value.h"
#include "tessera/tensor/dtype.h"
#include "tessera/tensor/shape.h"

namespace tessera {

/// The part of a file before the data. A key that is set again keeps its position and gets the new type and value. Keys
/// and names are checked when the header is built.
class GgufBuilder {
 public:
  /// Sets a key to a value of exactly this type: 3 is an i32, uint32_t{3} a u32, text a string.
  template <class T>
  void set(std::string_view key, const T& value) {
    std::vector<std::byte> encoded;
    append_element(encoded, value);
    put({std::string(key), type_of<T>, std::move(encoded)});
  }

  /// Sets a key to an array of the range's elements.
  template <std::ranges::sized_range R>
  void set_array(std::string_view key, const R& values) {
    using Element = std::ranges::range_value_t<R>;
    std::vector<std::byte> encoded = array_header(type_of<Element>, std::ranges::size(values));
    for (const Element& value : values) append_element(encoded, value);
    put({std::string(key), GgufType::array, std::move(encoded)});
  }

  /// Sets a key to a value read from a file, unchanged. Error: unsupported for arrays of arrays, which other programs
  /// do not read.
  Result<> set_value(std::string_view key, const GgufValue& value);

  /// Calls set_value() for every entry except the alignment, which is always 32 here.
  Result<> set_all(const Metadata& metadata);

  /// Removes a key, if it is there.
  void remove(std::string_view key);

  /// Appends a tensor. The file states at least min_rank extents, so that last ones of 1 are kept. Errors: a name that
  /// is empty or too long; an extent below 1; as nbytes().
  Result<> add_tensor(std::string_view name, DType dtype, const Shape& shape, int min_rank = 1);

  struct TensorEntry {
    std::string name;
    DType dtype;
    Shape shape;
    int rank;
    uint64_t data_offset;
    uint64_t n_bytes;
  };
  std::span<const TensorEntry> tensors() const { return tensors_; }

  /// The bytes of the file up to its data section, padded. Errors: a key that readers would refuse; a tensor name that
  /// was added twice.
  Result<std::vector<std::byte>> header() const;

 private:
  struct KeyEntry {
    std::string key;
    GgufType type;
    std::vector<std::byte> encoded;  // all bytes after the type
  };

  // A GgufScalar type is written as itself. Any other type that converts to text is written as a string.
  template <class T>
  static constexpr GgufType type_of = [] {
    if constexpr (GgufScalar<T>)
      return gguf_type_of<T>();
    else
      return gguf_type_of<std::string_view>();
  }();

  template <class T>
  static void append_element(std::vector<std::byte>& out, const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      static_assert(GgufScalar<T>, "no GGUF type has this C++ type");
      const size_t at = out.size();
      out.resize(at + sizeof(T));  // insert() of a range triggers a false overflow warning in GCC 12
      std::memcpy(out.data() + at, &value, sizeof(T));
    } else {
      static_assert(std::convertible_to<const T&, std::string_view>);
      append_string(out, value);
    }
  }

  static void append_string(std::vector<std::byte>& out, std::string_view text);
  static std::vector<std::byte> array_header(GgufType element_type, uint64_t n_elements);
  void put(KeyEntry entry);

  std::vector<KeyEntry> keys_;
  std::vector<TensorEntry> tensors_;
  uint64_t n_data_bytes_ = 0;
};

/// Streams a file to disk. The file appears under its path only after finish(). A writer destroyed before that leaves
/// nothing behind.
class GgufWriter {
 public:
  /// Writes the builder's header. Errors: those of header() and AtomicFile.
  static Result<GgufWriter> create(const std::string& path, const GgufBuilder& builder);

  /// Continues a temporary file of a writer of the same header, after the last tensor that it has whole. Another file
  /// is written anew. keeps: without finish() the file stays. Errors: those of header() and AtomicFile::resume().
  static Result<GgufWriter> resume(const std::string& path, const std::string& temporary, const GgufBuilder& builder,
                                   bool keeps);

  /// The number of tensors that are whole.
  size_t n_complete() const { return i_tensor_; }

  /// Writes the next bytes of the current tensor. After its last byte, the next tensor is current. Tensors are written
  /// in the order in which they were added. Error: more bytes than the tensor has left.
  Result<> append(std::span<const std::byte> bytes);

  /// The same for bytes of a file. Error: as append() and those of AtomicFile::write_from().
  Result<> append_from(const File& file, uint64_t offset, uint64_t n_bytes);

  /// Writes one whole tensor. Errors: it is not the next one, or the number of bytes differs from its size.
  Result<> write_tensor(std::string_view name, std::span<const std::byte> bytes);

  /// Completes the file where it is, without moving it to its path. A closed file takes no descriptor. Error: data of a
  /// tensor is missing.
  Result<> close();

  /// Moves the file to its path. Error: as close().
  Result<> finish();

 private:
  GgufWriter(AtomicFile file, std::string path, std::vector<GgufBuilder::TensorEntry> tensors)
      : file_(std::move(file)), path_(std::move(path)), tensors_(std::move(tensors)) {}

  Result<> require_room(uint64_t n_bytes) const;
  Result<> advance(uint64_t n_bytes);

  AtomicFile file_;
  std::string path_;
  std::vector<GgufBuilder::TensorEntry> tensors_;
  size_t i_tensor_ = 0;
  uint64_t n_written_ = 0;  // of tensor i_tensor_
};

/// Builds the same file in memory; data[i] is the data of tensor i.
Result<std::vector<std::byte>> gguf_to_bytes(const GgufBuilder& builder,
                                             std::span<const std::span<const std::byte>> data);

}  // namespace tessera
