#include "tessera/app/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "tessera/base/cpu_info.h"
#include "tessera/cpu/backend.h"
#include "tessera/isa/sets.h"
#include "tessera/mpi/device.h"
#include "tessera/mpi/handshake.h"
#include "tessera/mpi/worker.h"

namespace tessera {

namespace {

constexpr std::chrono::milliseconds kLeaveTimeout{5000}, kStopGrace{500};
// The instruction set whose results differ from those of all others (docs/kernels.md).
constexpr std::string_view kScalar = "scalar";

Job* g_current = nullptr;  // a process is in one job

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

bool has_other_ranks() {
  const std::string_view size = variable("OMPI_COMM_WORLD_SIZE");
  int n = 0;
  std::from_chars(size.data(), size.data() + size.size(), n);
  return n > 1 && variable("TESSERA_MPI") != "off";
}

// $TESSERA_MPI, or the library of the installation that the program is in.
Result<std::string> find_library() {
  if (const std::string_view named = variable("TESSERA_MPI"); !named.empty()) return std::string(named);
  std::error_code error;
  const auto prefix = std::filesystem::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  std::filesystem::path library;
  for (const char* folder : {"lib", TESSERA_LIBDIR}) {  // of a build, and of an installation
    library = prefix / folder / "tessera" / mpi::kLibraryName;
    if (!error && std::filesystem::exists(library, error)) return library.string();
  }
  return fail(ErrorCode::not_found,
              "mpirun started several processes, but this build has no {} (it is built where Open MPI's headers are; "
              "TESSERA_MPI names another one, and TESSERA_MPI=off lets each process work by itself)",
              library.string());
}

// The device of a worker: its CPU, with the fastest instruction set that rank 0 has, too. GPUs are left out, because
// rank 0 could make no twins of them.
Result<std::vector<std::unique_ptr<Device>>> find_worker_devices(std::span<const std::string> wanted) {
  const std::vector<std::string> usable = isa::usable_isas();
  const auto common = std::find_if(wanted.rbegin(), wanted.rend(), [&](const std::string& name) {
    return std::ranges::find(usable, name) != usable.end();
  });
  if (common == wanted.rend())
    return fail(ErrorCode::unsupported, "this CPU has none of rank 0's instruction sets ({})", fmt::join(wanted, ", "));
  std::vector<std::unique_ptr<Device>> devices;
  TESSERA_ASSIGN(auto cpu, cpu::create_device(*common));
  devices.push_back(std::move(cpu));
  return devices;
}

Result<std::unique_ptr<Device>> make_twin(const mpi::WireDevice& wire) {
  if (wire.kind != DeviceKind::cpu)
    return fail(ErrorCode::unsupported, "only CPUs of other ranks are used, not a {}", wire.description);
  const auto isa = std::ranges::find(wire.properties, "isa", &mpi::WireProperty::name);
  return cpu::create_device(isa == wire.properties.end() ? "" : isa->value);
}

}  // namespace

Result<std::unique_ptr<Job>> Job::join(std::string program) {
  if (!has_other_ranks()) return nullptr;
  TESSERA_ASSIGN(const std::string library, find_library());
  std::unique_ptr<Job> job(new Job(std::move(program)));
  TESSERA_ASSIGN(job->transport_, mpi::MpiTransport::join(library));
  if (job->rank() == 0) {
    TESSERA_ASSIGN(job->client_, mpi::Client::create(*job->transport_, {}));
  }
  g_current = job.get();
  return job;
}

Job* Job::current() { return g_current; }

Job::~Job() { g_current = nullptr; }

std::string Job::host() const { return mpi::own_identity(program_).host; }

std::string Job::name() const {
  return rank() == 0 ? fmt::format("rank 0 ({})", host()) : fmt::format("mpi:{} ({})", rank(), host());
}

Result<> Job::serve(const CancelToken& stop) {
  return mpi::serve(*transport_, {.identity = mpi::own_identity(program_),
                                  .find_devices = find_worker_devices,
                                  .link = {},
                                  .threads = {.n_threads = default_thread_count()},
                                  .stop = &stop,
                                  .grace = kStopGrace});
}

void Job::set_timeout(std::chrono::milliseconds timeout) {
  timeout_ = timeout;
  client_->set_timeout(timeout);
}

Result<> Job::add_devices(Registry& registry, const std::vector<std::string>& isas) {
  if (!has_greeted_) TESSERA_TRY(greet(isas));
  TESSERA_ASSIGN(mpi::RemoteDevices found, mpi::create_devices(client_, make_twin));
  for (auto& device : found.devices) {
    for (const auto& [name, value] : device->properties())
      if (name == "isa" && (value == kScalar) != (isas.back() == kScalar))
        return fail(ErrorCode::mismatch,
                    "{} computes with {}, rank 0 with {}: results would differ (TESSERA_ISA={} makes them equal)",
                    device->name(), value, isas.back(), kScalar);
    registry.add(std::move(device));
  }
  registry.add_notes(std::move(found.notes));
  registry.add_group("mpi", std::move(found.preferred), "no rank has a device that can be used");
  return {};
}

Result<bool> Job::has_file(int rank, const FileBytes& file) {
  TESSERA_ASSIGN(const std::optional<uint64_t> number, client_->find_file(rank, file));
  return number.has_value();
}

Result<> Job::greet(const std::vector<std::string>& isas) {
  TESSERA_TRY(client_->greet(
      {.identity = mpi::own_identity(program_), .isas = isas, .timeout_ms = static_cast<uint32_t>(timeout_.count())}));
  has_greeted_ = true;
  return {};
}

Result<> Job::leave(bool is_interrupted) {
  const bool has_lost = client_ != nullptr && client_->has_lost();
  client_.reset();
  if (has_lost) return fail(ErrorCode::io, "a rank was lost");
  if (is_interrupted) return fail(ErrorCode::cancelled, "interrupted");
  return transport_->leave(mpi::Clock::now() + kLeaveTimeout);
}

}  // namespace tessera
