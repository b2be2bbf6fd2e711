// A model on a device whose memory size a test chooses.
#pragma once

#include "tessera/engine/loaded_model.h"
#include "tests/support/engine_support.h"
#include "tests/support/fake_device.h"
#include "tests/support/spec_model.h"

namespace tessera::testing {

struct Opened {
  LoadedModel model;
  FakeDevice* device = nullptr;
};

inline Result<Opened> open_with(const std::string& path, uint64_t limit_bytes, PlacementOptions placement = {}) {
  const std::shared_ptr<Registry> registry = fake_registry({{.limit_bytes = limit_bytes}});
  placement.devices = {"fake:0"};
  Opened opened{.model = {}, .device = static_cast<FakeDevice*>(registry->devices().front().get())};
  TESSERA_ASSIGN(
      opened.model,
      open_model(registry, {.path = path, .engine = {.placement = std::move(placement)}, .fit = {.margin_bytes = 0}}));
  return opened;
}

/// Returns the bytes on the device if it has all layers.
inline uint64_t full_bytes(const std::string& path, const SessionOptions& options) {
  const auto opened = open_with(path, uint64_t{1} << 40).value();
  return Session::plan(*opened.model.engine, options).value().bytes_of("fake:0");
}

}  // namespace tessera::testing
