#include "tessera/app/app.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <ranges>

#include "tessera/backend/plugin.h"
#include "tessera/blas/backend.h"
#include "tessera/cpu/backend.h"
#include "tessera/cuda/backend.h"
#ifdef TESSERA_HAVE_VULKAN
#include "tessera/vulkan/backend.h"
#endif

namespace tessera {

namespace {

// Plugins are searched in the folder of the installed or built program and at the paths in TESSERA_BACKENDS.
PluginSearch plugin_search() {
  PluginSearch search{.folders = {}, .paths = {}, .reserved = {"cpu", "blas", "vulkan", "cuda"}};
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
FoundDevices find_devices() {
  FoundDevices found{{}};
  const auto add = [&](FoundDevices more) {
    std::ranges::move(more.devices, std::back_inserter(found.devices));
    std::ranges::move(more.notes, std::back_inserter(found.notes));
  };
  const auto add_backend = [&](const auto& options, auto find) {
    if (options)
      add(find(*options));
    else
      found.notes.push_back(options.error().message());
  };
  add_backend(cuda::options_from_environment(), cuda::find_devices);
#ifdef TESSERA_HAVE_VULKAN
  add_backend(vulkan::options_from_environment(),
              [](const vulkan::Options& options) { return FoundDevices(vulkan::find_devices(options)); });
#endif
  add(find_plugins(plugin_search()));
  return found;
}

// Opening Vulkan takes a tenth of a second at each start. This check avoids it on a machine without a GPU. Plugins
// may have devices of any kind.
bool may_find_gpus() {
  const PluginSearch search = plugin_search();
  const auto exists = [](const auto& path) {
    std::error_code error;
    return std::filesystem::exists(path, error);
  };
  return !search.paths.empty() || std::ranges::any_of(search.folders, exists) ||
         std::ranges::any_of(std::array{"/dev/dri", "/dev/nvidiactl", "/dev/kfd", "/dev/dxg"}, exists);
}

}  // namespace

Result<std::unique_ptr<Registry>> create_registry(const std::string& isa) {
  auto registry = std::make_unique<Registry>();
  TESSERA_ASSIGN(auto cpu, cpu::create_device(isa));
  registry->add_named("blas", [&cpu = *cpu] {
    const char* file = std::getenv("TESSERA_BLAS");
    return blas::create_device(cpu, file == nullptr ? "" : file);
  });
  registry->add(std::move(cpu));
  registry->set_finder(find_devices, may_find_gpus);
  return registry;
}

}  // namespace tessera
