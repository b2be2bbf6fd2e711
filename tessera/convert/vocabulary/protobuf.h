// Reads the wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding), of which SentencePiece
// models are made. Nothing is copied, and a nested message is read only by a reader of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tessera/base/result.h"

namespace tessera::convert {

struct ProtobufField {
  enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  uint32_t number = 0;
  Wire wire = Wire::varint;
  uint64_t bits = 0;         // of a varint, fixed64 or fixed32
  std::string_view bytes{};  // text, bytes or a nested message
  size_t offset = 0;         // of the field in its message

  // The value as a type. Error: format (the field has another wire type, or the value does not fit).
  Result<float> as_float() const;
  Result<int32_t> as_int32() const;
  Result<bool> as_bool() const;
  Result<std::string_view> as_bytes() const;

 private:
  std::unexpected<Error> wrong(std::string_view want) const;
};

class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : message_(message) {}

  /// The next field; nothing at the end of the message. Errors: format (a cut message, a number of more than 64 bits,
  /// a field 0); unsupported (groups, and wire types that do not exist).
  Result<std::optional<ProtobufField>> next();

 private:
  Result<uint64_t> varint();
  Result<uint64_t> fixed(size_t n_bytes);

  std::string_view message_;
  size_t at_ = 0;
};

}  // namespace tessera::convert
