// Messages: every kind comes back as it was, damage is noticed, and hostile values are errors.
#include "tessera/mpi/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <vector>

#include "tessera/base/hash.h"
#include "tessera/base/rng.h"
#include "tessera/graph/builder.h"
#include "tessera/graph/op_info.h"
#include "tessera/mpi/op_params.h"
#include "tests/support/random_graph.h"
#include "tests/support/testing.h"

namespace tessera::mpi {
namespace {

const std::vector<std::byte> kPayload(37, std::byte{5});

WireTensor sample_tensor() {
  return {.spec = {.dtype = 8, .ne = {64, 3, 1, 1}, .nb = {34, 68, 204, 204}}, .name = "w", .buffer = 3, .offset = 64};
}

WireGraph sample_graph() {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {8, 3});
  b.output(b.rms_norm(b.view(x, {{8, 2}, {4, 32, 64, 64}}, 32), {}, 0.5f), "y");
  return to_wire(std::move(b).finish().value(), [](const Tensor&) { return kNoBufferType; });
}

// One of each kind, in the order of the list.
std::vector<Message> sample_messages() {
  return {HelloRequest{{"1.0", "hosta", 7}, {"scalar", "avx2"}, 900},
          WelcomeAnswer{{"1.0", "hostb", 7}, {{"cpu", "a cpu", DeviceKind::gpu, {{"isa", "avx2"}}, {{"cpu", 64, 99}}}}},
          MemoryRequest{1},
          MemoryAnswer{9, 8},
          AllocateRequest{0, 1, BufferUsage::cache, 4096},
          FreeRequest{4},
          SetRequest{sample_tensor(), 68, kPayload},
          GetRequest{sample_tensor(), 0, 204},
          ClearRequest{3, 255, true},
          CopyRequest{sample_tensor(), sample_tensor()},
          OpenBackendRequest{0, 4, ActivationPrecision::int8_64},
          CloseBackendRequest{2},
          WorkBytesRequest{2, sample_graph()},
          CompileRequest{2, sample_graph(), {{1, 0}, {1, 64}, {1, 128}}, {1, 256}, 64},
          FreePlanRequest{2, 5},
          RunRequest{2, 5, true},
          CancelRequest{77},
          TimesAnswer{{{3, {1, 2, 3, 4}}}},
          DoneAnswer{12},
          BytesAnswer{kPayload},
          ErrorAnswer{ErrorCode::out_of_memory, "no memory"},
          OpenFileRequest{"/models/a.gguf", 1 << 20, 77},
          LoadRequest{sample_tensor(), 68, 2, 4096, 136},
          SendCopyRequest{sample_tensor(), 2, 9},
          ReceiveCopyRequest{sample_tensor(), 1, 9},
          CopyMessage{9, kPayload},
          PeaksRequest{0, 2},
          PeaksAnswer{1, 2, 3, 4}};
}

std::vector<std::byte> with_right_checksum(std::vector<std::byte> bytes) {
  const auto all = std::span<const std::byte>(bytes);
  const uint64_t checksum = Hash64().add(all.first(16)).add(all.subspan(24)).value();
  std::memcpy(bytes.data() + 16, &checksum, sizeof checksum);
  return bytes;
}

TEST(Messages, ComeBackAsTheyWere) {
  const std::vector<Message> messages = sample_messages();
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
  for (size_t kind = 0; kind < messages.size(); ++kind) {
    ASSERT_EQ(messages[kind].index(), kind);
    const std::vector<std::byte> bytes = encode({kind + 100, messages[kind]});
    ASSERT_OK_AND_ASSIGN(const Envelope got, decode(bytes));
    EXPECT_EQ(got.request, kind + 100);
    EXPECT_EQ(got.message.index(), kind);
    EXPECT_EQ(encode(got), bytes) << "kind " << kind;
  }
  const std::vector<std::byte> bytes = encode({1, sample_messages()[6]});
  const Envelope envelope = decode(bytes).value();
  const auto& set = std::get<SetRequest>(envelope.message);
  EXPECT_EQ(set.tensor.spec.nb[1], 68);
  EXPECT_EQ(set.tensor.name, "w");
  EXPECT_EQ(set.tensor.offset, 64u);
  EXPECT_EQ(set.offset, 68u);
  EXPECT_TRUE(std::ranges::equal(set.bytes, kPayload));
}

TEST(Messages, EachChangedByteIsAnError) {
  for (const Message& message : sample_messages()) {
    const std::vector<std::byte> bytes = encode({1, message});
    for (size_t i = 0; i < bytes.size(); ++i)
      for (const auto flip : {std::byte{1}, std::byte{0x80}, std::byte{0xff}}) {
        auto damaged = bytes;
        damaged[i] ^= flip;
        ASSERT_FALSE(decode(damaged)) << "kind " << message.index() << ", byte " << i;
      }
  }
}

TEST(Messages, EachTruncationIsAnError) {
  for (const Message& message : sample_messages()) {
    const std::vector<std::byte> bytes = encode({1, message});
    for (size_t n = 0; n < bytes.size(); ++n) {
      std::vector<std::byte> shorter(bytes.begin(), bytes.begin() + static_cast<int64_t>(n));
      ASSERT_FALSE(decode(shorter)) << n << " bytes";
      // Even if the checksum is that of the shorter message.
      if (n < 24) continue;
      ASSERT_FALSE(decode(with_right_checksum(shorter))) << n << " bytes of kind " << message.index();
    }
    auto longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_ERROR(decode(with_right_checksum(longer)), "1 bytes too many");
  }
}

// A sender that is wrong sends right checksums, so the values themselves must be safe.
TEST(Messages, ChangedValuesWithARightChecksumNeverCrash) {
  for (const Message& message : sample_messages()) {
    const std::vector<std::byte> bytes = encode({1, message});
    for (size_t i = 0; i < bytes.size(); ++i)
      for (const auto flip : {std::byte{1}, std::byte{2}, std::byte{0x80}, std::byte{0xff}}) {
        auto changed = bytes;
        changed[i] ^= flip;
        changed = with_right_checksum(changed);
        const auto got = decode(changed);
        if (!got) continue;
        std::deque<Tensor> tensors;
        if (const auto* compile = std::get_if<CompileRequest>(&got->message)) from_wire(compile->graph, {}, tensors);
        if (const auto* set = std::get_if<SetRequest>(&got->message)) from_wire(set->tensor.spec);
      }
  }
}

TEST(Messages, VersionsKindsAndChoicesAreChecked) {
  auto bytes = encode({1, MemoryRequest{}});
  bytes[0] = std::byte{9};
  const auto old = decode(with_right_checksum(bytes));
  EXPECT_ERROR(old, "a message of version 9, want 2");
  EXPECT_EQ(old.error().code(), ErrorCode::mismatch);
  bytes = encode({1, MemoryRequest{}});
  bytes[2] = std::byte{200};
  EXPECT_ERROR(decode(with_right_checksum(bytes)), "a message of kind 200, want 0 to 27");
  bytes = encode({1, AllocateRequest{}});
  bytes[24 + 8] = std::byte{4};
  EXPECT_ERROR(decode(with_right_checksum(bytes)), "choice 4");
  bytes = encode({1, ClearRequest{}});
  bytes.back() = std::byte{2};
  EXPECT_ERROR(decode(with_right_checksum(bytes)), "flag 2");
  bytes = encode({1, TimesAnswer{}});
  bytes[24 + 5] = std::byte{1};
  EXPECT_ERROR(decode(with_right_checksum(bytes)), "1099511627776 entries");
}

// --- graphs

uint32_t no_type(const Tensor&) { return kNoBufferType; }

void expect_same_graph(const Graph& a, const Graph& b) {
  ASSERT_EQ(a.size(), b.size());
  for (NodeId id = 0; id < a.size(); ++id) {
    const Node &x = a[id], &y = b[id];
    EXPECT_EQ(x.op, y.op);
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.spec.dtype, y.spec.dtype);
    EXPECT_EQ(x.spec.layout, y.spec.layout);
    EXPECT_TRUE(std::ranges::equal(x.inputs(), y.inputs())) << describe(a, id);
    EXPECT_EQ(x.alias_of, y.alias_of);
    EXPECT_EQ(x.alias_offset, y.alias_offset);
    EXPECT_EQ(x.is_output, y.is_output);
    EXPECT_EQ(x.params.index(), y.params.index()) << describe(a, id);
  }
}

