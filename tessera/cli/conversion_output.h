// Output of a planned conversion, with its progress and a line for its result.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/thread_pool.h"
#include "tessera/cli/command.h"
#include "tessera/convert/conversion.h"

namespace tessera::cli {

/// A conversion, what it writes, and the bytes of that.
struct PlannedOutput {
  const convert::Conversion& conversion;
  const convert::QuantizePlan& plan;
  const convert::QuantizeOptions& options;
  uint64_t n_bytes = 0;
};

enum class PartialFiles : uint8_t {
  discard,
  resume,  // continue those of the same plan, and keep them after an interrupt
};

/// Writes the output to a path, or to the paths of its parts, and logs its size and time.
/// Errors: limit (too little space on the disk); those of convert::open_output() and convert::write_quantized().
Result<> write_conversion(const PlannedOutput& planned, const std::string& path, PartialFiles mode, ThreadPool& threads,
                          const Context& process);

}  // namespace tessera::cli
