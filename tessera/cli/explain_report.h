// Output of `tessera bench --explain`: the time of a phase by kind of work.
#pragma once

#include <string>
#include <vector>

#include "tessera/json/json.h"
#include "tessera/observe/session_bench.h"

namespace tessera::cli {

/// A line with the share of the bound, and a table of the parts.
std::string describe(const observe::ExplainedPhase& phase);

/// An array of phases, each with its parts. Times are in seconds.
Json to_json(const std::vector<observe::ExplainedPhase>& phases);

}  // namespace tessera::cli
