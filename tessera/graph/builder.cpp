#include "tessera/graph/builder.h"

#include <fmt/format.h>

#include <limits>

#include "tessera/base/checked.h"
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

constexpr size_t kMaxNodes = 1u << 20;  // far above any model; bounds what a hostile block_count can build

}  // namespace

Value GraphBuilder::input(std::string_view name, DType dtype, const Shape& shape) {
  if (adds_nothing()) return {};
  auto spec = contiguous(dtype, shape);
  if (!spec) {
    error_ = std::move(spec).error().within(fmt::format("input {}", name));
    return {};
  }
  Node node{.op = Op::input, .spec = *spec};
  node.name = name;
  graph_.nodes_.push_back(std::move(node));
  return Value(graph_.size() - 1);
}

Value GraphBuilder::tensor(const Tensor& tensor) {
  if (adds_nothing()) return {};
  Node node{.op = Op::tensor, .spec = {tensor.dtype, tensor.layout}};
  node.tensor = &tensor;
  node.name = tensor.name;
  graph_.nodes_.push_back(std::move(node));
  return Value(graph_.size() - 1);
}

Value GraphBuilder::add_node(Op op, std::initializer_list<Value> sources, OpParams params) {
  if (adds_nothing()) return {};
  Node node{.op = op, .spec = {}};
  node.params = params;
  std::array<const TensorSpec*, kMaxSources> operands{};
  for (const Value source : sources) {
    operands[node.n_sources] = source.present() ? &graph_[source.id_].spec : nullptr;
    node.sources[node.n_sources++] = source.id_;
  }
  const Operands view(operands.data(), node.n_sources);
  auto spec = graph_.nodes_.size() < kMaxNodes
                  ? info(op).infer(view, params)
                  : Result<TensorSpec>(fail(ErrorCode::limit, "more than {} nodes", kMaxNodes));
  if (!spec) {
    error_ = std::move(spec).error().within(describe(graph_, op, node.inputs()));
    return {};
  }
  node.spec = *spec;
  graph_.nodes_.push_back(std::move(node));
  return Value(graph_.size() - 1);
}

Value GraphBuilder::add_in_place(Op op, std::initializer_list<Value> sources, OpParams params) {
  const Value value = add_node(op, sources, params);
  if (value.present()) graph_.nodes_.back().alias_of = sources.begin()->id_;
  return value;
}

Value GraphBuilder::add_copy(NodeId id, std::span<const Value> sources) {
  if (adds_nothing()) return {};
  Node node = graph_[id];
  for (size_t i = 0; i < sources.size(); ++i) node.sources[i] = sources[i].id_;
  if (node.alias_of != kNoNode) node.alias_of = node.sources[0];
  node.is_output = false;
  graph_.nodes_.push_back(std::move(node));
  return Value(graph_.size() - 1);
}

Value GraphBuilder::add_alias(Value of, const TensorSpec& spec, size_t offset) {
  Node node{.op = Op::view, .spec = spec};
  node.sources[node.n_sources++] = of.id_;
  node.alias_of = of.id_;
  node.alias_offset = offset;
  graph_.nodes_.push_back(std::move(node));
  return Value(graph_.size() - 1);
}

bool GraphBuilder::want_present(Value x, std::string_view what) {
  if (!adds_nothing() && !x.present())
    fail_with(Error(ErrorCode::invalid_argument, fmt::format("{}: operand 0 is missing", what)));
  return !adds_nothing();
}

NodeId GraphBuilder::append(Node node) {
  graph_.nodes_.push_back(std::move(node));
  return graph_.size() - 1;
}

