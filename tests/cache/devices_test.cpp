// Caches over several devices: layers are on the configured devices, tables on the devices of the layers that read
// them.
#include "tessera/cache/recurrent.h"
#include "tests/support/cache_support.h"
#include "tests/support/fake_device.h"

namespace tessera {
namespace {

using testing::cpu_device;
using testing::FakeDevice;

constexpr KvLayerShape kFull{.n_heads_kv = 1, .k_dim = 4, .v_dim = 4};
constexpr KvLayerShape kWindow{.n_heads_kv = 1, .k_dim = 4, .v_dim = 4, .window = 100};

class CacheDevices : public ::testing::Test {
 protected:
  FakeDevice a_{{.name = "a"}}, b_{{.name = "b"}};
};

TEST_F(CacheDevices, TablesLieWithTheirLayersWhereThoseAreOnOne) {
  const auto tables_of = [&](std::vector<const Device*> devices, size_t group) {
    const auto cache = KvCache::plan(
        cpu_device(), {.layers = {kFull, kWindow, kFull, kWindow}, .n_ctx = 256, .devices = std::move(devices)});
    return std::string((*cache)->groups()[group].blocks().buffer_type->name());
  };
  EXPECT_EQ(tables_of({}, 0), "cpu");
  EXPECT_EQ(tables_of({&a_, &a_, &a_, &a_}, 0), "a");
  EXPECT_EQ(tables_of({&a_, &b_, &a_, &b_}, 0), "a");
  EXPECT_EQ(tables_of({&a_, &b_, &a_, &b_}, 1), "b");
  EXPECT_EQ(tables_of({&a_, &a_, &b_, &a_}, 0), "cpu");
  EXPECT_EQ(tables_of({&cpu_device(), &a_, &b_, &a_}, 1), "a");
}

TEST_F(CacheDevices, TakeTheBytesThatWerePlannedOfEach) {
  ASSERT_OK_AND_ASSIGN(const auto cache, KvCache::plan(cpu_device(), {.layers = {kFull, kFull, kFull},
                                                                      .type_k = DType::f32,
                                                                      .type_v = DType::f32,
                                                                      .n_ctx = 128,
                                                                      .devices = {&a_, &a_, &b_}}));
  const size_t layer = 2 * 128 * 4 * sizeof(float), tables = 2 * 64;  // each padded to a cache line
  const std::vector<TypeBytes> planned = cache->planned_memory();
  ASSERT_EQ(planned.size(), 3u);
  EXPECT_EQ(planned[0].bytes, 2 * layer);
  EXPECT_EQ(planned[1].bytes, layer);
  EXPECT_EQ(planned[2].bytes, tables);
  EXPECT_EQ(cache->bytes(), 3 * layer + tables);
  ASSERT_OK(cache->allocate());
  EXPECT_EQ(a_.used_bytes(), 2 * layer);
  EXPECT_EQ(b_.used_bytes(), layer);
  EXPECT_EQ(cache->allocated_bytes(), cache->bytes());
  EXPECT_EQ(cache->k(2).buffer_type, &b_.buffer_type());
}

TEST_F(CacheDevices, EachLayersDeviceIsAskedForTheType) {
  const FakeDevice poor({.name = "poor", .no_kv = DType::q8_0});
  KvLayerShape shape = kFull;
  shape.k_dim = shape.v_dim = 32;
  const auto plan = [&](const Device& second) {
    return KvCache::plan(cpu_device(),
                         {.layers = {shape, shape}, .type_k = DType::q8_0, .n_ctx = 128, .devices = {&a_, &second}});
  };
  EXPECT_OK(plan(b_));
  EXPECT_ERROR(plan(poor), "poor cannot keep K of 32 elements per head as q8_0");
}

TEST_F(CacheDevices, StatesLieWithTheirLayers) {
  ASSERT_OK_AND_ASSIGN(const auto states,
                       RecurrentCache::plan(cpu_device(), {.layers = {{.n_elements = {16, 16}}, {.n_elements = {16}}},
                                                           .devices = {&a_, &b_}}));
  ASSERT_OK(states->allocate());
  EXPECT_EQ(a_.used_bytes(), 2 * 2 * 16 * sizeof(float));
  EXPECT_EQ(b_.used_bytes(), 2 * 16 * sizeof(float));
  EXPECT_ERROR(RecurrentCache::plan(cpu_device(), {.layers = {{.n_elements = {16}}}, .devices = {&a_, &b_}}),
               "2 devices for 1 layers");
}

}  // namespace
}  // namespace tessera
