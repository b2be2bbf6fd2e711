// Models of a hub that has only a checkpoint: converted once, to a file in the cache.
#pragma once

#include <string>

#include "tessera/cli/command.h"
#include "tessera/hub/hub.h"

namespace tessera::cli {

/// Converts a checkpoint of the cache unless that has the result, and returns the path of the result. tag: the type of
/// the file, such as Q4_K_M; "": the best type that leaves room in the machine's memory. The choice is logged before.
/// An interrupted conversion is continued by the next call. If another process converts the checkpoint, it is waited
/// for. Errors: not_found (a tag that is no type); limit (no type leaves room); cancelled; those of conversions.
Result<std::string> convert_fetched(const hub::Found& found, const std::string& cache_dir, const std::string& tag,
                                    const Context& process);

}  // namespace tessera::cli
