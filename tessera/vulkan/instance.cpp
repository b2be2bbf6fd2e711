#include "tessera/vulkan/instance.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#ifdef TESSERA_SANITIZED
// The leak check runs at exit. Memory owned by a driver's globals would count as leaked after its library was unloaded,
// and the report could not name its owner. So libraries stay loaded.
extern "C" int dlclose(void*) noexcept { return 0; }
#endif

namespace tessera::vulkan {

namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

VkBool32 VKAPI_PTR pass_on(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                           const VkDebugUtilsMessengerCallbackDataEXT* data, void* options) {
  const auto& on_message = static_cast<const Options*>(options)->on_message;
  if (on_message) on_message(data->pMessage);
  return VK_FALSE;
}

}  // namespace

Result<> check(VkResult result, const char* call) {
  if (result == VK_SUCCESS) return {};
  const bool is_memory = result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY;
  return fail(is_memory ? ErrorCode::out_of_memory : ErrorCode::io, "{}: Vulkan error {}", call,
              static_cast<int>(result));
}

Result<Options> options_from_environment() {
  Options options;
  const char* matrices = std::getenv("TESSERA_VULKAN_COOPMAT");
  options.has_matrices = matrices == nullptr || std::string_view(matrices) != "0";
  const char* memory = std::getenv("TESSERA_VULKAN_MEMORY");
  if (memory == nullptr) return options;
  const std::string_view text = memory;
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), bytes);
  if (error != std::errc() || end != text.end())
    return fail(ErrorCode::invalid_argument, "TESSERA_VULKAN_MEMORY: '{}', want a number of bytes", text);
  options.max_bytes = std::make_shared<std::atomic<uint64_t>>(bytes);
  return options;
}

Result<std::shared_ptr<const Instance>> Instance::create(const Options& options) {
  const std::shared_ptr<Instance> instance(new Instance);
  instance->options_ = options;
  TESSERA_TRY(instance->open_loader());
  TESSERA_TRY(instance->create_instance());
  return instance;
}

PFN_vkVoidFunction Instance::cooperative_matrix_shapes() const {
  return get_address_(instance_, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
}

Result<> Instance::open_loader() {
  library_ = ::dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return fail(ErrorCode::not_found, "no Vulkan loader (libvulkan.so.1)");
  get_address_ = reinterpret_cast<PFN_vkGetInstanceProcAddr>(::dlsym(library_, "vkGetInstanceProcAddr"));
  if (get_address_ == nullptr) return fail(ErrorCode::not_found, "libvulkan.so.1 is no Vulkan loader");
  return {};
}

Result<> Instance::create_instance() {
  const auto global = [&](const char* name) { return get_address_(VK_NULL_HANDLE, name); };
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(global("vkCreateInstance"));
  const auto list_layers =
      reinterpret_cast<PFN_vkEnumerateInstanceLayerProperties>(global("vkEnumerateInstanceLayerProperties"));
  const auto version = reinterpret_cast<PFN_vkEnumerateInstanceVersion>(global("vkEnumerateInstanceVersion"));
  uint32_t api_version = 0;
  if (create == nullptr || list_layers == nullptr || version == nullptr || version(&api_version) != VK_SUCCESS ||
      api_version < VK_API_VERSION_1_2)
    return fail(ErrorCode::not_found, "the Vulkan loader is older than 1.2");

  bool has_layer = false;
  if (options_.validates) {
    uint32_t n = 0;
    TESSERA_TRY(check(list_layers(&n, nullptr), "vkEnumerateInstanceLayerProperties"));
    std::vector<VkLayerProperties> layers(n);
    TESSERA_TRY(check(list_layers(&n, layers.data()), "vkEnumerateInstanceLayerProperties"));
    has_layer = std::ranges::any_of(
        layers, [](const VkLayerProperties& layer) { return std::strcmp(layer.layerName, kValidationLayer) == 0; });
  }
  const char* const layers[] = {kValidationLayer};
  const char* const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
  const VkApplicationInfo application{.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                      .pNext = nullptr,
                                      .pApplicationName = "tessera",
                                      .applicationVersion = 0,
                                      .pEngineName = "tessera",
                                      .engineVersion = 0,
                                      .apiVersion = VK_API_VERSION_1_2};
  const VkInstanceCreateInfo info{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                  .pNext = nullptr,
                                  .flags = 0,
                                  .pApplicationInfo = &application,
                                  .enabledLayerCount = has_layer ? 1u : 0u,
                                  .ppEnabledLayerNames = layers,
                                  .enabledExtensionCount = has_layer ? 1u : 0u,
                                  .ppEnabledExtensionNames = extensions};
  const VkResult created = create(&info, nullptr, &instance_);
  if (created == VK_ERROR_INCOMPATIBLE_DRIVER) return fail(ErrorCode::not_found, "no Vulkan driver");
  TESSERA_TRY(check(created, "vkCreateInstance"));
#define TESSERA_VK_LOAD(name)                                               \
  api_.name = reinterpret_cast<PFN_##name>(get_address_(instance_, #name)); \
  if (api_.name == nullptr) return fail(ErrorCode::not_found, "the Vulkan loader has no " #name);
  TESSERA_VK_INSTANCE_FUNCTIONS(TESSERA_VK_LOAD)
#undef TESSERA_VK_LOAD
  return has_layer ? listen() : Result<>{};
}

Result<> Instance::listen() {
  const auto create =
      reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(get_address_(instance_, "vkCreateDebugUtilsMessengerEXT"));
  if (create == nullptr) return {};
  const VkDebugUtilsMessengerCreateInfoEXT info{.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
                                                .pNext = nullptr,
                                                .flags = 0,
                                                .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                                                                   VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
                                                .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
                                                .pfnUserCallback = pass_on,
                                                .pUserData = &options_};
  return check(create(instance_, &info, nullptr, &messenger_), "vkCreateDebugUtilsMessengerEXT");
}

Instance::~Instance() {
  if (messenger_ != VK_NULL_HANDLE) {
    const auto destroy = reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
        get_address_(instance_, "vkDestroyDebugUtilsMessengerEXT"));
    if (destroy != nullptr) destroy(instance_, messenger_, nullptr);
  }
  if (instance_ != VK_NULL_HANDLE && api_.vkDestroyInstance != nullptr) api_.vkDestroyInstance(instance_, nullptr);
  // The library stays loaded: drivers may have threads that still run its code.
}

Result<std::vector<VkPhysicalDevice>> Instance::physical_devices() const {
  uint32_t n = 0;
  TESSERA_TRY(check(api_.vkEnumeratePhysicalDevices(instance_, &n, nullptr), "vkEnumeratePhysicalDevices"));
  std::vector<VkPhysicalDevice> devices(n);
  TESSERA_TRY(check(api_.vkEnumeratePhysicalDevices(instance_, &n, devices.data()), "vkEnumeratePhysicalDevices"));
  devices.resize(n);
  return devices;
}

}  // namespace tessera::vulkan
