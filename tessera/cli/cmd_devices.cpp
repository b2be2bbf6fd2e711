// tessera devices: lists the devices of this machine, their memory, and the types that each has kernels for.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "tessera/backend/weight_support.h"
#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"

namespace tessera::cli {

namespace {

std::string_view kind_name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::gpu:
      return "gpu";
    case DeviceKind::accelerator:
      return "accelerator";
  }
  return "";
}

struct Support {
  std::vector<std::string_view> matrices, rows, cache;
};

Support support_of(const Device& device) {
  constexpr int64_t kHeadDim = 128;
  Support support;
  for (const DTypeInfo& type : all_dtypes()) {
    if (can_use_type(device, Op::mul_mat, type.dtype)) support.matrices.push_back(type.name);
    if (can_use_type(device, Op::get_rows, type.dtype)) support.rows.push_back(type.name);
    if (device.supports_kv(type.dtype, KvSide::k, kHeadDim) && device.supports_kv(type.dtype, KvSide::v, kHeadDim))
      support.cache.push_back(type.name);
  }
  return support;
}

// All devices, plus opt-in ones (blas) if available.
std::vector<const Device*> all_devices(const Registry& registry) {
  std::vector<const Device*> all;
  for (const std::string& name : registry.named())
    if (const auto device = registry.find(name)) all.push_back(*device);
  for (const auto& device : registry.devices()) all.push_back(device.get());
  return all;
}

std::string memory_text(const DeviceMemory& memory) {
  if (memory.total_bytes == 0) return "none of its own";
  return fmt::format("{} bytes ({}), {} free", memory.total_bytes, human_bytes(static_cast<double>(memory.total_bytes)),
                     human_bytes(static_cast<double>(memory.free_bytes)));
}

// Returns "name: availability", or "name: none: reason".
std::string buffer_type_text(const BufferType& type) {
  const auto there = type.availability();
  if (!there) return fmt::format("{}: none: {}", type.name(), there.error().message());
  return there->empty() ? std::string(type.name()) : fmt::format("{}: {}", type.name(), *there);
}

class DevicesCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    table.common("--json", "", "print JSON", set_switch(json_));
    return table;
  }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(const auto registry, open_registry());
    TESSERA_TRY(json_ ? print_json(*registry) : print_plain(*registry));
    for (const std::string& note : registry->notes())
      if (!process.quiet) log(note);
    return {};
  }

 private:
  static Result<> print_plain(const Registry& registry) {
    std::string text;
    for (const Device* device : all_devices(registry)) {
      const Support support = support_of(*device);
      std::vector<std::vector<std::string>> rows = {{"device", std::string(device->name())},
                                                    {"kind", std::string(kind_name(device->kind()))},
                                                    {"description", device->description()},
                                                    {"memory", memory_text(device->memory())}};
      for (const auto& [name, value] : device->properties()) rows.push_back({name, value});
      for (const BufferType* type : device->buffer_types()) rows.push_back({"buffers", buffer_type_text(*type)});
      rows.push_back({"matrices", fmt::format("{}", fmt::join(support.matrices, " "))});
      rows.push_back({"rows", fmt::format("{}", fmt::join(support.rows, " "))});
      rows.push_back({"kv cache", fmt::format("{}", fmt::join(support.cache, " "))});
      text += (text.empty() ? "" : "\n") + format_table(rows, "ll");
    }
    return print(text);
  }

  static Result<> print_json(const Registry& registry) {
    using Json = nlohmann::ordered_json;
    Json devices = Json::array();
    for (const Device* device : all_devices(registry)) {
      Json buffer_types = Json::array();
      for (const BufferType* type : device->buffer_types()) {
        const auto there = type->availability();
        buffer_types.push_back({{"name", type->name()},
                                {"available", there.has_value()},
                                {"note", there ? *there : there.error().message()}});
      }
      Json properties = Json::object();
      for (const auto& [name, value] : device->properties()) properties[name] = value;
      const Support support = support_of(*device);
      devices.push_back({{"name", device->name()},
                         {"kind", kind_name(device->kind())},
                         {"description", device->description()},
                         {"memory_total_bytes", device->memory().total_bytes},
                         {"memory_free_bytes", device->memory().free_bytes},
                         {"properties", std::move(properties)},
                         {"buffer_types", std::move(buffer_types)},
                         {"matrix_types", support.matrices},
                         {"row_types", support.rows},
                         {"cache_types", support.cache}});
    }
    // A driver's description may contain any bytes.
    return print(devices.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> create_devices_command() { return std::make_unique<DevicesCommand>(); }

}  // namespace tessera::cli
