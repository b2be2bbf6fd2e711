#include "tessera/mpi/buffer.h"

#include <algorithm>
#include <deque>

#include "tessera/base/checked.h"

namespace tessera::mpi {

namespace {

constexpr size_t kPieceBytes = size_t{16} << 20, kPiecesInFlight = 2;
// Packed memory takes whole panels of rows (cpu/buffers.h).
constexpr int64_t kPanelRows = 16;

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

Result<> RemoteBuffer::copy(const Tensor& from, const Tensor& to) {
  const auto* source = dynamic_cast<const RemoteBuffer*>(from.buffer);
  const bool is_here = source != nullptr && source->remote_.client == remote_.client &&
                       source->remote_.rank == remote_.rank && source->remote_.index == remote_.index;
  if (!is_here) return Buffer::copy(from, to);
  TESSERA_TRY(remote_.client->ask<DoneAnswer>(remote_.rank, CopyRequest{source->wire(from), wire(to)}));
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
  return std::make_unique<RemoteBuffer>(*this, remote_, made.number, bytes, usage);
}

}  // namespace tessera::mpi
