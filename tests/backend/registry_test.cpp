#include <gtest/gtest.h>

#include "tessera/app/app.h"
#include "tests/support/testing.h"

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
  EXPECT_ERROR(device, "no device named abacus (there are: cpu)");
  EXPECT_EQ(device.error().code(), ErrorCode::not_found);
}

TEST(Registry, AnUnknownInstructionSetIsRefused) { EXPECT_ERROR(create_registry("mmx"), "mmx"); }

}  // namespace
}  // namespace tessera
