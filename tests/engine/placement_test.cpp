// Meaning of the placement options: the device of each weight, layer and cache. Errors list the valid names.
#include "tessera/engine/placement.h"

#include <fmt/format.h>

#include "tests/support/engine_support.h"
#include "tests/support/fake_device.h"

namespace tessera {
namespace {

using namespace testing;

ModelInfo model_of(int64_t n_layers) {
  ModelInfo info;
  info.n_layers = n_layers;
  return info;
}

const std::vector<std::string> kTwo = {"a", "b"};

std::shared_ptr<Registry> two_devices(uint64_t a_bytes = 1000, uint64_t b_bytes = 1000) {
  return fake_registry({{.name = "a", .limit_bytes = a_bytes}, {.name = "b", .limit_bytes = b_bytes}});
}

// Returns the first letter of each entry's device: layers, then the output.
std::string entries_of(const Registry& registry, int64_t n_layers, const PlacementOptions& options) {
  const auto placement = ModelPlacement::create(registry, model_of(n_layers), options);
  if (!placement) return placement.error().message();
  std::string letters;
  for (int64_t i = 0; i < placement->n_entries(); ++i) letters += placement->entry(i).name().front();
  return letters;
}

// Returns the buffer type of a weight in a model of four layers.
std::string memory_of(const Registry& registry, const PlacementOptions& options, const std::string& name,
                      Op use = Op::mul_mat, bool pack = true) {
  const auto placement = ModelPlacement::create(registry, model_of(4), options);
  if (!placement) return placement.error().message();
  const Shape shape = use == Op::mul_mat_experts ? Shape{32, 32, 4} : use == Op::rms_norm ? Shape{32} : Shape{32, 32};
  const Weight weight{{{DType::f32, contiguous_layout(DType::f32, shape).value()}, name}, use, nullptr};
  const auto type = placement->type_of(weight, pack);
  return type ? std::string((*type)->name()) : type.error().message();
}

TEST(Placement, TheLastLayersGoToDevicesAndTheOutputIsOneMore) {
  const auto registry = fake_registry({{.name = "a"}});
  const auto entries = [&](int64_t n) { return entries_of(*registry, 4, {.devices = {"a"}, .n_gpu_layers = n}); };
  EXPECT_EQ(entries(0), "ccccc");
  EXPECT_EQ(entries(1), "cccca");
  EXPECT_EQ(entries(3), "ccaaa");
  EXPECT_EQ(entries(5), "aaaaa");
  EXPECT_EQ(entries(99), "aaaaa");
  EXPECT_EQ(entries(kAutoLayers), "aaaaa");
  EXPECT_EQ(entries(kAllLayers), "aaaaa");
}

TEST(Placement, LayersAreSharedAsAskedOrByFreeMemory) {
  const auto entries = [](const Registry& registry, PlacementOptions options) {
    options.devices = kTwo;
    return entries_of(registry, 7, options);
  };
  EXPECT_EQ(entries(*two_devices(), {}), "aaaabbbb");
  EXPECT_EQ(entries(*two_devices(3000, 1000), {}), "aaaaaabb");
  EXPECT_EQ(entries(*two_devices(), {.shares = {1, 3}}), "aabbbbbb");
  EXPECT_EQ(entries(*two_devices(), {.shares = {0, 1}}), "bbbbbbbb");
  EXPECT_EQ(entries(*two_devices(), {.shares = {1}}), "aaaaaaaa");
  EXPECT_EQ(entries(*two_devices(), {.n_gpu_layers = 4, .shares = {1, 1}}), "ccccaabb");
  EXPECT_EQ(entries(*two_devices(), {.split = SplitMode::none}), "aaaaaaaa");
  EXPECT_EQ(entries(*two_devices(), {.split = SplitMode::none, .main_device = 1}), "bbbbbbbb");
}

// Returns "a 0:32, b 32:64" for a matrix of n_rows rows.
std::string parts_of(const Registry& registry, PlacementOptions options, int64_t n_rows,
                     const std::string& name = "blk.0.attn_q.weight", Op use = Op::mul_mat) {
  options.devices = kTwo;
  options.split = SplitMode::row;
  const auto placement = ModelPlacement::create(registry, model_of(4), options);
  if (!placement) return placement.error().message();
  const Weight weight{{{DType::f32, contiguous_layout(DType::f32, {32, n_rows}).value()}, name}, use, nullptr};
  std::string text;
  int64_t row = 0;
  for (const Tensor& part : placement->row_parts_of(weight, true)) {
    const int64_t begin = std::exchange(row, row + part.shape()[1]);
    EXPECT_EQ(part.name, fmt::format("{}[{}:{}]", name, begin, row));
    text += fmt::format("{}{} {}:{}", text.empty() ? "" : ", ", part.buffer_type->name(), begin, row);
  }
  if (!text.empty()) {
    EXPECT_EQ(row, n_rows);
  }
  return text;
}

TEST(Placement, RowsAreSharedInPanels) {
  const auto registry = two_devices();
  EXPECT_EQ(parts_of(*registry, {}, 64), "a 0:32, b 32:64");
  EXPECT_EQ(parts_of(*registry, {.shares = {3, 1}}, 64), "a 0:48, b 48:64");
  EXPECT_EQ(parts_of(*registry, {.shares = {1, 1}}, 41), "a 0:16, b 16:41");
  EXPECT_EQ(parts_of(*registry, {.shares = {1, 3}, .main_device = 1}, 64), "a 0:16, b 16:64");
  EXPECT_EQ(parts_of(*two_devices(3000, 1000), {}, 160), "a 0:128, b 128:160");
  EXPECT_EQ(parts_of(*registry, {.shares = {1, 1}}, 64, "output.weight"), "a 0:32, b 32:64");
  // Not split: a device's share is less than a panel, or everything; the weight is not a matrix, or a table of rows.
  EXPECT_EQ(parts_of(*registry, {.shares = {1, 1}}, 15), "");
  EXPECT_EQ(parts_of(*registry, {.shares = {0, 1}}, 64), "");
  EXPECT_EQ(parts_of(*registry, {.shares = {1, 0}}, 41), "");
  EXPECT_EQ(parts_of(*registry, {.shares = {1, 1}}, 64, "blk.0.attn_norm.weight", Op::rms_norm), "");
  EXPECT_EQ(parts_of(*registry, {.shares = {1, 1}}, 64, "token_embd.weight"), "");
  // A matrix that is not on these devices is not split either.
  EXPECT_EQ(parts_of(*registry, {.n_gpu_layers = 2, .shares = {1, 1}}, 64), "");
  EXPECT_EQ(parts_of(*registry, {.shares = {1, 1}, .rules = {{"attn", "b"}}}, 64), "");
  const auto lacks = [](const Graph& graph, NodeId id) { return graph[id].op == Op::mul_mat; };
  EXPECT_EQ(parts_of(*fake_registry({{.name = "a"}, {.name = "b", .lacks = lacks}}), {.shares = {1, 1}}, 64), "");
}

TEST(Placement, WithSplitRowsTheRestLiesOnTheMainDevice) {
  const auto registry = two_devices();
  EXPECT_EQ(entries_of(*registry, 4, {.devices = kTwo, .split = SplitMode::row}), "aaaaa");
  EXPECT_EQ(entries_of(*registry, 4, {.devices = kTwo, .n_gpu_layers = 2, .split = SplitMode::row, .main_device = 1}),
            "cccbb");
}

TEST(Placement, DevicesAreThoseNamedOrTheGpus) {
  const auto registry = fake_registry({{.name = "a"}, {.name = "s", .kind = DeviceKind::accelerator}, {.name = "b"}});
  const auto devices = [&](const std::vector<std::string>& names) {
    const auto found = ModelPlacement::find_devices(*registry, {.devices = names});
    if (!found) return found.error().message();
    std::string letters;
    for (const Device* device : *found) letters += device->name().front();
    return letters;
  };
  EXPECT_EQ(devices({}), "abc");
  EXPECT_EQ(devices({"none"}), "c");
  EXPECT_EQ(devices({"cpu"}), "c");
  EXPECT_EQ(devices({"s"}), "sc");
  EXPECT_EQ(devices({"b", "CPU", "a"}), "bac");
  EXPECT_EQ(devices({"x"}), "no device named x (there are: a, s, b, cpu)");
  EXPECT_EQ(devices({"a", "a"}), "device a is named twice");
}

// A GPU may be known to two interfaces.
TEST(Placement, HardwareIsUsedOnce) {
  const auto registry = fake_registry({{.name = "a", .hardware_id = "1"},
                                       {.name = "b", .hardware_id = "1"},
                                       {.name = "d", .hardware_id = "2"},
                                       {.name = "e"},
                                       {.name = "f"}});
  std::string letters;
  for (const Device* device : registry->gpus()) letters += device->name().front();
  EXPECT_EQ(letters, "adef");
}

TEST(Placement, WeightsLieWithTheirLayer) {
  const auto registry = two_devices();
  const PlacementOptions options{.devices = kTwo, .n_gpu_layers = 4};  // c a a b b
  const auto memory = [&](const std::string& name, Op use = Op::mul_mat) {
    return memory_of(*registry, options, name, use);
  };
  EXPECT_EQ(memory("blk.0.attn_q.weight"), "cpu-packed");
  EXPECT_EQ(memory("blk.0.attn_norm.weight", Op::rms_norm), "cpu");
  EXPECT_EQ(memory("blk.1.attn_q.weight"), "a");
  EXPECT_EQ(memory("blk.3.attn_norm.weight", Op::rms_norm), "b");
  EXPECT_EQ(memory("dec.blk.3.attn_q.weight"), "b");
  EXPECT_EQ(memory("enc.blk.12.attn_q.weight"), "b");  // an encoder may have more layers
  EXPECT_EQ(memory("output.weight"), "b");
  EXPECT_EQ(memory("output_norm.weight", Op::rms_norm), "b");
  EXPECT_EQ(memory("token_embd.weight", Op::get_rows), "cpu");
  EXPECT_EQ(memory("token_embd.weight", Op::mul_mat), "b");       // also used as the output
  EXPECT_EQ(memory("rope_freqs.weight", Op::rope_table), "cpu");  // on the device of the first layer
  EXPECT_EQ(memory_of(*registry, {}, "blk.0.attn_q.weight", Op::mul_mat, false), "cpu");
}

// Else a step would wait for the CPU and for a copy.
TEST(Placement, AGpuWithAllLayersLooksUpTokens) {
  const auto rows_memory = [](DeviceKind kind, int64_t n_layers) {
    const auto registry = fake_registry({{.name = "a", .kind = kind}});
    return memory_of(*registry, {.devices = {"a"}, .n_gpu_layers = n_layers}, "token_embd.weight", Op::get_rows);
  };
  EXPECT_EQ(rows_memory(DeviceKind::gpu, kAllLayers), "a");
  EXPECT_EQ(rows_memory(DeviceKind::gpu, 4), "cpu");
  EXPECT_EQ(rows_memory(DeviceKind::accelerator, kAllLayers), "cpu");
}

TEST(Placement, RulesComeFirstAndTheFirstThatMatchesCounts) {
  const auto registry = two_devices();
  const auto memory = [&](std::vector<PlacementRule> rules, const std::string& name, Op use = Op::mul_mat) {
    return memory_of(*registry, {.devices = kTwo, .rules = std::move(rules)}, name, use);
  };
  EXPECT_EQ(memory({{"ffn_(up|down)", "CPU"}}, "blk.0.ffn_up.weight"), "cpu-packed");
  EXPECT_EQ(memory({{"ffn_(up|down)", "CPU"}}, "blk.0.ffn_gate.weight"), "a");
  EXPECT_EQ(memory({{"up", "b"}, {"ffn", "cpu"}}, "blk.0.ffn_up.weight"), "b");
  EXPECT_EQ(memory({{"ffn", "cpu-numa"}}, "blk.0.ffn_up.weight"), "cpu-numa");
  EXPECT_EQ(memory({{"embd", "a"}}, "token_embd.weight", Op::get_rows), "a");
  EXPECT_NE(memory({{"norm", "cpu-packed"}}, "blk.0.attn_norm.weight", Op::rms_norm)
                .find("cannot lie in cpu-packed: only what is multiplied does"),
            std::string::npos);
  EXPECT_NE(memory({{"(", "cpu"}}, "x").find("'(' is not a regular expression"), std::string::npos);
  EXPECT_EQ(memory({{std::string(2000, 'a'), "cpu"}}, "x"), "a pattern of 2000 bytes, limit 1024");
  EXPECT_NE(memory({{"x", "gpu7"}}, "x").find("no device or memory named gpu7 (there are: a, b, cpu, cpu-packed"),
            std::string::npos);
  EXPECT_EQ(memory_of(*registry, {.devices = {"a"}, .rules = {{"x", "b"}}}, "x"),
            "device b is not among those used (option devices)");
}

TEST(Placement, ExpertsMayStayOnTheCpu) {
  const auto registry = two_devices();
  const auto memory = [&](int64_t n, const std::string& name, Op use = Op::mul_mat_experts) {
    return memory_of(*registry, {.devices = {"a"}, .n_cpu_expert_layers = n}, name, use);
  };
  EXPECT_EQ(memory(2, "blk.1.ffn_up_exps.weight"), "cpu-packed");
  EXPECT_EQ(memory(2, "blk.2.ffn_up_exps.weight"), "a");
  EXPECT_EQ(memory(2, "blk.1.ffn_up.weight", Op::mul_mat), "a");
  EXPECT_EQ(memory(kAllLayers, "blk.3.ffn_gate_exps.weight"), "cpu-packed");
}

TEST(Placement, CachesLieWithTheirLayersOrOnTheCpu) {
  const auto registry = two_devices();
  PlacementOptions options{.devices = kTwo, .n_gpu_layers = 4};  // c a a b b
  ASSERT_OK_AND_ASSIGN(const auto placement, ModelPlacement::create(*registry, model_of(4), options));
  EXPECT_EQ(placement.cache_of(0).name(), "cpu");
  EXPECT_EQ(placement.cache_of(2).name(), "a");
  EXPECT_EQ(placement.cache_of(3).name(), "b");
  options.offload_caches = false;
  ASSERT_OK_AND_ASSIGN(const auto kept, ModelPlacement::create(*registry, model_of(4), options));
  EXPECT_EQ(kept.cache_of(3).name(), "cpu");
}

TEST(Placement, WhatADeviceCannotMultiplyLiesOnTheCpu) {
  const auto lacks = [](const Graph& graph, NodeId id) { return graph[id].op == Op::mul_mat; };
  const auto registry = fake_registry({{.name = "a", .lacks = lacks}});
  EXPECT_EQ(memory_of(*registry, {.devices = {"a"}}, "blk.0.attn_q.weight"), "cpu-packed");
  EXPECT_EQ(memory_of(*registry, {.devices = {"a"}}, "blk.0.ffn_up_exps.weight", Op::mul_mat_experts), "a");
  EXPECT_EQ(memory_of(*registry, {.devices = {"a"}}, "blk.0.attn_norm.weight", Op::rms_norm), "a");
}

TEST(Placement, RefusesSharesAndMainDevicesThatCannotBe) {
  const auto registry = two_devices();
  const auto message = [&](PlacementOptions options) {
    options.devices = kTwo;
    return entries_of(*registry, 4, options);
  };
  EXPECT_EQ(message({.shares = {1, 2, 3}}), "3 shares for 2 devices");
  EXPECT_EQ(message({.shares = {0, 0}}), "the devices' shares sum to 0");
  EXPECT_EQ(message({.shares = {1, -1}}), "a device's share is -1, want at least 0");
  EXPECT_EQ(message({.split = SplitMode::none, .main_device = 2}), "main device 2, want 0 to 1");
}

TEST(Placement, ACacheTypeThatADeviceCannotKeepIsAnError) {
  const std::string path = story_model();
  const auto registry = fake_registry({{.name = "a", .no_kv = DType::bf16}});
  for (const bool offloads : {true, false}) {
    const PlacementOptions placement{.devices = {"a"}, .offload_caches = offloads};
    ASSERT_OK_AND_ASSIGN(const auto engine, Engine::open(*registry, path, {.placement = placement}));
    const auto plan = Session::plan(*engine, {.type_k = DType::bf16});
    if (offloads) {
      EXPECT_ERROR(plan, "a cannot keep K of 8 elements per head as bf16");
    } else {
      EXPECT_OK(plan);
    }
  }
}

}  // namespace
}  // namespace tessera
