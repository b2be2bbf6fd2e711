// The messages of ranks to one another. Rank 0 asks and the others, the workers, answer. Buffers, backends and plans of
// a worker have numbers, which the worker gives; no address travels. Each message has the version of this table, the
// number of its request and a checksum. A change here needs another kMessageVersion.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/mpi/wire.h"
#include "tessera/mpi/wire_graph.h"

namespace tessera::mpi {

inline constexpr uint16_t kMessageVersion = 2;

template <>
inline constexpr DeviceKind kLastOf<DeviceKind> = DeviceKind::accelerator;
template <>
inline constexpr BufferUsage kLastOf<BufferUsage> = BufferUsage::compute;
template <>
inline constexpr ActivationPrecision kLastOf<ActivationPrecision> = ActivationPrecision::int8_128;

/// A tensor in a buffer of a worker.
struct WireTensor {
  WireSpec spec;
  std::string name;
  uint64_t buffer = 0;
  uint64_t offset = 0;
  static auto members(auto& self) { return std::tie(self.spec, self.name, self.buffer, self.offset); }
};

/// The facts that must agree between two ranks.
struct Identity {
  std::string program;  // its version
  std::string host;
  uint64_t tables = 0;  // a hash of the operations, their parameters and the types (handshake.h)
  static auto members(auto& self) { return std::tie(self.program, self.host, self.tables); }
};

struct HelloRequest {
  Identity identity;
  std::vector<std::string> isas;  // instruction sets of rank 0's CPU, fastest last
  uint32_t timeout_ms = 5000;     // of the worker's link
  static auto members(auto& self) { return std::tie(self.identity, self.isas, self.timeout_ms); }
};

struct WireProperty {
  std::string name;
  std::string value;
  static auto members(auto& self) { return std::tie(self.name, self.value); }
};

struct WireBufferType {
  std::string name;
  uint64_t alignment = 0;
  uint64_t max_size = 0;
  static auto members(auto& self) { return std::tie(self.name, self.alignment, self.max_size); }
};

/// A device of a worker.
struct WireDevice {
  std::string name;
  std::string description;
  DeviceKind kind = DeviceKind::cpu;
  std::vector<WireProperty> properties;
  std::vector<WireBufferType> types;
  static auto members(auto& self) {
    return std::tie(self.name, self.description, self.kind, self.properties, self.types);
  }
};

struct WelcomeAnswer {
  Identity identity;
  std::vector<WireDevice> devices;
  static auto members(auto& self) { return std::tie(self.identity, self.devices); }
};

struct MemoryRequest {
  uint32_t device = 0;
  static auto members(auto& self) { return std::tie(self.device); }
};

struct MemoryAnswer {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  static auto members(auto& self) { return std::tie(self.total_bytes, self.free_bytes); }
};

struct AllocateRequest {
  uint32_t device = 0;
  uint32_t type = 0;  // in the list of the device
  BufferUsage usage = BufferUsage::any;
  uint64_t bytes = 0;
  static auto members(auto& self) { return std::tie(self.device, self.type, self.usage, self.bytes); }
};

/// Has no answer, like the other two that end something.
struct FreeRequest {
  uint64_t buffer = 0;
  static auto members(auto& self) { return std::tie(self.buffer); }
};

/// Of so few bytes, in plain memory, workers copy at once, on the thread that receives.
inline constexpr size_t kQuickBytes = size_t{1} << 20;

/// With number 0 it has no answer. Then it must be of at most kQuickBytes in plain memory, so that it precedes all
/// later requests, and an error is that of the next run.
struct SetRequest {
  WireTensor tensor;
  uint64_t offset = 0;
  Payload bytes{};
  static auto members(auto& self) { return std::tie(self.tensor, self.offset, self.bytes); }
};

struct GetRequest {
  WireTensor tensor;
  uint64_t offset = 0;
  uint64_t n = 0;
  static auto members(auto& self) { return std::tie(self.tensor, self.offset, self.n); }
};

struct ClearRequest {
  uint64_t buffer = 0;
  uint8_t value = 0;
  bool is_reset = false;
  static auto members(auto& self) { return std::tie(self.buffer, self.value, self.is_reset); }
};

/// A file that should be the same for both ranks. The answer has its number.
struct OpenFileRequest {
  std::string path;
  uint64_t n_bytes = 0;
  uint64_t hash = 0;  // of samples (file_samples.h)
  static auto members(auto& self) { return std::tie(self.path, self.n_bytes, self.hash); }
};

/// Like SetRequest, with bytes of a file.
struct LoadRequest {
  WireTensor tensor;
  uint64_t offset = 0;
  uint64_t file = 0;
  uint64_t file_offset = 0;
  uint64_t n = 0;
  static auto members(auto& self) { return std::tie(self.tensor, self.offset, self.file, self.file_offset, self.n); }
};

/// Both tensors are on the worker.
struct CopyRequest {
  WireTensor from;
  WireTensor to;
  static auto members(auto& self) { return std::tie(self.from, self.to); }
};

/// Sends all of a tensor to another worker, which waits for it with a ReceiveCopyRequest of the same copy.
struct SendCopyRequest {
  WireTensor from;
  uint32_t to_rank = 0;
  uint64_t copy = 0;
  static auto members(auto& self) { return std::tie(self.from, self.to_rank, self.copy); }
};

/// Its answer says that the bytes have come and are in the tensor.
struct ReceiveCopyRequest {
  WireTensor to;
  uint32_t from_rank = 0;
  uint64_t copy = 0;
  static auto members(auto& self) { return std::tie(self.to, self.from_rank, self.copy); }
};

/// From one worker to another.
struct CopyMessage {
  uint64_t copy = 0;
  Payload bytes{};
  static auto members(auto& self) { return std::tie(self.copy, self.bytes); }
};

struct OpenBackendRequest {
  uint32_t device = 0;
  int32_t n_threads = 1;  // 0: as many as the worker's options say
  ActivationPrecision activations = ActivationPrecision::automatic;
  static auto members(auto& self) { return std::tie(self.device, self.n_threads, self.activations); }
};

struct PeaksRequest {
  uint32_t device = 0;
  int32_t n_threads = 1;  // 0: as many as the worker's options say
  static auto members(auto& self) { return std::tie(self.device, self.n_threads); }
};

/// The members of DevicePeaks.
struct PeaksAnswer {
  double int8_gmacs = 0;
  double f32_gmacs = 0;
  double int16_gmacs = 0;
  double read_gbps = 0;
  static auto members(auto& self) {
    return std::tie(self.int8_gmacs, self.f32_gmacs, self.int16_gmacs, self.read_gbps);
  }
};

struct CloseBackendRequest {
  uint64_t backend = 0;
  static auto members(auto& self) { return std::tie(self.backend); }
};

struct WorkBytesRequest {
  uint64_t backend = 0;
  WireGraph graph;
  static auto members(auto& self) { return std::tie(self.backend, self.graph); }
};

/// The memory of a value: of the same number as its node.
struct WirePlace {
  uint64_t buffer = 0;
  uint64_t offset = 0;
  static auto members(auto& self) { return std::tie(self.buffer, self.offset); }
};

struct CompileRequest {
  uint64_t backend = 0;
  WireGraph graph;
  std::vector<WirePlace> places;
  WirePlace work;
  uint64_t work_bytes = 0;
  static auto members(auto& self) {
    return std::tie(self.backend, self.graph, self.places, self.work, self.work_bytes);
  }
};

struct FreePlanRequest {
  uint64_t backend = 0;
  uint64_t plan = 0;
  static auto members(auto& self) { return std::tie(self.backend, self.plan); }
};

struct RunRequest {
  uint64_t backend = 0;
  uint64_t plan = 0;
  bool is_timed = false;
  static auto members(auto& self) { return std::tie(self.backend, self.plan, self.is_timed); }
};

/// Asks that a run ends soon. It has no answer of its own: the run's says that it was cancelled.
struct CancelRequest {
  uint64_t request = 0;
  static auto members(auto& self) { return std::tie(self.request); }
};

struct WireTime {
  int32_t node = 0;
  std::array<double, 4> us{};  // begin, duration, prepare, wait
  static auto members(auto& self) { return std::tie(self.node, self.us); }
};

struct TimesAnswer {
  std::vector<WireTime> times;
  static auto members(auto& self) { return std::tie(self.times); }
};

/// Success, with the number of what was made, or of bytes.
struct DoneAnswer {
  uint64_t number = 0;
  static auto members(auto& self) { return std::tie(self.number); }
};

struct BytesAnswer {
  Payload bytes{};
  static auto members(auto& self) { return std::tie(self.bytes); }
};

template <>
inline constexpr ErrorCode kLastOf<ErrorCode> = ErrorCode::internal;

struct ErrorAnswer {
  ErrorCode code = ErrorCode::internal;
  std::string text;
  static auto members(auto& self) { return std::tie(self.code, self.text); }
};

/// The kind of a message is its place in this list.
using Message = std::variant<HelloRequest, WelcomeAnswer, MemoryRequest, MemoryAnswer, AllocateRequest, FreeRequest,
                             SetRequest, GetRequest, ClearRequest, CopyRequest, OpenBackendRequest, CloseBackendRequest,
                             WorkBytesRequest, CompileRequest, FreePlanRequest, RunRequest, CancelRequest, TimesAnswer,
                             DoneAnswer, BytesAnswer, ErrorAnswer, OpenFileRequest, LoadRequest, SendCopyRequest,
                             ReceiveCopyRequest, CopyMessage, PeaksRequest, PeaksAnswer>;

struct Envelope {
  uint64_t request = 0;  // an answer has the number of its request
  Message message{};
};

std::vector<std::byte> encode(const Envelope& envelope);
/// The message may borrow from the bytes. Errors: mismatch (another version); format.
Result<Envelope> decode(std::span<const std::byte> bytes);

/// Bytes of a message beside those of its lists and texts, at most.
inline constexpr size_t kMessageOverhead = 512;

}  // namespace tessera::mpi
