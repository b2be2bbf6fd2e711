// The conversion of graphs to the structs of the plugin interface.
#include <gtest/gtest.h>

#include <map>

#include "tessera/backend/plugin_graph.h"
#include "tessera/graph/builder.h"
#include "tessera/graph/op_info.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

std::map<std::string, double> params_of(const OpParams& params) {
  const ParamList list = list_params(params);
  std::map<std::string, double> values;
  for (const Param& param : list.all()) {
    EXPECT_TRUE(values.emplace(param.name, param.number).second) << param.name << " twice";
    EXPECT_TRUE(param.integer == 0 || static_cast<double>(param.integer) == param.number) << param.name;
  }
  return values;
}

using Params = std::map<std::string, double>;

// These names and values are part of the interface: a change here requires a new major version.
TEST(PluginGraph, ParametersHaveTheNamesOfTheInterface) {
  EXPECT_EQ(params_of({}), Params());
  EXPECT_EQ(params_of(ScaleParams{2}), (Params{{"factor", 2}}));
  EXPECT_EQ(params_of(SoftCapParams{3}), (Params{{"cap", 3}}));
  EXPECT_EQ(params_of(ClampParams{-1, 2}), (Params{{"min", -1}, {"max", 2}}));
  EXPECT_EQ(params_of(NormParams{0.5f}), (Params{{"eps", 0.5}}));
  EXPECT_EQ(params_of(KvParams{KvSide::k}), (Params{{"v", 0}}));
  EXPECT_EQ(params_of(KvParams{KvSide::v}), (Params{{"v", 1}}));
  EXPECT_EQ(params_of(RopeTableParams{8, 10, 0.5f, 1, 2, 3, 4}), (Params{{"n_rot", 8},
                                                                         {"freq_base", 10},
                                                                         {"freq_scale", 0.5},
                                                                         {"yarn_ext", 1},
                                                                         {"yarn_low", 2},
                                                                         {"yarn_high", 3},
                                                                         {"magnitude", 4}}));
  EXPECT_EQ(params_of(RopeParams{RopePairs::adjacent, true}), (Params{{"halves", 0}, {"inverse", 1}}));
  EXPECT_EQ(params_of(RopeParams{RopePairs::halves, false}), (Params{{"halves", 1}, {"inverse", 0}}));
  EXPECT_EQ(params_of(AttentionParams{0.5f, true, 7, false, 2, 8, 3}), (Params{{"scale", 0.5},
                                                                               {"causal", 1},
                                                                               {"window", 7},
                                                                               {"soft_cap", 2},
                                                                               {"max_alibi", 8},
                                                                               {"latent_v", 3},
                                                                               {"int16", 0}}));
  EXPECT_EQ(params_of(KeyChoiceParams{7, 3, 1}), (Params{{"n_chosen", 7}, {"unit", 3}, {"n_local", 1}}));
  EXPECT_EQ(params_of(KeyWindowParams{7, 3, 1}), (Params{{"window", 7}, {"ratio", 3}, {"n_entry_blocks", 1}}));
  EXPECT_EQ(params_of(CompressionParams{4, true}), (Params{{"ratio", 4}, {"overlaps", 1}}));
  EXPECT_EQ(params_of(StreamParams{4, 20, 0.5f}), (Params{{"n_streams", 4}, {"n_iterations", 20}, {"eps", 0.5}}));
  EXPECT_EQ(params_of(TopKParams{4}), (Params{{"k", 4}}));
  EXPECT_EQ(params_of(TopKParams{4, 2}), (Params{{"k", 4}, {"divisor", 2}}));
  EXPECT_EQ(params_of(Rwkv7Params{}), Params{});
  EXPECT_EQ(params_of(Rwkv7Params{StateRead::before}), (Params{{"before", 1}}));
  EXPECT_EQ(params_of(XieluParams{0.5f, 2, 0.25f, -1}),
            (Params{{"square", 0.5}, {"exponential", 2}, {"linear", 0.25}, {"bound", -1}}));
  EXPECT_EQ(params_of(ExpertWeightsParams{true, 2}), (Params{{"normalize", 1}, {"scale", 2}}));
  EXPECT_EQ(params_of(TopGroupsParams{8, 4}), (Params{{"n_groups", 8}, {"n_used", 4}}));
  EXPECT_EQ(params_of(TemperatureParams{0.5f, 64}), (Params{{"beta", 0.5}, {"length", 64}}));
  EXPECT_EQ(params_of(TemperatureParams{0.5f, 64, 1}), (Params{{"beta", 0.5}, {"length", 64}, {"offset", 1}}));
  EXPECT_EQ(params_of(ExpertRoutesParams{8, 3}), (Params{{"n_experts", 8}, {"n_tokens", 3}}));
  EXPECT_EQ(params_of(ExpertProductParams{8, ExpertInput::tokens}), (Params{{"n_experts", 8}, {"routed", 0}}));
  EXPECT_EQ(params_of(ExpertProductParams{8, ExpertInput::routed}), (Params{{"n_experts", 8}, {"routed", 1}}));
  EXPECT_EQ(params_of(DeltaNetParams{KeyHeads::grouped, 2}), (Params{{"tiled", 0}, {"scale", 2}}));
  EXPECT_EQ(params_of(DeltaNetParams{KeyHeads::tiled, 2}), (Params{{"tiled", 1}, {"scale", 2}}));
  EXPECT_EQ(params_of(AddScaledParams{2, 8}), (Params{{"factor", 2}, {"n_experts", 8}}));
  EXPECT_EQ(params_of(ShapeParams{{5, 6, 7, 8}}), (Params{{"ne0", 5}, {"ne1", 6}, {"ne2", 7}, {"ne3", 8}}));
  EXPECT_EQ(params_of(PlaceParams{{5, 6, 7, 8}, {{1, 2, 3, 4}, {4, 20, 120, 840}}, 16}), (Params{{"ne0", 5},
                                                                                                 {"ne1", 6},
                                                                                                 {"ne2", 7},
                                                                                                 {"ne3", 8},
                                                                                                 {"at_ne0", 1},
                                                                                                 {"at_ne1", 2},
                                                                                                 {"at_ne2", 3},
                                                                                                 {"at_ne3", 4},
                                                                                                 {"at_nb0", 4},
                                                                                                 {"at_nb1", 20},
                                                                                                 {"at_nb2", 120},
                                                                                                 {"at_nb3", 840},
                                                                                                 {"offset", 16}}));
  EXPECT_EQ(params_of(ScatterRowsParams{9}), (Params{{"n_rows", 9}}));
  EXPECT_EQ(params_of(DescendParams{true}), (Params{{"decays", 1}}));
}

