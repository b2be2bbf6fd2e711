// Memory nodes in the memory policy of the operating system. Used by the CPU buffer type that is spread over nodes.
// numa.h lists the CPUs of each node.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tessera/base/result.h"

namespace tessera {

/// The numbers of the nodes on which this process may have memory; {0} if the system has no notion of nodes. Errors:
/// unsupported (the system refuses the query).
Result<std::vector<int>> memory_nodes();

/// Asks the system to distribute the pages of an untouched mapping round robin over memory_nodes() (a large page stays
/// whole). The mapping starts at a page boundary. Errors: unsupported (the system refuses, and there are several
/// nodes).
Result<> interleave_pages(std::span<std::byte> mapping);

}  // namespace tessera
