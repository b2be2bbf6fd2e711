// The devices of workers as rank 0 sees them: ordinary devices (backend/backend.h), named "mpi:1", or "mpi:1/NAME" if a
// rank has several. Memory and work are requests to the worker. What depends only on the kind of device (which nodes it
// runs, how large tensors are in its memory) is answered here, by a twin: a device of this process that is like the
// worker's and is used for nothing else.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/mpi/client.h"

namespace tessera::mpi {

/// Makes the twin of a worker's device. Errors: unsupported (this process has no such device).
using TwinMaker = std::function<Result<std::unique_ptr<Device>>(const WireDevice&)>;

struct RemoteDevices {
  std::vector<std::unique_ptr<Device>> devices;  // by rank
  std::vector<std::string> preferred;            // names: of each rank its GPUs, or its CPU if it has none
  std::vector<std::string> notes;                // a line for each device that cannot be used, with the reason
};

/// The devices of all workers. They keep the client. Errors: those of the maker, other than unsupported; mismatch (the
/// twin has other memories, or another instruction set).
Result<RemoteDevices> create_devices(std::shared_ptr<Client> client, const TwinMaker& make_twin);

}  // namespace tessera::mpi
