// Memory nodes as the system's memory policy sees them; used by the CPU's memory that is spread over nodes. Which CPUs
// belong to a node is numa.h's.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tessera/base/result.h"

namespace tessera {

/// The numbers of the nodes on which this process may have memory; {0} where the system knows no nodes.
/// Errors: unsupported (the system refuses to tell).
Result<std::vector<int>> memory_nodes();

/// Asks that the pages of a mapping that was not touched yet lie on all of memory_nodes() in turn (large pages as a
/// whole). It starts on a page. Errors: unsupported (the system refuses, and there are several nodes).
Result<> interleave_pages(std::span<std::byte> mapping);

}  // namespace tessera
