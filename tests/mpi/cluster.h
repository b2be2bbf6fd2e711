// Rank 0 and workers as threads of one process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/cpu/backend.h"
#include "tessera/mpi/device.h"
#include "tessera/mpi/handshake.h"
#include "tessera/mpi/thread_network.h"
#include "tessera/mpi/worker.h"
#include "tests/support/fake_device.h"
#include "tests/support/testing.h"

namespace tessera::testing {

// A busy machine may stop a thread for long; only tests of silence shorten the timeout. Small frames divide messages.
inline constexpr mpi::LinkOptions kPatientLink{
    .heartbeat = std::chrono::milliseconds(20), .timeout = std::chrono::minutes(2), .frame_bytes = 1000};

using DeviceMaker = std::function<std::unique_ptr<Device>()>;

inline std::unique_ptr<Device> scalar_cpu() { return cpu::create_device("scalar").value(); }

struct ClusterOptions {
  mpi::ThreadNetworkOptions network{};
  mpi::LinkOptions link = kPatientLink;
  std::vector<DeviceMaker> devices{scalar_cpu};  // of each worker; rank 0 makes the twins in the same way
};

class Cluster {
 public:
  explicit Cluster(ClusterOptions options = {}) : options_(std::move(options)), network_(options_.network) {
    results_.resize(static_cast<size_t>(options_.network.n_ranks));
    for (int rank = 1; rank < options_.network.n_ranks; ++rank) {
      stops_.push_back(std::make_unique<CancelToken>());
      threads_.emplace_back([this, rank, stop = stops_.back().get()] {
        const auto find = [this](std::span<const std::string>) -> Result<std::vector<std::unique_ptr<Device>>> {
          std::vector<std::unique_ptr<Device>> devices;
          for (const DeviceMaker& make : options_.devices) devices.push_back(make());
          return devices;
        };
        mpi::Identity identity = mpi::own_identity("test");
        identity.host = "host" + std::to_string(rank);
        results_[static_cast<size_t>(rank)] = mpi::serve(network_.of(rank), {.identity = identity,
                                                                             .find_devices = find,
                                                                             .link = options_.link,
                                                                             .threads = {.n_threads = 2},
                                                                             .stop = stop});
      });
    }
  }
  ~Cluster() { close(); }

  /// Makes the devices of rank 0.
  Result<> connect(const std::string& program = "test") {
    TESSERA_ASSIGN(client_, mpi::Client::create(network_.of(0), options_.link));
    TESSERA_TRY(client_->greet({.identity = mpi::own_identity(program),
                                .isas = {"scalar"},
                                .timeout_ms = static_cast<uint32_t>(options_.link.timeout.count())}));
    size_t next = 0;
    TESSERA_ASSIGN(auto found, mpi::create_devices(client_, [&](const mpi::WireDevice&) {
                     return Result<std::unique_ptr<Device>>(options_.devices[next++ % options_.devices.size()]());
                   }));
    devices_ = std::move(found.devices);
    return {};
  }

  mpi::ThreadNetwork& network() { return network_; }
  mpi::Client& client() { return *client_; }
  const std::vector<std::unique_ptr<Device>>& devices() const { return devices_; }
  const Device& device(size_t i = 0) const { return *devices_[i]; }

  void stop_worker(int rank) {
    stops_[static_cast<size_t>(rank - 1)]->cancel();
    threads_[static_cast<size_t>(rank - 1)].join();
  }
  /// Ends rank 0 and waits for the workers. Returns how a worker ended.
  Result<> close(int rank = 1) {
    devices_.clear();
    client_.reset();
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
    return results_[static_cast<size_t>(rank)];
  }

 private:
  ClusterOptions options_;
  mpi::ThreadNetwork network_;
  std::vector<std::unique_ptr<CancelToken>> stops_;
  std::vector<Result<>> results_;
  std::vector<std::thread> threads_;
  std::shared_ptr<mpi::Client> client_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace tessera::testing