Value GraphBuilder::reshape(Value x, const Shape& shape) {
  if (!want_present(x, "reshape")) return {};
  const TensorSpec from = spec(x);
  auto to = contiguous(from.dtype, shape);
  if (to && !is_contiguous(from.dtype, from.layout))
    to = fail(ErrorCode::invalid_argument, "operand is not contiguous");
  if (to && to->shape().n_elements() != from.shape().n_elements())
    to = fail(ErrorCode::invalid_argument, "{} has another number of elements", to_string(shape));
  if (!to) {
    error_ = std::move(to).error().within(fmt::format("reshape {} {}", graph_[x.id_].name, to_string(from.shape())));
    return {};
  }
  return add_alias(x, *to, 0);
}

Value GraphBuilder::view(Value x, const Layout& layout, size_t offset) {
  if (!want_present(x, "view")) return {};
  const TensorSpec from = spec(x);
  const auto refuse = [&](std::string_view why) {
    error_ = Error(ErrorCode::invalid_argument, fmt::format("view {} of {} {}: {}", to_string(layout.shape),
                                                            graph_[x.id_].name, to_string(from.shape()), why));
    return Value();
  };
  // Bounds in checked arithmetic: extents and strides may come from a file.
  if (!nbytes(from.dtype, layout.shape)) return refuse("shape is not possible for this type");
  int64_t reach =
      row_bytes(from.dtype, layout.shape[0]) ? static_cast<int64_t>(*row_bytes(from.dtype, layout.shape[0])) : 0;
  for (int i = 1; i < kMaxRank; ++i) {
    const int64_t stride = layout.nb[static_cast<size_t>(i)];
    const auto step = checked_mul(stride, std::max<int64_t>(layout.shape[i] - 1, 0));
    const auto sum = step ? checked_add(reach, *step) : std::nullopt;
    if (stride < 0 || !sum) return refuse("stride out of range");
    reach = *sum;
  }
  const auto block_bytes = static_cast<size_t>(info(from.dtype).block_bytes);
  if (static_cast<size_t>(layout.nb[0]) != block_bytes) return refuse("elements of a row must be contiguous");
  for (int i = 1; i < kMaxRank; ++i)
    if (layout.shape[i] > 1 && static_cast<size_t>(layout.nb[static_cast<size_t>(i)]) % block_bytes != 0)
      return refuse("a stride splits an element");
  if (offset % block_bytes != 0) return refuse("the offset splits an element");
  const auto end = checked_add(offset, static_cast<size_t>(reach));
  if (!layout.shape.empty() && (!end || *end > span_bytes(from.dtype, from.layout))) return refuse("reaches outside");
  return add_alias(x, {from.dtype, layout}, offset);
}

Value GraphBuilder::cast(Value x, DType dtype) {
  // The rule judges the operand; the target type travels in the node's spec.
  Value value = add_node(Op::cast, {x});
  if (!value.present()) return {};
  auto spec = contiguous(dtype, this->spec(x).shape());
  if (!spec) {
    const std::string what = fmt::format("{} to {}", describe(graph_, value.id_), info(dtype).name);
    error_ = std::move(spec).error().within(what);
    return {};
  }
  graph_.nodes_.back().spec = *spec;
  return value;
}

Value GraphBuilder::get_rows(Value table, Value ids) {
  Value rows = add_node(Op::get_rows, {table, ids});
  for (const ActiveAdapter& adapter : adapters_) {
    const LowRank* term = find_term(adapter.terms->rows, table);
    if (term == nullptr) continue;
    const Value low = add_node(Op::get_rows, {tensor(*term->down), ids});
    const Value delta = add_node(Op::mul_mat, {tensor(*term->up), low});
    rows = add_scaled(rows, delta, scales_of(adapter, spec(rows).shape()[1]), term->factor);
  }
  return rows;
}

Value GraphBuilder::concat(Value a, Value b) { return add_node(Op::concat, {a, b}); }

Value GraphBuilder::kv_store(Value cache, Value x, Value cells, KvSide side) {
  return add_in_place(Op::kv_store, {cache, x, cells}, KvParams{side});
}

Value GraphBuilder::kv_load(Value cache, Value cells, KvSide side) {
  return add_node(Op::kv_load, {cache, cells}, KvParams{side});
}

