// ggml-backend.h: the devices of this machine. ggml has one list of them for a process, whose entries live until its
// end, so this layer has one too. It is made when a program first asks for it.
#include <algorithm>
#include <deque>

#include "tessera/llama/device_names.h"
#include "tessera/llama/ggml/objects.h"
#include "tessera/llama/registry.h"

using namespace tessera;
using namespace tessera::llama;

// Names and descriptions end with a NUL and stay where they are.
struct ggml_backend_buffer_type : Tagged {
  static constexpr auto kTag = kBufferTypeTag;
  static constexpr std::string_view kName = "buffer type";
  ggml_backend_buffer_type() : Tagged(kTag) {}

  std::string name{};
  bool is_host = false;
  ggml_backend_device* device = nullptr;
};

struct ggml_backend_device : Tagged {
  static constexpr auto kTag = kDeviceTag;
  static constexpr std::string_view kName = "device";
  ggml_backend_device() : Tagged(kTag) {}

  const Device* device = nullptr;
  std::string name{};
  std::string description{};
  std::string hardware_id{};
  int32_t type = 0;
  ggml_backend_reg* backend = nullptr;
  ggml_backend_buffer_type buffer_type{};
};

struct ggml_backend_reg : Tagged {
  static constexpr auto kTag = kBackendTag;
  static constexpr std::string_view kName = "backend";
  ggml_backend_reg() : Tagged(kTag) {}

  std::string name{};
  std::vector<ggml_backend_device*> devices{};
};

namespace {

constexpr int32_t kCpuType = 0, kGpuType = 1, kAcceleratorType = 3;  // 2: a GPU in host memory

int32_t type_of(DeviceKind kind) {
  if (kind == DeviceKind::cpu) return kCpuType;
  return kind == DeviceKind::gpu ? kGpuType : kAcceleratorType;
}

class DeviceList {
 public:
  static Result<std::unique_ptr<DeviceList>> create() {
    auto list = std::make_unique<DeviceList>();
    TESSERA_ASSIGN(list->registry_, shared_registry());
    for (const auto& device : list->registry_->devices()) list->add(*device);
    return list;
  }

  std::deque<ggml_backend_device>& devices() { return devices_; }
  std::deque<ggml_backend_reg>& backends() { return backends_; }
  ggml_backend_buffer_type* host_memory() { return &host_memory_; }

  DeviceList() {
    host_memory_.name = ggml_device_name("cpu");
    host_memory_.is_host = true;
  }

 private:
  void add(const Device& from) {
    ggml_backend_device& device = devices_.emplace_back();
    device.device = &from;
    device.name = ggml_device_name(from.name());
    device.description = from.description();
    device.hardware_id = from.hardware_id();
    device.type = type_of(from.kind());
    device.buffer_type.name = device.name;
    device.buffer_type.is_host = from.buffer_type().is_host();
    device.buffer_type.device = &device;
    device.backend = &backend_named(ggml_backend_name(from.name()));
    device.backend->devices.push_back(&device);
  }

  ggml_backend_reg& backend_named(const std::string& name) {
    const auto at = std::ranges::find(backends_, name, &ggml_backend_reg::name);
    if (at != backends_.end()) return *at;
    ggml_backend_reg& backend = backends_.emplace_back();
    backend.name = name;
    return backend;
  }