Graph small_graph() {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {8, 3});
  const Value rows = b.view(x, {{8, 2}, {4, 32, 64, 64}}, 32);
  const Value normed = b.rms_norm(rows, {}, 0.5f);
  b.output(b.rms_norm(normed, b.input("w", DType::f32, {8}), 0.25f), "y");
  return std::move(b).finish().value();
}

TEST(PluginGraph, NodesAreDescribedWithSourcesAndAliases) {
  const Graph graph = small_graph();
  const PluginGraph plugin_graph(graph);
  const tessera_plugin_graph& seen = *plugin_graph.get();
  ASSERT_EQ(seen.n_nodes, 5u);
  const tessera_plugin_node &x = *seen.nodes[0], &rows = *seen.nodes[1], &normed = *seen.nodes[2], &y = *seen.nodes[4];
  EXPECT_STREQ(x.op, "input");
  EXPECT_STREQ(x.name, "x");
  EXPECT_EQ(x.dtype, TESSERA_PLUGIN_F32);
  EXPECT_EQ(x.ne[1], 3);
  EXPECT_EQ(x.n_sources, 0u);
  EXPECT_STREQ(rows.op, "view");
  EXPECT_EQ(rows.alias_of, &x);
  EXPECT_EQ(rows.alias_offset, 32u);
  EXPECT_EQ(rows.nb[1], 32);
  ASSERT_EQ(normed.n_sources, 2u);
  EXPECT_EQ(normed.sources[0], &rows);
  EXPECT_EQ(tessera_plugin_source(&normed, 1), nullptr);  // an absent weight
  EXPECT_EQ(tessera_plugin_source(&normed, 2), nullptr);
  EXPECT_EQ(tessera_plugin_number(&normed, "eps", 1), 0.5);
  EXPECT_EQ(normed.alias_of, nullptr);
  EXPECT_EQ(normed.is_output, 0u);
  EXPECT_EQ(y.index, 4u);
  EXPECT_STREQ(y.name, "y");
  EXPECT_EQ(y.is_output, 1u);
  EXPECT_EQ(y.sources[0], &normed);
  EXPECT_EQ(y.sources[1], seen.nodes[3]);
  EXPECT_EQ(tessera_plugin_number(&y, "eps", 1), 0.25);
  EXPECT_EQ(tessera_plugin_number(&y, "scale", 7), 7);
}

TEST(PluginGraph, ANodeAloneHasItsSourcesAndThoseHaveNone) {
  const Graph graph = small_graph();
  const PluginGraph plugin_graph(graph, 4);
  ASSERT_EQ(plugin_graph.get()->n_nodes, 3u);
  const tessera_plugin_node& y = *plugin_graph.last();
  EXPECT_EQ(y.index, 4u);
  ASSERT_EQ(y.n_sources, 2u);
  EXPECT_STREQ(y.sources[0]->op, "rms_norm");
  EXPECT_EQ(y.sources[0]->n_sources, 0u);
  EXPECT_EQ(tessera_plugin_number(y.sources[0], "eps", 1), 0.5);
  EXPECT_STREQ(y.sources[1]->name, "w");
}

TEST(PluginGraph, AStoreIsAnAliasOfItsCache) {
  const Tensor cache{{DType::f32, contiguous_layout(DType::f32, {4, kKvBlockTokens, 2, 3}).value()}, "cache"};
  GraphBuilder b;
  b.kv_store(b.tensor(cache), b.input("x", DType::f32, {4, 2, 5}), b.input("cells", DType::i32, {5}), KvSide::v);
  const Graph graph = std::move(b).finish().value();
  const PluginGraph plugin_graph(graph, 3);
  const tessera_plugin_node& store = *plugin_graph.last();
  EXPECT_EQ(store.alias_of, store.sources[0]);
  EXPECT_STREQ(store.alias_of->op, "tensor");
  EXPECT_EQ(tessera_plugin_integer(&store, "v", 0), 1);
}

}  // namespace
}  // namespace tessera
