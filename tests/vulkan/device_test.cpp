// The device: its properties, its memory (mapped or not), and running out of memory.
#include <atomic>
#include <string>
#include <string_view>

#include "tessera/app/app.h"
#include "tessera/engine/session.h"
#include "tests/gpu/gpu_support.h"
#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using namespace testing;

using VulkanDevice = GpuTest;

TEST_F(VulkanDevice, TellsWhatItIs) {
  const Device& device = *gpu_device();
  EXPECT_EQ(device.name(), "vulkan:0");
  EXPECT_FALSE(device.description().empty());
  EXPECT_GT(device.memory().total_bytes, 0u);
  EXPECT_LE(device.memory().free_bytes, device.memory().total_bytes);
  EXPECT_TRUE(device.supports_kv(DType::f16, KvSide::k, 64));
  EXPECT_TRUE(device.supports_kv(DType::q4_0, KvSide::v, 64));
  EXPECT_FALSE(device.supports_kv(DType::q4_0, KvSide::v, 63));  // not a multiple of a block
  EXPECT_FALSE(device.supports_kv(DType::q4_k, KvSide::v, 256));
  EXPECT_FALSE(device.buffer_type().is_host());
  EXPECT_ERROR(device.wrap_host({}), "vulkan:0 has no use");
  ASSERT_OK_AND_ASSIGN(const DevicePeaks peaks, device.measure_peaks({}));
  EXPECT_GT(peaks.f32_gmacs, 0.01);
  EXPECT_GT(peaks.int16_gmacs, 0.01);
  EXPECT_GT(peaks.read_gbps, 0.01);
}

// More bytes than the staging ring holds, at an odd offset. Fresh memory is zero, and the bytes around are unchanged.
TEST_F(VulkanDevice, BytesComeBackMappedOrNot) {
  constexpr size_t kBytes = (size_t{13} << 20) + 4;
  for (const bool maps_memory : {true, false}) {
    const BufferType& type = gpu_device(maps_memory)->buffer_type();
    ASSERT_OK_AND_ASSIGN(const auto buffer, type.allocate(kBytes, BufferUsage::any));
    const Tensor tensor{
        {DType::i8, contiguous_layout(DType::i8, {static_cast<int64_t>(kBytes)}).value()}, "t", &type, buffer.get()};
    Bytes all(kBytes, std::byte{1});
    ASSERT_OK(buffer->get(tensor, 0, all));
    EXPECT_EQ(all, Bytes(kBytes));
    Bytes some(kBytes - 1003);
    for (size_t i = 0; i < some.size(); ++i) some[i] = static_cast<std::byte>(i * 7 + i / 251);
    ASSERT_OK(buffer->set(tensor, 1000, some));
    ASSERT_OK(buffer->get(tensor, 0, all));
    Bytes expected(kBytes);
    std::ranges::copy(some, expected.begin() + 1000);
    EXPECT_EQ(all, expected);
    EXPECT_ERROR(buffer->set(tensor, kBytes - 1, Bytes(2)), "outside");
    ASSERT_OK(buffer->clear(std::byte{9}));
    ASSERT_OK(buffer->get(tensor, 0, all));
    EXPECT_EQ(all, Bytes(kBytes, std::byte{9}));
  }
}

// Opening a session reports out_of_memory, whichever allocation fails.
TEST_F(VulkanDevice, RunningOutOfMemoryIsAnError) {
  const std::string path = story_model();
  vulkan::Options options = validated_options();
  options.max_bytes = std::make_shared<std::atomic<uint64_t>>(uint64_t{1} << 30);
  Registry registry;
  for (auto& device : vulkan::find_devices(options)) registry.add(std::move(device));
  ASSERT_FALSE(registry.devices().empty());
  const Device& device = *registry.devices().front();
  const uint64_t before = device.memory().total_bytes - device.memory().free_bytes;
  const auto run = [&]() -> Result<> {
    TESSERA_ASSIGN(const std::shared_ptr<Engine> engine,
                   Engine::open(registry, path, {.placement = {.devices = {"vulkan:0"}}}));
    TESSERA_TRY(engine->load({}));
    TESSERA_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 64, .n_ubatch = 8}));
    Batch batch;
    batch.add({.token = 1, .position = 0, .wants_logits = true});
    return session->decode(batch);
  };
  // Each attempt has enough memory for the allocation that failed in the previous one.
  int n_failed = 0;
  for (uint64_t more = 0;; ++n_failed) {
    *options.max_bytes = before + more;
    EXPECT_EQ(device.memory().total_bytes, before + more);
    EXPECT_EQ(device.memory().free_bytes, more);  // the previous attempt has freed all of its memory
    const auto outcome = run();
    if (outcome) break;
    ASSERT_EQ(outcome.error().code(), ErrorCode::out_of_memory) << outcome.error().message();
    const std::string& message = outcome.error().message();
    const size_t at = message.find(" refuses ");
    ASSERT_NE(at, std::string::npos) << message;
    const uint64_t bytes = std::stoull(message.substr(at + std::string_view(" refuses ").size()));
    ASSERT_GT(bytes, 0u);
    more += bytes;
  }
  EXPECT_GE(n_failed, 3);  // weights, cache, values; with integrated memory also the words for faults
}

TEST_F(VulkanDevice, TheRegistryHasIt) {
  ASSERT_OK_AND_ASSIGN(const auto registry, create_registry(""));
  ASSERT_OK(registry->find("vulkan:0"));
  EXPECT_EQ(registry->devices().back()->name(), "cpu");
  EXPECT_ERROR(registry->find("vulkan:99"), "vulkan:0");
}

}  // namespace
}  // namespace tessera