  std::shared_ptr<const Registry> registry_;
  std::deque<ggml_backend_device> devices_;  // never move
  std::deque<ggml_backend_reg> backends_;
  ggml_backend_buffer_type host_memory_;
};

// Never destroyed: programs ask for devices in their own last functions too, and drivers may be gone by then.
Result<DeviceList*> device_list() {
  static std::mutex mutex;
  static DeviceList* list = nullptr;
  const std::lock_guard lock(mutex);
  if (list == nullptr) {
    TESSERA_ASSIGN(auto created, DeviceList::create());
    list = created.release();
  }
  return list;
}

// The first item that fits, or null.
template <class Item, class Fits>
Item* find_item(const char* function, std::deque<Item>& (DeviceList::*items)(), Fits&& fits) {
  return guarded<Item*>(function, nullptr, [&]() -> Result<Item*> {
    TESSERA_ASSIGN(DeviceList * list, device_list());
    const auto at = std::ranges::find_if((list->*items)(), fits);
    return at == (list->*items)().end() ? nullptr : &*at;
  });
}

template <class Item>
Item* item_at(const char* function, std::deque<Item>& (DeviceList::*items)(), size_t index) {
  return guarded<Item*>(function, nullptr, [&]() -> Result<Item*> {
    TESSERA_ASSIGN(DeviceList * list, device_list());
    const size_t n = (list->*items)().size();
    if (index >= n) return fail(ErrorCode::invalid_argument, "index: {}, there are {}", index, n);
    return &(list->*items)()[index];
  });
}

template <class Item>
size_t count_items(const char* function, std::deque<Item>& (DeviceList::*items)()) {
  return guarded<size_t>(function, 0, [&]() -> Result<size_t> {
    TESSERA_ASSIGN(DeviceList * list, device_list());
    return (list->*items)().size();
  });
}

// A member of an object, or `failed` for a handle that is none.
template <class T, class Handle, class Get>
T member_of(const char* function, T failed, const Handle* handle, std::string_view name, Get&& get) {
  return guarded<T>(function, failed, [&]() -> Result<T> {
    TESSERA_TRY(require(handle, name));
    return get(*handle);
  });
}

bool is_same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

// The list has all devices from its start.
void tessera_ggml_backend_load_all() {}
void tessera_ggml_backend_load_all_from_path(const char* /*dir_path*/) {}
void tessera_ggml_backend_unload(ggml_backend_reg* /*reg*/) {}

size_t tessera_ggml_backend_reg_count() { return count_items("ggml_backend_reg_count", &DeviceList::backends); }
ggml_backend_reg* tessera_ggml_backend_reg_get(size_t index) {
  return item_at("ggml_backend_reg_get", &DeviceList::backends, index);
}
ggml_backend_reg* tessera_ggml_backend_reg_by_name(const char* name) {
  return find_item("ggml_backend_reg_by_name", &DeviceList::backends, [&](const ggml_backend_reg& backend) {
    return name != nullptr && is_same_name(backend.name, name);
  });
}
const char* tessera_ggml_backend_reg_name(ggml_backend_reg* reg) {
  return member_of<const char*>("ggml_backend_reg_name", nullptr, reg, "reg",
                                [](const ggml_backend_reg& backend) { return backend.name.c_str(); });
}
size_t tessera_ggml_backend_reg_dev_count(ggml_backend_reg* reg) {
  return member_of<size_t>("ggml_backend_reg_dev_count", 0, reg, "reg",
                           [](const ggml_backend_reg& backend) { return backend.devices.size(); });
}
ggml_backend_device* tessera_ggml_backend_reg_dev_get(ggml_backend_reg* reg, size_t index) {
  return guarded<ggml_backend_device*>("ggml_backend_reg_dev_get", nullptr, [&]() -> Result<ggml_backend_device*> {
    TESSERA_TRY(require(reg, "reg"));
    if (index >= reg->devices.size())
      return fail(ErrorCode::invalid_argument, "index: {}, there are {}", index, reg->devices.size());
    return reg->devices[index];
  });
}
// No backend has functions of its own.
void* tessera_ggml_backend_reg_get_proc_address(ggml_backend_reg* /*reg*/, const char* /*name*/) { return nullptr; }

size_t tessera_ggml_backend_dev_count() { return count_items("ggml_backend_dev_count", &DeviceList::devices); }
ggml_backend_device* tessera_ggml_backend_dev_get(size_t index) {
  return item_at("ggml_backend_dev_get", &DeviceList::devices, index);
}
ggml_backend_device* tessera_ggml_backend_dev_by_name(const char* name) {
  return find_item("ggml_backend_dev_by_name", &DeviceList::devices, [&](const ggml_backend_device& device) {
    return name != nullptr && is_same_name(device.name, name);
  });
}
ggml_backend_device* tessera_ggml_backend_dev_by_type(int32_t type) {
  return find_item("ggml_backend_dev_by_type", &DeviceList::devices,
                   [&](const ggml_backend_device& device) { return device.type == type; });
}
const char* tessera_ggml_backend_dev_name(ggml_backend_device* device) {
  return member_of<const char*>("ggml_backend_dev_name", nullptr, device, "device",
                                [](const ggml_backend_device& one) { return one.name.c_str(); });
}
const char* tessera_ggml_backend_dev_description(ggml_backend_device* device) {
  return member_of<const char*>("ggml_backend_dev_description", nullptr, device, "device",
                                [](const ggml_backend_device& one) { return one.description.c_str(); });
}
int32_t tessera_ggml_backend_dev_type(ggml_backend_device* device) {
  return member_of<int32_t>("ggml_backend_dev_type", kCpuType, device, "device",
                            [](const ggml_backend_device& one) { return one.type; });
}
void tessera_ggml_backend_dev_memory(ggml_backend_device* device, size_t* free, size_t* total) {
  guarded("ggml_backend_dev_memory", [&]() -> Result<> {
    if (free != nullptr) *free = 0;
    if (total != nullptr) *total = 0;
    TESSERA_TRY(require(device, "device"));
    const DeviceMemory memory = device->device->memory();
    if (free != nullptr) *free = memory.free_bytes;
    if (total != nullptr) *total = memory.total_bytes;
    return {};
  });
}
void tessera_ggml_backend_dev_get_props(ggml_backend_device* device, ggml_backend_dev_props* props) {
  guarded("ggml_backend_dev_get_props", [&]() -> Result<> {
    if (props == nullptr) return fail(ErrorCode::invalid_argument, "props: is NULL");
    *props = {};
    TESSERA_TRY(require(device, "device"));
    const DeviceMemory memory = device->device->memory();
    *props = {.name = device->name.c_str(),
              .description = device->description.c_str(),
              .memory_free = memory.free_bytes,
              .memory_total = memory.total_bytes,
              .type = device->type,
              .device_id = device->hardware_id.empty() ? nullptr : device->hardware_id.c_str(),
              .caps = {}};
    return {};
  });
}
ggml_backend_reg* tessera_ggml_backend_dev_backend_reg(ggml_backend_device* device) {
  return member_of<ggml_backend_reg*>("ggml_backend_dev_backend_reg", nullptr, device, "device",
                                      [](const ggml_backend_device& one) { return one.backend; });
}
ggml_backend_buffer_type* tessera_ggml_backend_dev_buffer_type(ggml_backend_device* device) {
  return guarded<ggml_backend_buffer_type*>("ggml_backend_dev_buffer_type", nullptr,
                                            [&]() -> Result<ggml_backend_buffer_type*> {
                                              TESSERA_TRY(require(device, "device"));
                                              return &device->buffer_type;
                                            });
}

ggml_backend_buffer_type* tessera_ggml_backend_cpu_buffer_type() {
  return guarded<ggml_backend_buffer_type*>("ggml_backend_cpu_buffer_type", nullptr,
                                            []() -> Result<ggml_backend_buffer_type*> {
                                              TESSERA_ASSIGN(DeviceList * list, device_list());
                                              return list->host_memory();
                                            });
}
const char* tessera_ggml_backend_buft_name(ggml_backend_buffer_type* buft) {
  return member_of<const char*>("ggml_backend_buft_name", nullptr, buft, "buft",
                                [](const ggml_backend_buffer_type& one) { return one.name.c_str(); });
}
bool tessera_ggml_backend_buft_is_host(ggml_backend_buffer_type* buft) {
  return member_of<bool>("ggml_backend_buft_is_host", false, buft, "buft",
                         [](const ggml_backend_buffer_type& one) { return one.is_host; });
}
// As in ggml, memory that any device may read belongs to none.
ggml_backend_device* tessera_ggml_backend_buft_get_device(ggml_backend_buffer_type* buft) {
  return member_of<ggml_backend_device*>("ggml_backend_buft_get_device", nullptr, buft, "buft",
                                         [](const ggml_backend_buffer_type& one) { return one.device; });
}
