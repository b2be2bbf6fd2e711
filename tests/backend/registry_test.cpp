#include <gtest/gtest.h>

#include <cstdlib>

#include "tessera/app/app.h"
#include "tessera/cpu/backend.h"
#include "tests/backend/plugin_support.h"

namespace tessera {
namespace {

TEST(Registry, FindsADeviceByName) {
  ASSERT_OK_AND_ASSIGN(const auto registry, create_registry(""));
  ASSERT_OK_AND_ASSIGN(const Device* device, registry->find("cpu"));
  EXPECT_EQ(device->name(), "cpu");
  EXPECT_EQ(device->kind(), DeviceKind::cpu);
}

TEST(Registry, AnUnknownNameListsTheKnown) {
  ASSERT_OK_AND_ASSIGN(const auto registry, create_registry(""));
  const auto device = registry->find("abacus");
  EXPECT_ERROR(device, "no device named abacus (there are: ");
  EXPECT_ERROR(device, "cpu)");  // after the machine's other devices
  EXPECT_EQ(device.error().code(), ErrorCode::not_found);
}

// The search for devices is slow. It runs once, and a request for a known device such as the CPU does not start it.
TEST(Registry, LooksForDevicesOnlyWhenTheyAreWanted) {
  Registry registry;
  ASSERT_OK_AND_ASSIGN(auto first, cpu::create_device(""));
  const Device* added = first.get();
  registry.add(std::move(first));
  int n_searches = 0;
  registry.set_finder([&] {
    ++n_searches;
    std::vector<std::unique_ptr<Device>> found;
    found.push_back(cpu::create_device("").value());
    return found;
  });
  EXPECT_OK(registry.find("cpu"));
  EXPECT_EQ(n_searches, 0);
  EXPECT_FALSE(registry.find("abacus").has_value());
  EXPECT_EQ(n_searches, 1);
  ASSERT_EQ(registry.devices().size(), 2u);
  EXPECT_EQ(registry.devices().back().get(), added);
  EXPECT_EQ(n_searches, 1);
}

TEST(Registry, LooksForGpusOnlyWhereThereMayBeSome) {
  for (const bool may_find : {false, true}) {
    Registry registry;
    int n_searches = 0;
    ASSERT_OK_AND_ASSIGN(auto first, cpu::create_device(""));
    registry.add(std::move(first));
    registry.set_finder(
        [&] {
          ++n_searches;
          return std::vector<std::unique_ptr<Device>>();
        },
        may_find ? [] { return true; } : [] { return false; });
    EXPECT_TRUE(registry.gpus().empty());
    EXPECT_EQ(n_searches, may_find ? 1 : 0);
    EXPECT_EQ(registry.devices().size(), 1u);
    EXPECT_EQ(n_searches, 1);
  }
}

TEST(Registry, NamedDevicesAreMadeForThoseWhoNameThem) {
  Registry registry;
  int n_made = 0;
  registry.add_named("shy", [&]() -> Result<std::unique_ptr<Device>> {
    ++n_made;
    return cpu::create_device("");
  });
  registry.add_named("absent", [] { return cpu::create_device("mmx"); });
  EXPECT_TRUE(registry.devices().empty());
  EXPECT_FALSE(registry.find("abacus"));
  EXPECT_EQ(registry.named(), (std::vector<std::string>{"shy", "absent"}));
  EXPECT_EQ(n_made, 0);
  ASSERT_OK_AND_ASSIGN(const Device* device, registry.find("shy"));
  ASSERT_OK_AND_ASSIGN(const Device* again, registry.find("shy"));
  EXPECT_EQ(device, again);
  EXPECT_EQ(n_made, 1);
  EXPECT_TRUE(registry.devices().empty());
  EXPECT_ERROR(registry.find("absent"), "mmx");
}

TEST(Registry, AGroupStandsForItsMembers) {
  Registry registry;
  for (int i = 0; i < 2; ++i) registry.add(cpu::create_device("").value());
  registry.add_named("shy", [] { return cpu::create_device(""); });
  registry.add_group("both", {"shy", "cpu"});
  registry.add_group("none", {}, "nobody is here");
  registry.add_group("lost", {"cpu", "abacus"});
  ASSERT_OK_AND_ASSIGN(const auto both, registry.find_all("both"));
  EXPECT_EQ(both, (std::vector<const Device*>{registry.find("shy").value(), registry.find("cpu").value()}));
  EXPECT_EQ(registry.find_all("cpu").value().size(), 1u);
  EXPECT_ERROR(registry.find_all("none"), "none: nobody is here");
  EXPECT_EQ(registry.find_all("none").error().code(), ErrorCode::not_found);
  EXPECT_ERROR(registry.find_all("lost"), "no device named abacus");
  EXPECT_ERROR(registry.find_all("abacus"), "no device named abacus");
  registry.add_notes({"one", "two"});
  EXPECT_EQ(registry.notes(), (std::vector<std::string>{"one", "two"}));
}

TEST(Registry, FindsMemoryByName) {
  Registry registry;
  ASSERT_OK_AND_ASSIGN(auto cpu, cpu::create_device(""));
  const Device* device = cpu.get();
  registry.add(std::move(cpu));
  ASSERT_OK_AND_ASSIGN(const BufferType* plain, registry.find_buffer_type("cpu"));
  EXPECT_EQ(plain, &device->buffer_type());
  ASSERT_OK_AND_ASSIGN(const BufferType* huge, registry.find_buffer_type("cpu-packed-huge"));
  EXPECT_EQ(huge->name(), "cpu-packed-huge");
  const auto unknown = registry.find_buffer_type("abacus");
  EXPECT_ERROR(unknown, "no memory named abacus (there are: cpu, cpu-packed, cpu-huge, ");
  EXPECT_EQ(unknown.error().code(), ErrorCode::not_found);
}

TEST(Registry, AnUnknownInstructionSetIsRefused) { EXPECT_ERROR(create_registry("mmx"), "mmx"); }

// Names of the devices of a registry whose environment names one plugin, and whose options name another.
std::vector<std::string> plugin_devices(bool use_environment, std::vector<std::string> plugins) {
  ::setenv("TESSERA_BACKENDS", testing::example_path("plain").c_str(), 1);
  const auto registry =
      create_registry(RegistryOptions{.plugins = std::move(plugins), .use_environment = use_environment});
  std::vector<std::string> names;
  for (const auto& device : registry.value()->devices())
    if (const std::string name(device->name()); name.starts_with("example:") || name.starts_with("fine:"))
      names.push_back(name);
  ::unsetenv("TESSERA_BACKENDS");
  return names;
}

TEST(Registry, PluginsComeFromTheOptionsAndFromTheEnvironmentIfItCounts) {
  using Names = std::vector<std::string>;
  const std::string fine = testing::plugin_path("fine");
  EXPECT_EQ(plugin_devices(false, {}), Names());
  EXPECT_EQ(plugin_devices(false, {fine}), Names{"fine:0"});
  const Names of_environment = plugin_devices(true, {});
  EXPECT_FALSE(of_environment.empty());
  Names both = of_environment;
  both.push_back("fine:0");
  EXPECT_EQ(plugin_devices(true, {fine}), both);
}

TEST(Registry, LimitsOfTheEnvironmentCountIfItIsUsed) {
  ::setenv("TESSERA_CUDA_MEMORY", "plenty", 1);
  for (const bool counts : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const auto registry, create_registry(RegistryOptions{.use_environment = counts}));
    registry->devices();
    bool is_refused = false;
    for (const std::string& note : registry->notes()) is_refused |= note.find("plenty") != std::string::npos;
    EXPECT_EQ(is_refused, counts);
  }
  ::unsetenv("TESSERA_CUDA_MEMORY");
}

}  // namespace
}  // namespace tessera
