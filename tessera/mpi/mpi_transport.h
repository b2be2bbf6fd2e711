// The transport of a job of mpirun, by libtessera-mpi.so.
#pragma once

#include <memory>
#include <string>

#include "tessera/mpi/transport.h"

namespace tessera::mpi {

/// Name of the library in its folder.
inline constexpr const char* kLibraryName = "libtessera-mpi.so";

class MpiTransport : public Transport {
 public:
  /// Opens the library and joins the job. A process can do this once. Errors: io (the library cannot be opened, or
  /// MPI does not start), format (it is no such library), mismatch (another version).
  static Result<std::unique_ptr<MpiTransport>> join(const std::string& library);

  /// Name and version of the MPI library.
  virtual std::string library_text() const = 0;
  /// Leaves the job, once nobody else uses the transport. All other ranks must do the same. A rank that does not leave
  /// makes mpirun end the others when its process ends. Errors: io (others have not left at the deadline).
  virtual Result<> leave(Clock::time_point deadline) = 0;
};

}  // namespace tessera::mpi