Value GraphBuilder::add(Value a, Value b) { return add_node(Op::add, {a, b}); }
Value GraphBuilder::mul(Value a, Value b) { return add_node(Op::mul, {a, b}); }
Value GraphBuilder::div(Value a, Value b) { return add_node(Op::div, {a, b}); }
Value GraphBuilder::scale(Value x, float factor) { return add_node(Op::scale, {x}, ScaleParams{factor}); }
Value GraphBuilder::silu(Value x) { return add_node(Op::silu, {x}); }
Value GraphBuilder::sigmoid(Value x) { return add_node(Op::sigmoid, {x}); }
Value GraphBuilder::swiglu(Value gate, Value up) { return add_node(Op::swiglu, {gate, up}); }
Value GraphBuilder::gelu(Value x) { return add_node(Op::gelu, {x}); }
Value GraphBuilder::geglu(Value gate, Value up) { return add_node(Op::geglu, {gate, up}); }
Value GraphBuilder::swiglu_oai(Value gate, Value up) { return add_node(Op::swiglu_oai, {gate, up}); }
Value GraphBuilder::relu_squared(Value x) { return add_node(Op::relu_squared, {x}); }
Value GraphBuilder::sqrt(Value x) { return add_node(Op::sqrt, {x}); }
Value GraphBuilder::soft_cap(Value x, float cap) { return add_node(Op::soft_cap, {x}, SoftCapParams{cap}); }
Value GraphBuilder::clamp(Value x, float min, float max) { return add_node(Op::clamp, {x}, ClampParams{min, max}); }
Value GraphBuilder::soft_max(Value x) { return add_node(Op::soft_max, {x}); }

Value GraphBuilder::rms_norm(Value x, Value weight, float eps) {
  return add_node(Op::rms_norm, {x, weight}, RmsNormParams{eps});
}

Value GraphBuilder::layer_norm(Value x, Value weight, Value bias, float eps) {
  return add_node(Op::layer_norm, {x, weight, bias}, LayerNormParams{eps});
}

Value GraphBuilder::mul_mat(Value weights, Value x) {
  Value product = add_node(Op::mul_mat, {weights, x});
  if (observes_products_ && product.present() && graph_[weights.id_].op == Op::tensor) {
    const std::string name = graph_[weights.id_].tensor->name + std::string(kObservedSuffix);
    output(sum_squares(x), name);
  }
  for (const ActiveAdapter& adapter : adapters_) {
    const LowRank* term = find_term(adapter.terms->products, weights);
    if (term == nullptr) continue;
    const Value low = add_node(Op::mul_mat, {tensor(*term->down), x});
    const Value delta = add_node(Op::mul_mat, {tensor(*term->up), low});
    product = add_scaled(product, delta, scales_of(adapter, spec(product).shape()[1]), term->factor);
  }
  return product;
}

const LowRank* GraphBuilder::find_term(const std::unordered_map<const Tensor*, LowRank>& terms, Value weights) const {
  if (adds_nothing() || !weights.present() || graph_[weights.id_].op != Op::tensor) return nullptr;
  const auto found = terms.find(graph_[weights.id_].tensor);
  return found == terms.end() ? nullptr : &found->second;
}

// Where as many outputs as tokens are wanted, they are all tokens in their order.
Value GraphBuilder::scales_of(const ActiveAdapter& adapter, int64_t n) {
  for (const Value scales : {adapter.scales, adapter.wanted_scales})
    if (scales.present() && spec(scales).shape()[1] == n) return scales;
  if (!adds_nothing())
    fail_with(Error(ErrorCode::unsupported, fmt::format("an adapter's term for {} rows that are not tokens", n)));
  return {};
}

