#include "tessera/mpi/buffer.h"

#include <algorithm>
#include <deque>

#include "tessera/base/checked.h"

namespace tessera::mpi {

namespace {

constexpr size_t kPieceBytes = size_t{16} << 20, kPiecesInFlight = 2;
// Packed memory takes whole panels of rows (cpu/buffers.h).
constexpr int64_t kPanelRows = 16;

// A copy between workers is one message, for which the receiver has memory.
constexpr size_t kMaxCopyBytes = size_t{256} << 20;

// The bytes of a tensor that travel in one message.
size_t piece_bytes(const Tensor& tensor) {
  const auto panel = row_bytes(tensor.dtype, checked_mul(tensor.shape()[0], kPanelRows).value_or(-1));
  if (!panel || *panel == 0) return kPieceBytes;
  return std::max(kPieceBytes / *panel, size_t{1}) * *panel;
}

// Requests in flight, of which the oldest is answered first.
class Pieces {
 public:
  explicit Pieces(const RemoteDevice& remote) : remote_(remote) {}
  // After an error: what is in flight is awaited, so that no answer is left without a reader.
  ~Pieces() {
    while (!numbers_.empty())
      if (auto reply = finish(); !reply) continue;
  }

  Result<> start(const Message& request) {
    TESSERA_ASSIGN(const uint64_t number, remote_.client->start(remote_.rank, request));
    numbers_.push_back(number);
    return {};
  }
  bool is_full() const { return numbers_.size() >= kPiecesInFlight; }
  bool is_empty() const { return numbers_.empty(); }
  Result<Client::Reply> finish() {
    const uint64_t number = numbers_.front();
    numbers_.pop_front();
    return remote_.client->finish(number);
  }

 private:
  const RemoteDevice& remote_;
  std::deque<uint64_t> numbers_;
};

}  // namespace

WireTensor RemoteBuffer::wire(const Tensor& tensor) const {
  return {.spec = to_wire(tensor), .name = tensor.name, .buffer = number_, .offset = tensor.offset};
}

Result<> RemoteBuffer::set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) {
  // Small values, such as the inputs of a step, are not waited for: this saves a round trip.
  if (bytes.size() <= kQuickBytes && twin_.is_host()) {
    remote_.client->post(remote_.rank, SetRequest{wire(tensor), offset, bytes});
    return {};
  }
  const size_t n_piece = piece_bytes(tensor);
  Pieces pieces(remote_);
  const auto finish = [&]() -> Result<> {
    TESSERA_ASSIGN(Client::Reply reply, pieces.finish());
    TESSERA_TRY(remote_.client->take<DoneAnswer>(remote_.rank, reply));
    return {};
  };
  do {
    const auto piece = bytes.first(std::min(n_piece, bytes.size()));
    if (pieces.is_full()) TESSERA_TRY(finish());
    TESSERA_TRY(pieces.start(SetRequest{wire(tensor), offset, piece}));
    offset += piece.size();
    bytes = bytes.subspan(piece.size());
  } while (!bytes.empty());
  while (!pieces.is_empty()) TESSERA_TRY(finish());
  return {};
}

Result<> RemoteBuffer::get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) {
  const size_t n_piece = piece_bytes(tensor);
  Pieces pieces(remote_);
  auto rest = bytes;  // not asked for yet
  const auto finish = [&]() -> Result<> {
    TESSERA_ASSIGN(Client::Reply reply, pieces.finish());
    TESSERA_ASSIGN(const BytesAnswer answer, remote_.client->take<BytesAnswer>(remote_.rank, reply));
    const auto to = bytes.first(std::min(n_piece, bytes.size()));
    if (answer.bytes.size() != to.size())
      return fail(ErrorCode::format, "tensor {}: {} bytes came, {} wanted", tensor.name, answer.bytes.size(),
                  to.size());
    std::ranges::copy(answer.bytes, to.begin());
    bytes = bytes.subspan(to.size());
    return {};
  };
  do {
    const size_t n = std::min(n_piece, rest.size());
    if (pieces.is_full()) TESSERA_TRY(finish());
    TESSERA_TRY(pieces.start(GetRequest{wire(tensor), offset, n}));
    offset += n;
    rest = rest.subspan(n);
  } while (!rest.empty());
  while (!pieces.is_empty()) TESSERA_TRY(finish());
  return {};
}

Result<> RemoteBuffer::load(const Tensor& tensor, size_t offset, const FileBytes& from) {
  TESSERA_ASSIGN(const std::optional<uint64_t> file, remote_.client->find_file(remote_.rank, from));
  if (!file) return set(tensor, offset, from.bytes());
  TESSERA_TRY(remote_.client->ask<DoneAnswer>(
      remote_.rank, LoadRequest{wire(tensor), offset, *file, uint64_t{from.offset}, uint64_t{from.n}}));
  return {};
}

Result<> RemoteBuffer::copy(const Tensor& from, const Tensor& to) {
  const auto* source = dynamic_cast<const RemoteBuffer*>(from.buffer);
  if (source == nullptr || source->remote_.client != remote_.client) return Buffer::copy(from, to);
  if (source->remote_.rank != remote_.rank) return copy_between_workers(*source, from, to);
  if (source->remote_.index != remote_.index) return Buffer::copy(from, to);
  TESSERA_TRY(remote_.client->ask<DoneAnswer>(remote_.rank, CopyRequest{source->wire(from), wire(to)}));
  return {};
}

// The bytes go from one worker to the other, not through this process.
Result<> RemoteBuffer::copy_between_workers(const RemoteBuffer& source, const Tensor& from, const Tensor& to) {
  TESSERA_TRY(require_alike(from, to));
  if (span_bytes(from.dtype, from.layout) > kMaxCopyBytes) return Buffer::copy(from, to);
  Client& client = *remote_.client;
  const uint64_t copy = client.new_copy();
  TESSERA_ASSIGN(
      const uint64_t receiving,
      client.start(remote_.rank, ReceiveCopyRequest{wire(to), static_cast<uint32_t>(source.remote_.rank), copy},
                   source.remote_.rank));
  auto sent = client.ask<DoneAnswer>(source.remote_.rank,
                                     SendCopyRequest{source.wire(from), static_cast<uint32_t>(remote_.rank), copy});
  if (!sent) client.post(remote_.rank, CancelRequest{receiving});  // nothing will come
  auto received = client.finish(receiving);
  if (!sent) return forward_error(sent);
  if (!received) return forward_error(received);
  TESSERA_TRY(client.take<DoneAnswer>(remote_.rank, *received));
  return {};
}

Result<> RemoteBuffer::clear(std::byte value) {
  TESSERA_TRY(remote_.client->ask<DoneAnswer>(
      remote_.rank, ClearRequest{.buffer = number_, .value = static_cast<uint8_t>(value), .is_reset = false}));
  return {};
}

Result<> RemoteBuffer::reset() {
  TESSERA_TRY(
      remote_.client->ask<DoneAnswer>(remote_.rank, ClearRequest{.buffer = number_, .value = 0, .is_reset = true}));
  return {};
}

Result<std::unique_ptr<Buffer>> RemoteBufferType::allocate(size_t bytes, BufferUsage usage) const {
  TESSERA_ASSIGN(const DoneAnswer made,
                 remote_.client->ask<DoneAnswer>(remote_.rank, AllocateRequest{remote_.index, index_, usage, bytes}));
  return std::make_unique<RemoteBuffer>(*this, twin_, remote_, made.number, bytes, usage);
}

}  // namespace tessera::mpi
