// Which device runs each node of a step, and why, as text (--log-sched).
#pragma once

#include <string>

#include "tessera/engine/session.h"

namespace tessera::observe {

/// The steps of a full micro-batch and of one token, as a session computes them; the last line is not ended.
Result<std::string> describe_schedules(const Session& session);

}  // namespace tessera::observe