Value GraphBuilder::adapt_layer(Value x, int64_t layer) {
  for (const ActiveAdapter& adapter : adapters_) {
    const std::vector<const Tensor*>& layers = adapter.terms->layers;
    const auto i = static_cast<size_t>(layer);
    if (adds_nothing() || !x.present() || i >= layers.size() || layers[i] == nullptr) continue;
    x = add_scaled(x, tensor(*layers[i]), scales_of(adapter, spec(x).shape()[1]));
  }
  return x;
}

Value GraphBuilder::add_scaled(Value y, Value d, Value scales, float factor) {
  return add_node(Op::add_scaled, {y, d, scales}, AddScaledParams{.factor = factor});
}

Value GraphBuilder::add_scaled(Value y, Value d, Value scales, float factor, ExpertRoutes routes) {
  return add_node(Op::add_scaled, {y, d, scales, routes.value_},
                  AddScaledParams{.factor = factor, .n_experts = routes.n_experts_});
}

Value GraphBuilder::mul_mat_heads(Value weights, Value x) { return add_node(Op::mul_mat_heads, {weights, x}); }
Value GraphBuilder::sum_squares(Value x) { return add_node(Op::sum_squares, {x}); }

Value GraphBuilder::temperature(Value positions, const TemperatureParams& params) {
  return add_node(Op::temperature, {positions}, params);
}

Value GraphBuilder::rope_table(Value positions, Value freq_factors, const RopeTableParams& params) {
  return add_node(Op::rope_table, {positions, freq_factors}, params);
}

Value GraphBuilder::rope(Value x, Value table, RopePairs pairs, bool inverse) {
  return add_node(Op::rope, {x, table}, RopeParams{pairs, inverse});
}

Value GraphBuilder::attention(Value q, Value k_cache, Value v_cache, Value positions, Value slots, Value blocks,
                              Value valid, Value sinks, const AttentionParams& params, Value bias) {
  return add_node(Op::attention, {q, k_cache, v_cache, positions, slots, blocks, valid, sinks, bias}, params);
}

Value GraphBuilder::self_attention(Value q, Value k, Value v, Value positions, Value sequences, Value sinks,
                                   const AttentionParams& params) {
  return add_node(Op::self_attention, {q, k, v, positions, sequences, sinks}, params);
}

Value GraphBuilder::self_attention_grad(Value q, Value k, Value v, Value positions, Value sequences, Value sinks,
                                        Value dy, const AttentionParams& params) {
  return add_node(Op::self_attention_grad, {q, k, v, positions, sequences, sinks, dy}, params);
}

Value GraphBuilder::softplus(Value x) { return add_node(Op::softplus, {x}); }
Value GraphBuilder::exp(Value x) { return add_node(Op::exp, {x}); }
Value GraphBuilder::l2_norm(Value x, float eps) { return add_node(Op::l2_norm, {x}, L2NormParams{eps}); }
Value GraphBuilder::row_sum(Value x) { return add_node(Op::row_sum, {x}); }

Value GraphBuilder::causal_conv(Value x, Value weight, Value bias, Value state, Value runs) {
  return add_node(Op::causal_conv, {x, weight, state, runs, bias});
}

Value GraphBuilder::token_shift(Value x, Value state, Value runs) {
  return add_node(Op::token_shift, {x, state, runs});
}

Value GraphBuilder::selective_scan(Value x, Value dt, Value a, Value b, Value c, Value d, Value state, Value runs) {
  return add_node(Op::selective_scan, {x, dt, a, b, c, d, state, runs});
}

Value GraphBuilder::delta_net(Value q, Value k, Value v, Value decay, Value beta, Value state, Value runs,
                              const DeltaNetParams& params) {
  return add_node(Op::delta_net, {q, k, v, decay, beta, state, runs}, params);
}

Value GraphBuilder::rwkv7(Value r, Value decay, Value k, Value v, Value a, Value b, Value state, Value runs) {
  return add_node(Op::rwkv7, {r, decay, k, v, a, b, state, runs});
}

Value GraphBuilder::transpose(Value x) { return add_node(Op::transpose, {x}); }

