// A rank that works for rank 0: it answers requests about its devices until rank 0 ends.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/base/cancel.h"
#include "tessera/mpi/link.h"
#include "tessera/mpi/message.h"

namespace tessera::mpi {

/// Finds the devices of a worker. isas: the instruction sets of rank 0's CPU, fastest last; the worker's CPU should use
/// the fastest that both have.
using DeviceFinder = std::function<Result<std::vector<std::unique_ptr<Device>>>(std::span<const std::string> isas)>;

struct WorkerOptions {
  Identity identity;
  DeviceFinder find_devices;
  LinkOptions link{};
  ThreadPoolOptions threads{};         // of a backend, if rank 0 leaves their number to the worker
  const CancelToken* stop = nullptr;   // ends the worker early, e.g. after a signal
  std::chrono::milliseconds grace{0};  // after a stop, for rank 0 to say that it ends
};

/// Returns when rank 0 has said that it ends. Errors: cancelled (stopped before that); io (rank 0 is lost).
Result<> serve(Transport& transport, const WorkerOptions& options);

}  // namespace tessera::mpi
