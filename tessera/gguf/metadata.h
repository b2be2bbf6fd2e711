// The metadata of a GGUF file: key-value pairs in file order, with typed access. Models read their hyperparameters from
// it, and tokenizers their vocabulary. Keys and values borrow their bytes from the file. Errors name the file and the
// key.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/gguf/decoder.h"
#include "tessera/gguf/name_index.h"
#include "tessera/gguf/value.h"

namespace tessera {

class Metadata {
 public:
  struct Entry {
    std::string_view key;
    GgufValue value;
  };

  Metadata() = default;
  Metadata(Metadata&&) = default;  // a copy's arrays would point into the original's storage
  Metadata& operator=(Metadata&&) = default;

  /// Reads n_keys pairs; n_keys was returned by in.count(). Keys must be printable ASCII and unique.
  static Result<Metadata> read(GgufDecoder& in, uint64_t n_keys, std::string file_name);

  std::span<const Entry> entries() const { return entries_; }

  /// The value of a key, or nullptr.
  const GgufValue* find(std::string_view key) const;

  /// Returns the value as a T, converted as in GgufValue::as(). Errors: not_found; as as().
  template <GgufScalar T>
  Result<T> get(std::string_view key) const {
    return converted(key, [](const GgufValue& value) { return value.as<T>(); });
  }

  /// Like get(), but returns `absent` if the key is missing. A key of the wrong type is still an error.
  template <GgufScalar T>
  Result<T> get_or(std::string_view key, T absent) const {
    if (find(key) == nullptr) return absent;
    return get<T>(key);
  }

  /// Returns an array as a vector. Errors: not_found; as GgufValue::as_vector().
  template <GgufScalar T>
  Result<std::vector<T>> get_vector(std::string_view key) const {
    return converted(key, [](const GgufValue& value) { return value.as_vector<T>(); });
  }

  /// One value per layer: n_layers copies of a scalar, or an array of exactly n_layers elements.
  template <GgufScalar T>
  Result<std::vector<T>> get_per_layer(std::string_view key, size_t n_layers) const;

 private:
  template <class Convert>
  auto converted(std::string_view key, Convert convert) const -> decltype(convert(std::declval<const GgufValue&>()));
  std::string at(std::string_view key) const;  // "FILE: key 'KEY'"

  std::string file_name_;
  std::vector<Entry> entries_;
  NameIndex index_;
  GgufArrayStorage storage_;
};

template <class Convert>
auto Metadata::converted(std::string_view key, Convert convert) const
    -> decltype(convert(std::declval<const GgufValue&>())) {
  const GgufValue* value = find(key);
  if (value == nullptr) return fail(ErrorCode::not_found, "{}: missing", at(key));
  auto result = convert(*value);
  if (!result) return forward_error(result, at(key));
  return result;
}

template <GgufScalar T>
Result<std::vector<T>> Metadata::get_per_layer(std::string_view key, size_t n_layers) const {
  const GgufValue* value = find(key);
  if (value != nullptr && value->is_array()) {
    if (value->size() == n_layers) return get_vector<T>(key);
    return fail(ErrorCode::mismatch, "{}: {} elements, want one for each of {} layers", at(key), value->size(),
                n_layers);
  }
  TESSERA_ASSIGN(const T scalar, get<T>(key));
  return std::vector<T>(n_layers, scalar);
}

}  // namespace tessera
