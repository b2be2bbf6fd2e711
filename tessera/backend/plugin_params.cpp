// Each operation's parameters by name. A struct of parameters that has no list here does not compile.
#include "tessera/backend/plugin_graph.h"

namespace tessera {

namespace {

class ParamList {
 public:
  explicit ParamList(std::vector<tessera_plugin_param>& list) : list_(list) {}

  void operator()(const std::monostate&) {}
  void operator()(const ScaleParams& p) { number("factor", p.factor); }
  void operator()(const SoftCapParams& p) { number("cap", p.cap); }
  void operator()(const ClampParams& p) {
    number("min", p.min);
    number("max", p.max);
  }
  void operator()(const RmsNormParams& p) { number("eps", p.eps); }
  void operator()(const LayerNormParams& p) { number("eps", p.eps); }
  void operator()(const L2NormParams& p) { number("eps", p.eps); }
  void operator()(const KvParams& p) { integer("v", p.side == KvSide::v); }
  void operator()(const RopeTableParams& p) {
    integer("n_rot", p.n_rot);
    number("freq_base", p.freq_base);
    number("freq_scale", p.freq_scale);
    number("yarn_ext", p.yarn_ext);
    number("yarn_low", p.yarn_low);
    number("yarn_high", p.yarn_high);
    number("magnitude", p.magnitude);
  }
  void operator()(const RopeParams& p) {
    integer("halves", p.pairs == RopePairs::halves);
    integer("inverse", p.inverse);
  }
  void operator()(const AttentionParams& p) {
    number("scale", p.scale);
    integer("causal", p.causal);
    integer("window", p.window);
    number("soft_cap", p.soft_cap);
    number("max_alibi", p.max_alibi);
    integer("latent_v", p.latent_v);
  }
  void operator()(const TopKParams& p) { integer("k", p.k); }
  void operator()(const ExpertWeightsParams& p) {
    integer("normalize", p.normalize);
    number("scale", p.scale);
  }
  void operator()(const TopGroupsParams& p) {
    integer("n_groups", p.n_groups);
    integer("n_used", p.n_used);
  }
  void operator()(const TemperatureParams& p) {
    number("beta", p.beta);
    integer("length", p.length);
  }
  void operator()(const ExpertRoutesParams& p) {
    integer("n_experts", p.n_experts);
    integer("n_tokens", p.n_tokens);
  }
  void operator()(const ExpertProductParams& p) {
    integer("n_experts", p.n_experts);
    integer("routed", p.input == ExpertInput::routed);
  }
  void operator()(const DeltaNetParams& p) {
    integer("tiled", p.key_heads == KeyHeads::tiled);
    number("scale", p.scale);
  }
  void operator()(const AddScaledParams& p) {
    number("factor", p.factor);
    integer("n_experts", p.n_experts);
  }
  void operator()(const ShapeParams& p) { extents({"ne0", "ne1", "ne2", "ne3"}, p.shape.ne); }
  void operator()(const PlaceParams& p) {
    extents({"ne0", "ne1", "ne2", "ne3"}, p.shape.ne);
    extents({"at_ne0", "at_ne1", "at_ne2", "at_ne3"}, p.at.shape.ne);
    extents({"at_nb0", "at_nb1", "at_nb2", "at_nb3"}, p.at.nb);
    integer("offset", static_cast<int64_t>(p.offset));
  }
  void operator()(const ScatterRowsParams& p) { integer("n_rows", p.n_rows); }
  void operator()(const DescendParams& p) { integer("decays", p.decays); }

 private:
  void integer(const char* name, int64_t value) { list_.push_back({name, value, static_cast<double>(value)}); }
  void number(const char* name, float value) { list_.push_back({name, 0, double{value}}); }
  void extents(const std::array<const char*, kMaxRank>& names, const std::array<int64_t, kMaxRank>& values) {
    for (size_t i = 0; i < names.size(); ++i) integer(names[i], values[i]);
  }

  std::vector<tessera_plugin_param>& list_;
};

}  // namespace

void append_params(const OpParams& params, std::vector<tessera_plugin_param>& list) {
  std::visit(ParamList(list), params);
}

}  // namespace tessera