TEST(WireGraph, RandomGraphsComeBackAsTheyWere) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Graph graph = testing::random_graph(seed, 40, false).graph;
    const auto bytes = encode({1, WorkBytesRequest{0, to_wire(graph, no_type)}});
    ASSERT_OK_AND_ASSIGN(const Envelope envelope, decode(bytes));
    std::deque<Tensor> tensors;
    const auto got = from_wire(std::get<WorkBytesRequest>(envelope.message).graph, {}, tensors);
    ASSERT_OK(got);
    expect_same_graph(graph, *got);
    EXPECT_EQ(encode({1, WorkBytesRequest{0, to_wire(*got, no_type)}}), bytes);
  }
}

std::vector<NamedParam> named(const ParamList& list) {
  std::vector<NamedParam> params;
  for (const Param& param : list.all()) params.push_back({param.name, param.integer, param.number});
  return params;
}

// Parameters in which no two members have the same value, so that none can be read as another.
TEST(WireGraph, ParametersOfEveryStructAreRead) {
  const std::pair<Op, OpParams> all[] = {{Op::silu, NoParams{}},
                                         {Op::sum_to, ShapeParams{{5, 6, 7, 8}}},
                                         {Op::place, PlaceParams{{5, 6, 7, 8}, {{1, 2, 3, 4}, {4, 20, 120, 840}}, 16}},
                                         {Op::scatter_rows, ScatterRowsParams{9}},
                                         {Op::add_scaled, AddScaledParams{2.5f, 8}},
                                         {Op::scale, ScaleParams{0.1f}},
                                         {Op::soft_cap, SoftCapParams{3}},
                                         {Op::clamp, ClampParams{-1, 2}},
                                         {Op::xielu, XieluParams{0.5f, 2, 0.25f, -1}},
                                         {Op::rms_norm, NormParams{0.5f}},
                                         {Op::temperature, TemperatureParams{0.5f, 64}},
                                         {Op::temperature, TemperatureParams{0.5f, 64, 1}},
                                         {Op::rope_table, RopeTableParams{8, 10, 0.5f, 1, 2, 3, 4}},
                                         {Op::rope, RopeParams{RopePairs::halves, false}},
                                         {Op::rope, RopeParams{RopePairs::adjacent, true}},
                                         {Op::kv_store, KvParams{KvSide::v}},
                                         {Op::choose_keys, KeyChoiceParams{7, 3, 1}},
                                         {Op::window_keys, KeyWindowParams{7, 4, 2}},
                                         {Op::compress_rows, CompressionParams{4, true}},
                                         {Op::stream_weights, StreamParams{4, 20, 0.5f}},
                                         {Op::paged_attention, AttentionParams{0.5f, true, 7, true, 2, 8, 3, false}},
                                         {Op::self_attention, AttentionParams{0.5f, false, 0, false, 2, 8, 3, true}},
                                         {Op::delta_net, DeltaNetParams{KeyHeads::tiled, 2}},
                                         {Op::rwkv7, Rwkv7Params{}},
                                         {Op::rwkv7, Rwkv7Params{StateRead::before}},
                                         {Op::top_k, TopKParams{4}},
                                         {Op::top_k, TopKParams{4, 2}},
                                         {Op::top_groups, TopGroupsParams{8, 4}},
                                         {Op::expert_weights, ExpertWeightsParams{true, 2}},
                                         {Op::expert_routes, ExpertRoutesParams{8, 3}},
                                         {Op::mul_mat_experts, ExpertProductParams{8, ExpertInput::routed}},
                                         {Op::descend, DescendParams{false}},
                                         {Op::descend, DescendParams{true}}};
  std::vector<bool> seen(std::variant_size_v<OpParams>);
  for (const auto& [op, params] : all) {
    seen[params.index()] = true;
    const ParamList list = list_params(params);
    const auto got = read_params(op, DType::f32, named(list));
    ASSERT_OK(got);
    ASSERT_EQ(got->index(), params.index()) << info(op).name;
    const ParamList again = list_params(*got);
    ASSERT_EQ(list.all().size(), again.all().size());
    for (size_t i = 0; i < list.all().size(); ++i) {
      EXPECT_EQ(again.all()[i].integer, list.all()[i].integer) << info(op).name;
      EXPECT_EQ(again.all()[i].number, list.all()[i].number) << info(op).name;
    }
    // A parameter less, or one more, is refused.
    std::vector<NamedParam> fewer = named(list), more = fewer;
    more.push_back({"later", 1, 1});
    EXPECT_ERROR(read_params(op, DType::f32, more), "has no parameter later");
    if (fewer.empty()) continue;
    // These three are sent only where they have an effect.
    const std::string_view last = fewer.back().name;
    const bool may_be_absent = last == "divisor" || last == "before" || (last == "offset" && op == Op::temperature);
    fewer.pop_back();
    EXPECT_EQ(read_params(op, DType::f32, fewer).has_value(), may_be_absent) << info(op).name;
  }
  const auto cast = read_params(Op::cast, DType::bf16, {});
  ASSERT_OK(cast);
  EXPECT_EQ(std::get<CastParams>(*cast).dtype, DType::bf16);
  seen[cast->index()] = true;
  EXPECT_EQ(std::ranges::find(seen, false), seen.end()) << "a struct of parameters is not in this test";
}

