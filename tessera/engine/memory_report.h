// The memory of an engine and a session, in bytes by buffer. The report is computed before anything is allocated, and
// later allocations have exactly these sizes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/backend/tensor_memory.h"

namespace tessera {

struct MemoryPart {
  enum class Kind { weights, cache, compute, output };
  Kind kind;
  std::string device;  // "cpu"
  std::string buffer;  // "cpu-packed"; "cpu-mapped" for weights that are used in the mapped file
  size_t bytes = 0;
};

struct MemoryReport {
  std::vector<MemoryPart> parts;

  void add(const std::vector<MemoryPart>& more) { parts.insert(parts.end(), more.begin(), more.end()); }
  /// Adds a second session of the same engine: its parts without the weights.
  void add_session(const MemoryReport& second) {
    for (const MemoryPart& part : second.parts)
      if (part.kind != MemoryPart::Kind::weights) parts.push_back(part);
  }

  size_t bytes(MemoryPart::Kind kind) const {
    size_t total = 0;
    for (const MemoryPart& part : parts)
      if (part.kind == kind) total += part.bytes;
    return total;
  }
  /// Bytes that must be free on a device. Mapped weights do not count: the system can drop their file pages. Output
  /// rows count for the CPU.
  size_t bytes_of(std::string_view device) const {
    size_t total = 0;
    for (const MemoryPart& part : parts) {
      const std::string_view of = part.device == "host" ? "cpu" : std::string_view(part.device);
      if (of == device && !part.buffer.ends_with("-mapped")) total += part.bytes;
    }
    return total;
  }
  size_t total() const {
    size_t total = 0;
    for (const MemoryPart& part : parts) total += part.bytes;
    return total;
  }
};

/// One part per buffer type.
inline std::vector<MemoryPart> memory_parts(MemoryPart::Kind kind, std::span<const TypeBytes> bytes) {
  std::vector<MemoryPart> parts;
  for (const TypeBytes& one : bytes)
    parts.push_back({kind, std::string(one.type->device().name()), std::string(one.type->name()), one.bytes});
  return parts;
}

}  // namespace tessera
