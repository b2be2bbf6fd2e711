// Plans of memory as tessera.h has them, and the options of sessions that they need.
#pragma once

#include <span>

#include "tessera/capi/objects.h"
#include "tessera/engine/memory_report.h"
#include "tessera/engine/session_options.h"

namespace tessera::capi {

/// The threads of a session. Errors: invalid_argument (more than the runtime has).
Result<> set_threads(const tessera_model& model, int32_t n_threads, SessionOptions& options);
/// The options of a session, with the threads of the runtime. Errors: invalid_argument.
Result<SessionOptions> session_options(const tessera_model& model, const tessera_session_options* options);

/// The bytes of parts that count for the budget of a runtime: all but mapped files, whose pages the system can drop.
uint64_t counted_bytes(std::span<const MemoryPart> parts);
/// Takes the memory of a session, without its model and adapters, from the runtime's budget. Errors: out_of_memory;
/// those of Session::plan().
Result<BudgetShare> take_session_memory(const tessera_model& model, const SessionOptions& options);

/// Errors: those of write_items().
Result<> write_parts(std::span<const MemoryPart> report, tessera_memory_part* parts, uint64_t room, uint64_t* needed);

}  // namespace tessera::capi
