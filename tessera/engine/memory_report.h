// Bytes by buffer: what an engine and a session take. Computed before anything is allocated; what is allocated later
// are these very bytes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

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

  size_t bytes(MemoryPart::Kind kind) const {
    size_t total = 0;
    for (const MemoryPart& part : parts)
      if (part.kind == kind) total += part.bytes;
    return total;
  }
  size_t total() const {
    size_t total = 0;
    for (const MemoryPart& part : parts) total += part.bytes;
    return total;
  }
};

}  // namespace tessera