Value GraphBuilder::sum_to(Value x, const Shape& shape) { return add_node(Op::sum_to, {x}, ShapeParams{shape}); }
Value GraphBuilder::repeat(Value x, const Shape& shape) { return add_node(Op::repeat, {x}, ShapeParams{shape}); }
Value GraphBuilder::place(Value x, const PlaceParams& params) { return add_node(Op::place, {x}, params); }

Value GraphBuilder::scatter_rows(Value rows, Value ids, int64_t n_rows) {
  return add_node(Op::scatter_rows, {rows, ids}, ScatterRowsParams{n_rows});
}

Value GraphBuilder::silu_grad(Value x, Value dy) { return add_node(Op::silu_grad, {x, dy}); }
Value GraphBuilder::gelu_grad(Value x, Value dy) { return add_node(Op::gelu_grad, {x, dy}); }
Value GraphBuilder::soft_max_grad(Value y, Value dy) { return add_node(Op::soft_max_grad, {y, dy}); }

Value GraphBuilder::clamp_grad(Value x, Value dy, float min, float max) {
  return add_node(Op::clamp_grad, {x, dy}, ClampParams{min, max});
}

Value GraphBuilder::rms_norm_grad(Value x, Value weight, Value dy, float eps) {
  return add_node(Op::rms_norm_grad, {x, weight, dy}, RmsNormParams{eps});
}

Value GraphBuilder::layer_norm_grad(Value x, Value weight, Value dy, float eps) {
  return add_node(Op::layer_norm_grad, {x, weight, dy}, LayerNormParams{eps});
}

Value GraphBuilder::l2_norm_grad(Value x, Value dy, float eps) {
  return add_node(Op::l2_norm_grad, {x, dy}, L2NormParams{eps});
}

Value GraphBuilder::cross_entropy(Value logits, Value targets) {
  return add_node(Op::cross_entropy, {logits, targets});
}

Value GraphBuilder::cross_entropy_grad(Value logits, Value targets, Value d_loss) {
  return add_node(Op::cross_entropy_grad, {logits, targets, d_loss});
}

Value GraphBuilder::causal_conv_grad(Value x, Value weight, Value state, Value runs, Value dy) {
  return add_node(Op::causal_conv_grad, {x, weight, state, runs, dy});
}

Value GraphBuilder::token_shift_grad(Value dy, Value state, Value runs) {
  return add_node(Op::token_shift_grad, {dy, state, runs});
}

Value GraphBuilder::selective_scan_grad(Value x, Value dt, Value a, Value b, Value c, Value d, Value state, Value runs,
                                        Value dy) {
  return add_node(Op::selective_scan_grad, {x, dt, a, b, c, d, state, runs, dy});
}

Value GraphBuilder::delta_net_grad(Value q, Value k, Value v, Value decay, Value beta, Value state, Value runs,
                                   Value dy, const DeltaNetParams& params) {
  return add_node(Op::delta_net_grad, {q, k, v, decay, beta, state, runs, dy}, params);
}

Value GraphBuilder::rwkv7_grad(Value r, Value decay, Value k, Value v, Value a, Value b, Value state, Value runs,
                               Value dy) {
  return add_node(Op::rwkv7_grad, {r, decay, k, v, a, b, state, runs, dy});
}

Value GraphBuilder::accumulate(Value sum, Value x) { return add_in_place(Op::accumulate, {sum, x}); }

Value GraphBuilder::momentum(Value m, Value gradient, Value hyper) {
  return add_in_place(Op::momentum, {m, gradient, hyper});
}

Value GraphBuilder::adam(Value m, Value v, Value gradient, Value hyper) {
  return add_node(Op::adam, {m, v, gradient, hyper});
}

Value GraphBuilder::descend(Value w, Value direction, Value hyper, Value rounded, const DescendParams& params) {
  return add_in_place(Op::descend, {w, direction, hyper, rounded}, params);
}

Value GraphBuilder::top_k(Value scores, int64_t k) { return add_node(Op::top_k, {scores}, TopKParams{k}); }