TEST(WireGraph, ParametersThatCannotBeAreRefused) {
  const std::vector<NamedParam> wide = {{"factor", 0, 1e300}}, fine = {{"factor", 0, 0.1}}, flag = {{"v", 2, 2}};
  EXPECT_ERROR(read_params(Op::scale, DType::f32, wide), "scale has no parameter factor of 1e+300");
  EXPECT_ERROR(read_params(Op::scale, DType::f32, fine), "scale has no parameter factor of 0.1");  // no f32
  EXPECT_ERROR(read_params(Op::kv_store, DType::f32, flag), "kv_store has no parameter v of 2");
}

WireNode& node_of(WireGraph& graph, size_t i) { return graph.nodes[i]; }

Result<Graph> read_graph(const WireGraph& graph) {
  std::deque<Tensor> tensors;
  return from_wire(graph, {}, tensors);
}

// Nodes of sample_graph(): x, a view of it, rms_norm.
TEST(WireGraph, WhatCannotBeIsRefused) {
  ASSERT_OK(read_graph(sample_graph()));
  const auto refused = [](const std::function<void(WireGraph&)>& change, const std::string& part) {
    WireGraph graph = sample_graph();
    change(graph);
    EXPECT_ERROR(read_graph(graph), part);
  };
  const auto rename = [](WireGraph& g, size_t i, const char* op) {
    g.names.emplace_back(op);
    node_of(g, i).op = static_cast<uint32_t>(g.names.size() - 1);
  };
  refused([&](WireGraph& g) { rename(g, 2, "later_norm"); }, "node 2: no operation named later_norm");
  refused([&](WireGraph& g) { rename(g, 2, "copy"); }, "no operation named copy");
  refused([&](WireGraph& g) { rename(g, 2, "silu"); }, "silu has no parameter eps");
  refused([&](WireGraph& g) { rename(g, 0, "silu"); }, "node 0: silu: 0 operands, want 1 to 1");
  refused([&](WireGraph& g) { rename(g, 0, "tensor"); }, "memory 4294967295, want one of 0");
  refused([](WireGraph& g) { node_of(g, 1).name = 99; }, "node 1: name 99, want one of");
  refused([](WireGraph& g) { node_of(g, 2).spec.ne[0] = 9; }, "node 2: rms_norm: f32 [8, 2] here, f32 [9, 2]");
  refused([](WireGraph& g) { node_of(g, 2).spec.dtype = 26; }, "f32 [8, 2] here, i32 [8, 2]");
  refused([](WireGraph& g) { node_of(g, 0).spec.dtype = 12345; }, "12345");
  refused([](WireGraph& g) { node_of(g, 0).spec.ne[1] = -3; }, "-3");
  refused([](WireGraph& g) { node_of(g, 0).spec.nb[1] = INT64_MAX; }, "reach too far");
  refused([](WireGraph& g) { node_of(g, 0).spec.nb[1] = -4; }, "stride -4 of dimension 1");
  refused([](WireGraph& g) { node_of(g, 2).sources[0] = 2; }, "operand 2 is not an earlier node");
  refused([](WireGraph& g) { node_of(g, 2).sources[0] = -2; }, "operand -2 is not an earlier node");
  refused([](WireGraph& g) { node_of(g, 2).sources.resize(11); }, "11 operands, limit 10");
  refused(
      [](WireGraph& g) {
        node_of(g, 2).sources.pop_back();
        node_of(g, 2).sources.pop_back();
      },
      "rms_norm");
  refused([](WireGraph& g) { node_of(g, 2).alias_of = 1; }, "rms_norm does not change its first operand");
  refused([](WireGraph& g) { node_of(g, 2).alias_of = 0; }, "memory of node 0, which is not its first operand");
  refused([](WireGraph& g) { node_of(g, 1).alias_of = kNoNode; }, "a view wants one operand");
  refused([](WireGraph& g) { node_of(g, 1).alias_offset = 64; }, "reaches outside");
  refused([](WireGraph& g) { node_of(g, 1).spec.dtype = 26; }, "a view of another type");
  refused([](WireGraph& g) { node_of(g, 0).sources = {kNoNode}; }, "a leaf with operands");
  refused([](WireGraph& g) { node_of(g, 2).buffer_type = 0; }, "memory 0, want one of 0");
}

}  // namespace
}  // namespace tessera::mpi
