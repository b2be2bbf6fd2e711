// A stream of work on a worker, as rank 0 sees it.
#pragma once

#include <memory>

#include "tessera/backend/backend.h"
#include "tessera/mpi/buffer.h"

namespace tessera::mpi {

/// device: the device of rank 0, in whose memory all tensors are.
Result<std::unique_ptr<Backend>> open_backend(const Device& device, const RemoteDevice& remote,
                                              const BackendOptions& options);

}  // namespace tessera::mpi
