// A stream of work on a worker, as rank 0 sees it.
#pragma once

#include <memory>

#include "tessera/backend/backend.h"
#include "tessera/mpi/buffer.h"

namespace tessera::mpi {

/// The number of threads in a message: 0, which stands for the worker's default, if it is the default here. Machines
/// have different numbers of cores.
int32_t wire_threads(const ThreadPoolOptions& threads);

/// device: the device of rank 0, in whose memory all tensors are.
Result<std::unique_ptr<Backend>> open_backend(const Device& device, const RemoteDevice& remote,
                                              const BackendOptions& options);

}  // namespace tessera::mpi