Value GraphBuilder::top_groups(Value scores, const TopGroupsParams& params) {
  return add_node(Op::top_groups, {scores}, params);
}

Value GraphBuilder::expert_weights(Value scores, Value ids, const ExpertWeightsParams& params) {
  return add_node(Op::expert_weights, {scores, ids}, params);
}

ExpertRoutes GraphBuilder::expert_routes(Value ids, int64_t n_experts) {
  return {add_node(Op::expert_routes, {ids}, ExpertRoutesParams{n_experts}), n_experts, spec(ids).shape()[1]};
}

Value GraphBuilder::mul_mat_experts(Value weights, Value x, ExpertRoutes routes, ExpertInput input) {
  const auto multiply = [&](Value w, Value rows, ExpertInput from) {
    return add_node(Op::mul_mat_experts, {w, rows, routes.value_},
                    ExpertProductParams{.n_experts = routes.n_experts_, .input = from});
  };
  Value product = multiply(weights, x, input);
  for (const ActiveAdapter& adapter : adapters_) {
    const LowRank* term = find_term(adapter.terms->products, weights);
    if (term == nullptr) continue;
    const Value low = multiply(tensor(*term->down), x, input);
    const Value delta = multiply(tensor(*term->up), low, ExpertInput::routed);
    product = add_scaled(product, delta, scales_of(adapter, routes.n_tokens_), term->factor, routes);
  }
  return product;
}

Value GraphBuilder::expert_rows(Value rows, ExpertRoutes routes) {
  return add_node(Op::expert_rows, {rows, routes.value_}, ExpertRoutesParams{routes.n_experts_});
}

Value GraphBuilder::expert_sum(Value y, Value weights, ExpertRoutes routes) {
  return add_node(Op::expert_sum, {y, weights, routes.value_},
                  ExpertRoutesParams{.n_experts = routes.n_experts_, .n_tokens = routes.n_tokens_});
}

Value GraphBuilder::expert_outer(Value x, Value y, ExpertRoutes routes, ExpertInput input) {
  return add_node(Op::expert_outer, {x, y, routes.value_},
                  ExpertProductParams{.n_experts = routes.n_experts_, .input = input});
}

Value GraphBuilder::expert_totals(Value y, ExpertRoutes routes) {
  return add_node(Op::expert_totals, {y, routes.value_}, ExpertRoutesParams{routes.n_experts_});
}

Value GraphBuilder::expert_spread(Value x, Value weights, ExpertRoutes routes) {
  return add_node(Op::expert_spread, {x, weights, routes.value_}, ExpertRoutesParams{routes.n_experts_});
}

Value GraphBuilder::expert_dot(Value y, Value x, ExpertRoutes routes) {
  return add_node(Op::expert_dot, {y, x, routes.value_}, ExpertRoutesParams{routes.n_experts_});
}

Value GraphBuilder::expert_weights_grad(Value scores, Value ids, Value dy, const ExpertWeightsParams& params) {
  return add_node(Op::expert_weights_grad, {scores, ids, dy}, params);
}

Value GraphBuilder::name(Value x, std::string_view name) {
  if (!error_ && x.present()) graph_.nodes_[static_cast<size_t>(x.id_)].name = name;
  return x;
}

Value GraphBuilder::output(Value x, std::string_view name) {
  if (adds_nothing() || !x.present()) return {};
  this->name(x, name);
  graph_.nodes_[static_cast<size_t>(x.id_)].is_output = true;
  return x;
}

TensorSpec GraphBuilder::spec(Value x) const { return x.present() ? graph_[x.id_].spec : TensorSpec{}; }

void GraphBuilder::fail_with(Error error) {
  if (!error_) error_ = std::move(error);
}

Result<Graph> GraphBuilder::finish() && {
  if (error_) return std::unexpected<Error>(std::move(*error_));
  return std::move(graph_);
}

}  // namespace tessera
