#include "tessera/convert/vocabulary/protobuf.h"

#include <bit>
#include <cstring>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"

namespace tessera::convert {

namespace {

constexpr uint32_t kLastFieldNumber = (1u << 29) - 1;
constexpr unsigned kBitsPerByte = 7, kLastShift = 63;

}  // namespace

std::unexpected<Error> ProtobufField::wrong(std::string_view want) const {
  return fail(ErrorCode::format, "field {} at byte {}: wire type {}, want {}", number, offset,
              static_cast<unsigned>(wire), want);
}

Result<float> ProtobufField::as_float() const {
  if (wire != Wire::fixed32) return wrong("a float");
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}

Result<int32_t> ProtobufField::as_int32() const {
  if (wire != Wire::varint) return wrong("an integer");
  const auto value = checked_cast<int32_t>(static_cast<int64_t>(bits));
  if (!value)
    return fail(ErrorCode::format, "field {} at byte {}: {}, want 32 bits", number, offset, static_cast<int64_t>(bits));
  return *value;
}

Result<bool> ProtobufField::as_bool() const {
  if (wire != Wire::varint) return wrong("true or false");
  return bits != 0;
}

Result<std::string_view> ProtobufField::as_bytes() const {
  if (wire != Wire::bytes) return wrong("bytes");
  return bytes;
}

Result<uint64_t> ProtobufReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift <= kLastShift; shift += kBitsPerByte) {
    if (at_ == message_.size()) return fail(ErrorCode::format, "ends inside a number at byte {}", at_);
    const auto byte = static_cast<uint8_t>(message_[at_++]);
    if (shift == kLastShift && byte > 1) break;
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  return fail(ErrorCode::format, "a number of more than 64 bits at byte {}", at_ - 1);
}

Result<uint64_t> ProtobufReader::fixed(size_t n_bytes) {
  if (n_bytes > message_.size() - at_)
    return fail(ErrorCode::format, "ends inside a number at byte {}", message_.size());
  uint64_t bits = 0;
  std::memcpy(&bits, message_.data() + at_, n_bytes);
  at_ += n_bytes;
  return bits;
}

Result<std::optional<ProtobufField>> ProtobufReader::next() {
  if (at_ == message_.size()) return std::nullopt;
  ProtobufField field;
  field.offset = at_;
  TESSERA_ASSIGN(const uint64_t tag, varint());
  if (tag >> 3 == 0 || tag >> 3 > kLastFieldNumber)
    return fail(ErrorCode::format, "field {} at byte {}, want 1 to {}", tag >> 3, field.offset, kLastFieldNumber);
  field.number = static_cast<uint32_t>(tag >> 3);
  field.wire = static_cast<ProtobufField::Wire>(tag & 7);
  switch (field.wire) {
    case ProtobufField::Wire::varint: {
      TESSERA_ASSIGN(field.bits, varint());
      return field;
    }
    case ProtobufField::Wire::fixed64: {
      TESSERA_ASSIGN(field.bits, fixed(8));
      return field;
    }
    case ProtobufField::Wire::fixed32: {
      TESSERA_ASSIGN(field.bits, fixed(4));
      return field;
    }
    case ProtobufField::Wire::bytes: {
      TESSERA_ASSIGN(const uint64_t n, varint());
      if (n > message_.size() - at_)
        return fail(ErrorCode::format, "field {} at byte {}: {} bytes, {} are left", field.number, field.offset, n,
                    message_.size() - at_);
      field.bytes = message_.substr(at_, to_size(n));
      at_ += to_size(n);
      return field;
    }
  }
  return fail(ErrorCode::unsupported, "field {} at byte {}: wire type {}", field.number, field.offset, tag & 7);
}

}  // namespace tessera::convert
