// Plans of memory as tessera.h has them, and the options of sessions that they need.
#pragma once

#include <span>

#include "tessera/capi/objects.h"
#include "tessera/engine/memory_report.h"
#include "tessera/engine/session_options.h"

namespace tessera::capi {

/// The options of a session, with the threads of the runtime. Errors: invalid_argument.
Result<SessionOptions> session_options(const tessera_model& model, const tessera_session_options* options);

/// The bytes of parts that count for the budget of a runtime: all but mapped files, whose pages the system can drop.
uint64_t counted_bytes(std::span<const MemoryPart> parts);
/// Likewise, of a session without its model.
uint64_t counted_session_bytes(const Engine& engine, const MemoryReport& report);

/// Errors: those of write_items().
Result<> write_parts(std::span<const MemoryPart> report, tessera_memory_part* parts, uint64_t room, uint64_t* needed);

}  // namespace tessera::capi
