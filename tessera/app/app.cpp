#include "tessera/app/app.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <ranges>

#include "tessera/app/job.h"
#include "tessera/backend/plugin.h"
#include "tessera/blas/backend.h"
#include "tessera/cpu/backend.h"
#include "tessera/cuda/backend.h"
#include "tessera/isa/sets.h"
#ifdef TESSERA_HAVE_VULKAN
#include "tessera/vulkan/backend.h"
#endif

namespace tessera {

namespace {

PluginSearch plugin_search(const RegistryOptions& options) {
  PluginSearch search{.folders = {}, .paths = options.plugins, .reserved = {"cpu", "blas", "vulkan", "cuda", "mpi"}};
  if (!options.use_environment) return search;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) search.folders.push_back(program.parent_path().parent_path() / "lib/tessera/backends");
  const char* named = std::getenv("TESSERA_BACKENDS");
  for (const auto part : std::views::split(std::string_view(named == nullptr ? "" : named), ':'))
    if (!part.empty()) search.paths.emplace_back(part.begin(), part.end());
  return search;
}

// CUDA's devices come first: they are the same GPUs as Vulkan's, with faster kernels. Devices of plugins come last
// because they may be arbitrarily slow.
FoundDevices find_devices(const RegistryOptions& options) {
  FoundDevices found{{}};
  const auto add = [&](FoundDevices more) {
    std::ranges::move(more.devices, std::back_inserter(found.devices));
    std::ranges::move(more.notes, std::back_inserter(found.notes));
  };
  const auto add_backend = [&](const auto& settings, auto find) {
    if (settings)
      add(find(*settings));
    else
      found.notes.push_back(settings.error().message());
  };
  add_backend(options.use_environment ? cuda::options_from_environment() : cuda::Options(), cuda::find_devices);
#ifdef TESSERA_HAVE_VULKAN
  add_backend(options.use_environment ? vulkan::options_from_environment() : vulkan::Options(),
              [](const vulkan::Options& settings) { return FoundDevices(vulkan::find_devices(settings)); });
#endif
  add(find_plugins(plugin_search(options)));
  return found;
}

// Opening Vulkan takes a tenth of a second at each start. This check avoids it on a machine without a GPU. Plugins
// may have devices of any kind.
bool may_find_gpus(const RegistryOptions& options) {
  const PluginSearch search = plugin_search(options);
  const auto exists = [](const auto& path) {
    std::error_code error;
    return std::filesystem::exists(path, error);
  };
  return !search.paths.empty() || std::ranges::any_of(search.folders, exists) ||
         std::ranges::any_of(std::array{"/dev/dri", "/dev/nvidiactl", "/dev/kfd", "/dev/dxg"}, exists);
}

// The instruction sets that other ranks may use beside this CPU: the one that was chosen, or all.
std::vector<std::string> sets_of(const Device& cpu, const std::string& chosen) {
  std::vector<std::string> sets = chosen.empty() ? isa::usable_isas() : std::vector<std::string>();
  for (const auto& [name, value] : cpu.properties())
    if (name == "isa" && (sets.empty() || sets.back() != value)) sets = {value};  // also if $TESSERA_ISA names it
  return sets;
}

}  // namespace

Result<std::unique_ptr<Registry>> create_registry(RegistryOptions options) {
  auto registry = std::make_unique<Registry>();
  // Without a name, the device takes the set that $TESSERA_ISA names.
  if (options.isa.empty() && !options.use_environment) options.isa = isa::usable_isas().back();
  TESSERA_ASSIGN(auto cpu, cpu::create_device(options.isa, options.allocator));
  registry->add_named("blas", [&cpu = *cpu, uses_environment = options.use_environment] {
    const char* file = uses_environment ? std::getenv("TESSERA_BLAS") : nullptr;
    return blas::create_device(cpu, file == nullptr ? "" : file);
  });
  if (Job* job = options.use_environment ? Job::current() : nullptr) {
    TESSERA_TRY(job->add_devices(*registry, sets_of(*cpu, options.isa)));
  } else {
    registry->add_group("mpi", {}, "this process has no other ranks (mpirun -np 2 tessera ... starts two)");
  }
  registry->add(std::move(cpu));
  registry->set_finder([options] { return find_devices(options); }, [options] { return may_find_gpus(options); });
  return registry;
}

}  // namespace tessera
