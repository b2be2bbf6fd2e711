// Text of --log-sched: the device of each node of a step, and the reason.
#pragma once

#include <string>

#include "tessera/engine/session.h"

namespace tessera::observe {

/// Describes a session's steps of a full micro-batch and of one token. The last line has no line end.
Result<std::string> describe_schedules(const Session& session);

}  // namespace tessera::observe
