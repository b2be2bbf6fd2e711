// The processes that mpirun started together: rank 0 runs the command, and the others lend it their devices.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "tessera/backend/backend.h"
#include "tessera/base/cancel.h"
#include "tessera/mpi/client.h"
#include "tessera/mpi/mpi_transport.h"

namespace tessera {

class Job {
 public:
  /// The job of this process, or null if mpirun did not start several processes ($OMPI_COMM_WORLD_SIZE) or $TESSERA_MPI
  /// is "off". MPI allows one per process. program: its version, which must be that of all ranks. Errors: io (the
  /// library of MPI is missing); those of MpiTransport::join().
  static Result<std::unique_ptr<Job>> join(std::string program);
  /// The job that is joined now, or null.
  static Job* current();
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const { return transport_->rank(); }
  int n_ranks() const { return transport_->n_ranks(); }
  std::string host() const;
  /// For errors: "mpi:1 (hostb)".
  std::string name() const;

  /// On ranks other than 0: works for rank 0 until it ends. Errors: those of mpi::serve().
  Result<> serve(const CancelToken& stop);

  // On rank 0:

  void set_files(mpi::FileMode mode, std::string path) { client_->set_files(mode, std::move(path)); }
  /// How long a rank may be silent, at least 100 ms. Before add_devices().
  void set_timeout(std::chrono::milliseconds timeout);
  /// Adds the devices of the other ranks ("mpi:1", "mpi:2/cuda:0") and a group of them ("mpi") to a registry whose CPU
  /// uses an instruction set of `isas`, fastest last. Errors: mismatch (a rank whose results would differ); io (a rank
  /// is lost); those of the other ranks.
  Result<> add_devices(Registry& registry, const std::vector<std::string>& isas);

  /// Whether a rank loads weights from its own file, which is the same as this one. Errors: those of
  /// mpi::Client::find_file().
  Result<bool> has_file(int rank, const FileBytes& file);

  /// Ends the work of the other ranks, and leaves. Nobody may use devices of the job any more. If it fails, the process
  /// must end without destroying what MPI uses. is_interrupted: mpirun is ending all ranks already, so that none waits
  /// for the others. Errors: io (other ranks did not leave; a rank was lost); cancelled (is_interrupted).
  Result<> leave(bool is_interrupted);

 private:
  explicit Job(std::string program) : program_(std::move(program)) {}
  Result<> greet(const std::vector<std::string>& isas);

  std::string program_;
  std::unique_ptr<mpi::MpiTransport> transport_;
  std::chrono::milliseconds timeout_{5000};
  std::shared_ptr<mpi::Client> client_;  // null on other ranks
  bool has_greeted_ = false;
};

}  // namespace tessera
