// --log-sched: which device runs each node of a step, and why, on stderr.
#pragma once

#include "tessera/engine/session.h"

namespace tessera::cli {

/// Tells of a full micro-batch and of one token, as a session computes them.
Result<> log_schedules(const Session& session);
/// The same before anything is loaded.
Result<> log_schedules(const Engine& engine, const SessionOptions& options);

}  // namespace tessera::cli
