#include "tessera/mpi/message.h"

#include <cstring>
#include <utility>

#include "tessera/base/hash.h"

namespace tessera::mpi {

namespace {

// The first bytes of every message.
struct MessageHead {
  uint16_t version = kMessageVersion;
  uint16_t kind = 0;
  uint32_t reserved = 0;
  uint64_t request = 0;
  uint64_t checksum = 0;  // of the other members and of all that follows
  static auto members(auto& self) {
    return std::tie(self.version, self.kind, self.reserved, self.request, self.checksum);
  }
};
constexpr size_t kHeadBytes = 24, kChecksumAt = 16;

uint64_t checksum_of(std::span<const std::byte> bytes) {
  return Hash64().add(bytes.first(kChecksumAt)).add(bytes.subspan(kHeadBytes)).value();
}

template <size_t... kind>
Result<Message> read_kind(size_t wanted, WireReader& reader, std::index_sequence<kind...>) {
  Message message;
  Result<> read = fail(ErrorCode::format, "a message of kind {}, want 0 to {}", wanted, sizeof...(kind) - 1);
  ((wanted == kind ? static_cast<void>(read = reader.read(message.emplace<kind>())) : void()), ...);
  if (!read) return forward_error(read);
  return message;
}

}  // namespace

std::vector<std::byte> encode(const Envelope& envelope) {
  const MessageHead head{.kind = static_cast<uint16_t>(envelope.message.index()), .request = envelope.request};
  std::vector<std::byte> bytes;
  WireWriter(bytes).write(head);
  std::visit([&](const auto& message) { WireWriter(bytes).write(message); }, envelope.message);
  const uint64_t checksum = checksum_of(bytes);
  std::memcpy(bytes.data() + kChecksumAt, &checksum, sizeof checksum);
  return bytes;
}

Result<Envelope> decode(std::span<const std::byte> bytes) {
  WireReader reader(bytes);
  MessageHead head;
  TESSERA_TRY(reader.read(head));
  if (head.version != kMessageVersion)
    return fail(ErrorCode::mismatch, "a message of version {}, want {}", head.version, kMessageVersion);
  if (head.checksum != checksum_of(bytes))
    return fail(ErrorCode::format, "a message of {} bytes: wrong checksum", bytes.size());
  TESSERA_ASSIGN(Message message,
                 read_kind(head.kind, reader, std::make_index_sequence<std::variant_size_v<Message>>()));
  TESSERA_TRY(reader.end());
  return Envelope{head.request, std::move(message)};
}

}  // namespace tessera::mpi
