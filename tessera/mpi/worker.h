// A rank that works for rank 0: it answers requests about its devices until rank 0 ends.
#pragma once

#include <memory>
#include <span>

#include "tessera/backend/backend.h"
#include "tessera/base/cancel.h"
#include "tessera/mpi/link.h"
#include "tessera/mpi/message.h"

namespace tessera::mpi {

struct WorkerOptions {
  Identity identity;
  LinkOptions link{};
  ThreadPoolOptions threads{};        // of a backend, if rank 0 leaves their number to the worker
  const CancelToken* stop = nullptr;  // ends the worker early, e.g. after a signal
};

/// Returns when rank 0 has said that it ends, or when the worker was stopped. Errors: io (rank 0 is lost).
Result<> serve(Transport& transport, std::span<const std::unique_ptr<Device>> devices, const WorkerOptions& options);

}  // namespace tessera::mpi
