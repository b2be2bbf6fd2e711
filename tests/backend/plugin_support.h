// Support for tests of plugins: the paths of the example and of faulty plugins, and running graphs on their devices.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/backend/plugin.h"
#include "tests/support/graph_runner.h"

namespace tessera::testing {

/// Returns the path of a plugin of tests/backend/plugins.
inline std::string plugin_path(const std::string& fault) {
  return test_plugins_dir() + "/libtessera-backend-" + fault + ".so";
}
inline std::string example_path(const std::string& variant) {
  return example_plugins_dir() + "/libtessera-backend-example-" + variant + ".so";
}

inline FoundDevices find_plugins_at(std::vector<std::string> paths) {
  return find_plugins({.folders = {}, .paths = std::move(paths), .reserved = {}});
}

/// Returns the output "y" of a graph on a device, alone or with further devices for the nodes that it does not support.
inline Result<std::vector<float>> run_y_on(const std::vector<const Device*>& devices, Graph graph,
                                           const NamedBytes& inputs, const CancelToken* cancel = nullptr) {
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<Backend*> pointers;
  for (const Device* device : devices) {
    TESSERA_ASSIGN(auto backend,
                   device->create_backend({.threads = {.n_threads = 1}, .activations = ActivationPrecision::float32}));
    pointers.push_back(backend.get());
    backends.push_back(std::move(backend));
  }
  Executor executor(pointers, {});
  TESSERA_TRY(executor.reserve({&graph, 1}));
  TESSERA_ASSIGN(const auto prepared, executor.prepare(std::move(graph)));
  TESSERA_TRY(set_inputs(*prepared, inputs));
  TESSERA_TRY(executor.run(*prepared, {.cancel = cancel}));
  TESSERA_ASSIGN(const NamedBytes outputs, outputs_of(*prepared));
  return values_of<float>(outputs.at("y"));
}

}  // namespace tessera::testing
