// Cooperative matrices. No test device has them, so the tests check that they are not used without support, and that
// the check before their first use distinguishes right from wrong products.
#include "tessera/vulkan/cooperative.h"

#include <limits>

#include "tessera/base/half.h"
#include "tests/gpu/gpu_support.h"

namespace tessera {
namespace {

using namespace testing;

using VulkanCooperative = GpuTest;

TEST_F(VulkanCooperative, AreOffWhereThereAreNone) {
  vulkan::Options options = validated_options();
  options.cooperates = true;
  const auto devices = vulkan::find_devices(options);
  ASSERT_FALSE(devices.empty());
  for (const auto& device : devices) {
    const auto properties = device->properties();
    const auto found =
        std::ranges::find(properties, "cooperative matrices", &std::pair<std::string, std::string>::first);
    ASSERT_NE(found, properties.end());
    if (device->kind() == DeviceKind::gpu) continue;
    EXPECT_EQ(found->second, "off");
  }
}

TEST_F(VulkanCooperative, AProbeThatIsWrongIsFound) {
  ASSERT_OK_AND_ASSIGN(const std::vector<float> plain, vulkan::compute_probe(*gpu_device()));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> tiles, vulkan::compute_probe(*gpu_device_of_64_lanes()));
  EXPECT_TRUE(same_bytes(plain, tiles));
  std::vector<float> rounded, swapped = plain;
  for (const float v : plain) rounded.push_back(f16_to_f32(f32_to_f16(v)));
  EXPECT_TRUE(vulkan::probes_agree(plain, rounded));
  std::swap(swapped[0], swapped[1]);
  EXPECT_FALSE(vulkan::probes_agree(plain, swapped));
  rounded.back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(vulkan::probes_agree(plain, rounded));
  EXPECT_FALSE(vulkan::probes_agree(plain, std::vector<float>(plain.size(), 0.0f)));
  EXPECT_FALSE(vulkan::probes_agree(plain, {}));
}

}  // namespace
}  // namespace tessera
