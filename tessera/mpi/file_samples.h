// The comparison of a file on two hosts by samples: reading all of a model would take as long as loading it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "tessera/base/result.h"

namespace tessera::mpi {

/// A hash of the size of a file, its first MiB, in which a model has its metadata and the list of its tensors, and 256
/// samples of the rest. read: fills a range with the bytes from an offset on. Errors: those of read.
Result<uint64_t> hash_of_samples(uint64_t n_bytes, const std::function<Result<>(uint64_t, std::span<std::byte>)>& read);

}  // namespace tessera::mpi
