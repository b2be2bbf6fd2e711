// Reads pickles of checkpoints. A pickle is a program for a stack machine. This interpreter knows 45 of its opcodes and
// builds plain values: numbers, texts, lists, dictionaries, and records of tensors. Nothing of a file is ever called.
// The few names that PyTorch uses for tensors are symbols of a closed list, and every other name is refused.
//
// Time and memory are linear in the bytes of the pickle: a value that is used twice exists once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/convert/source/element_type.h"

namespace tessera::convert {

struct PickleLimits {
  size_t max_bytes = size_t{64} << 20;
  size_t max_values = size_t{1} << 22;
  size_t max_open = 64;  // marks inside each other
  size_t max_memo = size_t{1} << 20;
  size_t max_stack = size_t{1} << 20;
};

/// Elements of one type that tensors are views of.
struct PickledStorage {
  ElementType type = ElementType::f32;
  std::string_view key{};  // names its bytes in the file
  int64_t n_elements = 0;
};

struct PickledTensor {
  size_t storage = 0;  // index in storages()
  int64_t offset = 0;  // of the first element, in elements of the storage
  std::vector<int64_t> shape{}, strides{};
};

/// A value by its number.
enum class PickleId : uint32_t {};

class Pickle {
 public:
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    real,
    big_integer,
    text,
    tuple,
    list,
    dictionary,
    symbol,
    storage,
    tensor
  };

  /// Runs the pickle at the start of `bytes`, which must outlive this.
  /// Errors: format (with the byte); unsupported (a name that is not in the list, an opcode for objects); limit.
  static Result<Pickle> read(std::span<const std::byte> bytes, const PickleLimits& limits = {});

  /// Bytes of the pickle, up to its STOP.
  size_t n_bytes() const { return n_bytes_; }
  PickleId root() const { return root_; }

  Kind kind(PickleId id) const { return value(id).kind; }
  /// Each for a value of its kind.
  int64_t integer(PickleId id) const { return value(id).number; }
  std::string_view text(PickleId id) const;            // also the bytes of a big_integer, the lowest first
  std::span<const PickleId> items(PickleId id) const;  // of a tuple or list
  std::span<const std::pair<PickleId, PickleId>> members(PickleId id) const;
  const PickledTensor& tensor(PickleId id) const { return tensors_[static_cast<size_t>(value(id).number)]; }

  const std::vector<PickledStorage>& storages() const { return storages_; }

 private:
  friend class PickleMachine;
  struct Value {
    Kind kind = Kind::none;
    uint32_t n = 0;      // bytes of a text, items of a tuple
    int64_t number = 0;  // an integer, or the place of a text, of items, or of a record
  };
  const Value& value(PickleId id) const { return values_[static_cast<size_t>(id)]; }

  std::span<const std::byte> bytes_;
  size_t n_bytes_ = 0;
  PickleId root_{};
  std::vector<Value> values_;
  std::vector<PickleId> tuple_items_;
  std::vector<std::vector<PickleId>> lists_;
  std::vector<std::vector<std::pair<PickleId, PickleId>>> dictionaries_;
  std::vector<PickledStorage> storages_;
  std::vector<PickledTensor> tensors_;
};

}  // namespace tessera::convert
