// libggml: the devices of this machine, and their names.
#include <cstring>
#include <set>

#include "tessera/llama/device_names.h"
#include "tests/llama/ggml_support.h"

namespace tessera {
namespace {

using testing::expect_line;
using testing::GgmlLog;

constexpr int32_t kCpuDevice = 0, kNoSuchType = 77;

TEST(DeviceNames, AreThoseOfGgmlAndBack) {
  struct Row {
    const char *ours, *device, *backend;
  };
  for (const Row& row : {Row{"cpu", "CPU", "CPU"}, Row{"blas", "BLAS", "BLAS"}, Row{"cuda:0", "CUDA0", "CUDA"},
                         Row{"cuda:12", "CUDA12", "CUDA"}, Row{"vulkan:1", "Vulkan1", "Vulkan"}}) {
    EXPECT_EQ(llama::ggml_device_name(row.ours), row.device);
    EXPECT_EQ(llama::ggml_backend_name(row.ours), row.backend);
    EXPECT_EQ(llama::device_name_of_ggml(row.device), row.ours);
  }
  EXPECT_EQ(llama::ggml_device_name("plugin:3"), "plugin:3");
  EXPECT_EQ(llama::ggml_backend_name("plugin:3"), "plugin");
  for (const char* name : {"cuda", "cuda:", "cuda:x", "cuda0", "cpu:0", "cpus"})
    EXPECT_EQ(llama::ggml_device_name(name), name);
  EXPECT_EQ(llama::device_name_of_ggml("CUDA"), "cuda");
  EXPECT_EQ(llama::device_name_of_ggml("CUDAx"), "cudax");
  EXPECT_EQ(llama::device_name_of_ggml("SYCL0"), "sycl0");
}

TEST(GgmlDevices, TheCpuIsListed) {
  GgmlLog log;
  tessera_ggml_backend_load_all();
  tessera_ggml_backend_load_all_from_path("/no/such/folder");
  const size_t n = tessera_ggml_backend_dev_count();
  ASSERT_GE(n, 1);
  ggml_backend_device* const cpu = tessera_ggml_backend_dev_by_type(kCpuDevice);
  ASSERT_NE(cpu, nullptr);
  EXPECT_EQ(tessera_ggml_backend_dev_by_name("cpu"), cpu);
  EXPECT_EQ(tessera_ggml_backend_dev_by_name("CPU"), cpu);
  EXPECT_EQ(tessera_ggml_backend_dev_get(n - 1), cpu);
  EXPECT_STREQ(tessera_ggml_backend_dev_name(cpu), "CPU");
  EXPECT_GT(std::strlen(tessera_ggml_backend_dev_description(cpu)), 0);
  EXPECT_EQ(tessera_ggml_backend_dev_type(cpu), kCpuDevice);
  size_t free = 0, total = 0;
  tessera_ggml_backend_dev_memory(cpu, &free, &total);
  EXPECT_GT(total, 0);
  EXPECT_LE(free, total);
  tessera_ggml_backend_dev_memory(cpu, nullptr, nullptr);
  EXPECT_EQ(log.take(), "");
}

TEST(GgmlDevices, PropertiesAreThoseOfTheFunctions) {
  for (size_t i = 0; i < tessera_ggml_backend_dev_count(); ++i) {
    ggml_backend_device* const device = tessera_ggml_backend_dev_get(i);
    ggml_backend_dev_props props;
    std::memset(&props, 0xaa, sizeof props);
    tessera_ggml_backend_dev_get_props(device, &props);
    EXPECT_EQ(props.name, tessera_ggml_backend_dev_name(device));
    EXPECT_EQ(props.description, tessera_ggml_backend_dev_description(device));
    EXPECT_EQ(props.type, tessera_ggml_backend_dev_type(device));
    size_t free = 0, total = 0;
    tessera_ggml_backend_dev_memory(device, &free, &total);
    EXPECT_EQ(props.memory_total, total);
    EXPECT_LE(props.memory_free, total);
    for (const bool cap : props.caps) EXPECT_FALSE(cap);
  }
}

TEST(GgmlDevices, EachBelongsToABackend) {
  const size_t n = tessera_ggml_backend_reg_count();
  ASSERT_GE(n, 1);
  std::set<ggml_backend_device*> found;
  for (size_t i = 0; i < n; ++i) {
    ggml_backend_reg* const backend = tessera_ggml_backend_reg_get(i);
    EXPECT_EQ(tessera_ggml_backend_reg_by_name(tessera_ggml_backend_reg_name(backend)), backend);
    EXPECT_EQ(tessera_ggml_backend_reg_get_proc_address(backend, "ggml_backend_set_n_threads"), nullptr);
    for (size_t j = 0; j < tessera_ggml_backend_reg_dev_count(backend); ++j) {
      ggml_backend_device* const device = tessera_ggml_backend_reg_dev_get(backend, j);
      EXPECT_EQ(tessera_ggml_backend_dev_backend_reg(device), backend);
      found.insert(device);
    }
    tessera_ggml_backend_unload(backend);  // stays
  }
  EXPECT_EQ(found.size(), tessera_ggml_backend_dev_count());
  EXPECT_STREQ(tessera_ggml_backend_reg_name(tessera_ggml_backend_reg_get(n - 1)), "CPU");
}

TEST(GgmlDevices, BufferTypesTellTheirDevices) {
  ggml_backend_buffer_type* const host = tessera_ggml_backend_cpu_buffer_type();
  EXPECT_STREQ(tessera_ggml_backend_buft_name(host), "CPU");
  EXPECT_TRUE(tessera_ggml_backend_buft_is_host(host));
  EXPECT_EQ(tessera_ggml_backend_buft_get_device(host), nullptr);
  ggml_backend_device* const cpu = tessera_ggml_backend_dev_by_type(kCpuDevice);
  ggml_backend_buffer_type* const type = tessera_ggml_backend_dev_buffer_type(cpu);
  EXPECT_STREQ(tessera_ggml_backend_buft_name(type), "CPU");
  EXPECT_EQ(tessera_ggml_backend_buft_get_device(type), cpu);
  EXPECT_TRUE(tessera_ggml_backend_buft_is_host(type));
}

TEST(GgmlDevices, WhatIsNotThereIsNull) {
  GgmlLog log;
  EXPECT_EQ(tessera_ggml_backend_dev_by_name("no such device"), nullptr);
  EXPECT_EQ(tessera_ggml_backend_dev_by_name(nullptr), nullptr);
  EXPECT_EQ(tessera_ggml_backend_reg_by_name("no such backend"), nullptr);
  EXPECT_EQ(tessera_ggml_backend_reg_by_name(nullptr), nullptr);
  EXPECT_EQ(tessera_ggml_backend_dev_by_type(kNoSuchType), nullptr);
  EXPECT_EQ(log.take(), "");
  EXPECT_EQ(tessera_ggml_backend_dev_get(tessera_ggml_backend_dev_count()), nullptr);
  expect_line(log, "ggml_backend_dev_get: index: ");
  EXPECT_EQ(tessera_ggml_backend_reg_get(tessera_ggml_backend_reg_count()), nullptr);
  expect_line(log, "ggml_backend_reg_get: index: ");
  ggml_backend_reg* const backend = tessera_ggml_backend_reg_get(0);
  EXPECT_EQ(tessera_ggml_backend_reg_dev_get(backend, tessera_ggml_backend_reg_dev_count(backend)), nullptr);
  expect_line(log, "ggml_backend_reg_dev_get: index: ");
}

TEST(GgmlDevices, OtherHandlesAreRefused) {
  GgmlLog log;
  ggml_backend_reg* const backend = tessera_ggml_backend_reg_get(0);
  auto* const wrong = reinterpret_cast<ggml_backend_device*>(backend);
  for (ggml_backend_device* device : {wrong, static_cast<ggml_backend_device*>(nullptr)}) {
    const std::string what = device == nullptr ? "device: is NULL" : "device: is no device";
    EXPECT_EQ(tessera_ggml_backend_dev_name(device), nullptr);
    expect_line(log, "ggml_backend_dev_name: " + what);
    EXPECT_EQ(tessera_ggml_backend_dev_description(device), nullptr);
    expect_line(log, "ggml_backend_dev_description: " + what);
    EXPECT_EQ(tessera_ggml_backend_dev_type(device), kCpuDevice);
    expect_line(log, "ggml_backend_dev_type: " + what);
    size_t free = 1, total = 1;
    tessera_ggml_backend_dev_memory(device, &free, &total);
    expect_line(log, "ggml_backend_dev_memory: " + what);
    EXPECT_EQ(free + total, 0);
    ggml_backend_dev_props props;
    std::memset(&props, 0xaa, sizeof props);
    tessera_ggml_backend_dev_get_props(device, &props);
    expect_line(log, "ggml_backend_dev_get_props: " + what);
    EXPECT_EQ(props.name, nullptr);
    EXPECT_EQ(tessera_ggml_backend_dev_backend_reg(device), nullptr);
    expect_line(log, "ggml_backend_dev_backend_reg: " + what);
    EXPECT_EQ(tessera_ggml_backend_dev_buffer_type(device), nullptr);
    expect_line(log, "ggml_backend_dev_buffer_type: " + what);
  }
  tessera_ggml_backend_dev_get_props(tessera_ggml_backend_dev_get(0), nullptr);
  expect_line(log, "ggml_backend_dev_get_props: props: is NULL");
  auto* const no_backend = reinterpret_cast<ggml_backend_reg*>(tessera_ggml_backend_dev_get(0));
  EXPECT_EQ(tessera_ggml_backend_reg_name(no_backend), nullptr);
  expect_line(log, "ggml_backend_reg_name: reg: is no backend");
  EXPECT_EQ(tessera_ggml_backend_reg_dev_count(no_backend), 0);
  expect_line(log, "ggml_backend_reg_dev_count: reg: is no backend");
  EXPECT_EQ(tessera_ggml_backend_reg_dev_get(no_backend, 0), nullptr);
  expect_line(log, "ggml_backend_reg_dev_get: reg: is no backend");
  auto* const no_type = reinterpret_cast<ggml_backend_buffer_type*>(backend);
  EXPECT_EQ(tessera_ggml_backend_buft_name(no_type), nullptr);
  expect_line(log, "ggml_backend_buft_name: buft: is no buffer type");
  EXPECT_FALSE(tessera_ggml_backend_buft_is_host(no_type));
  expect_line(log, "ggml_backend_buft_is_host: buft: is no buffer type");
  EXPECT_EQ(tessera_ggml_backend_buft_get_device(no_type), nullptr);
  expect_line(log, "ggml_backend_buft_get_device: buft: is no buffer type");
}

}  // namespace
}  // namespace tessera
