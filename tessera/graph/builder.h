// Builds a graph node by node. Errors stick: a bad operand records the operation, its name and the shapes; from then
// on every call returns a poisoned Value, and finish() returns the first error. So a model is written as plain
// formulas.
//
// Shapes are innermost first: x [n_embd, n_tokens]. Values are f32 unless said otherwise.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/graph/adapters.h"
#include "tessera/graph/node.h"

namespace tessera {

/// What follows the weight's name in the name of an observed product's output.
inline constexpr std::string_view kObservedSuffix = ".in_sum2";

/// A node under construction. Default-constructed: absent (where an operand is optional) or poisoned.
class Value {
 public:
  Value() = default;
  NodeId id() const { return id_; }
  bool present() const { return id_ != kNoNode; }

 private:
  friend class GraphBuilder;
  explicit Value(NodeId id) : id_(id) {}
  NodeId id_ = kNoNode;
};

/// Which rows go to which expert (ops/experts.h): made by expert_routes() alone, so what reads it may trust it.
class ExpertRoutes {
 public:
  ExpertRoutes() = default;

 private:
  friend class GraphBuilder;
  friend class Gradient;
  ExpertRoutes(Value value, int64_t n_experts, int64_t n_tokens)
      : value_(value), n_experts_(n_experts), n_tokens_(n_tokens) {}
  Value value_;
  int64_t n_experts_ = 0;
  int64_t n_tokens_ = 0;
};

/// An adapter of a step, and how much of it each token gets.
struct ActiveAdapter {
  const AdapterTerms* terms = nullptr;
  Value scales{};         // [1, n_tokens]
  Value wanted_scales{};  // [1, n_outputs] of the tokens whose outputs are wanted; absent where none or all are
};

class GraphBuilder {
 public:
  // --- leaves

  /// A contiguous value that the caller fills before each run.
  Value input(std::string_view name, DType dtype, const Shape& shape);
  /// A tensor with memory of its own (weight, cache). `tensor` must outlive the graph; its buffer may come later.
  Value tensor(const Tensor& tensor);

  // --- shapes: the same bytes under another shape

  /// x with a new shape of as many elements. Errors: x not contiguous; counts differ.
  Value reshape(Value x, const Shape& shape);
  /// Elements of x from `offset` bytes on, with strides nb in bytes. Errors: reaches outside x, or splits its elements.
  Value view(Value x, const Layout& layout, size_t offset);

  // --- data

  /// x converted to another dtype, contiguous.
  Value cast(Value x, DType dtype);
  /// Rows ids[i] of table [n, n_rows] (any dtype) as f32 [n, n_ids]. An id out of range fails the run.
  Value get_rows(Value table, Value ids);
  /// Rows of a, each with b's row behind it; all extents but the innermost are equal.
  Value concat(Value a, Value b);
  /// Writes x [dim, n_heads_kv, n] (f32, or rows of the cache's dtype) into cells of a cache tensor [dim, 64,
  /// n_heads_kv, n_blocks]; cell -1 is skipped. Returns the cache, so that readers can depend on the write.
  Value kv_store(Value cache, Value x, Value cells, KvSide side);
  /// Cells of a cache as rows of its dtype [dim, n_heads_kv, n].
  Value kv_load(Value cache, Value cells, KvSide side);

  // --- arithmetic

  /// a + b, a * b, a / b; b is repeated where its extent is 1 (for add and div: along any dimension but the innermost).
  Value add(Value a, Value b);
  Value mul(Value a, Value b);
  Value div(Value a, Value b);
  Value scale(Value x, float factor);
  /// x * sigmoid(x)
  Value silu(Value x);
  /// 1 / (1 + exp(-x))
  Value sigmoid(Value x);
  /// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) (Hendrycks and Gimpel 2016)
  Value gelu(Value x);
  /// max(x, 0)^2 (So et al. 2021)
  Value relu_squared(Value x);
  /// cap * tanh(x / cap)
  Value soft_cap(Value x, float cap);
  /// x, or the bound that it is beyond. NaN stays NaN.
  Value clamp(Value x, float min, float max);
  Value sqrt(Value x);
  /// silu(gate) * up, gelu(gate) * up (Shazeer 2020)
  Value swiglu(Value gate, Value up);
  Value geglu(Value gate, Value up);
  /// g * sigmoid(1.702 g) * (u + 1), g = min(gate, 7), u = up within -7 to 7 (gpt-oss)
  Value swiglu_oai(Value gate, Value up);
  /// Softmax of each row.
  Value soft_max(Value x);
  /// x / sqrt(mean(x^2) + eps) * weight, per row (Zhang and Sennrich 2019). weight [n], or absent for 1.
  Value rms_norm(Value x, Value weight, float eps);
  /// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias, per row (Ba et al. 2016). weight [n] and bias
  /// [n], or absent for 1 and 0.
  Value layer_norm(Value x, Value weight, Value bias, float eps);
  /// weights [k, n] (any dtype with a kernel) times x [k, t]: [n, t].
  Value mul_mat(Value weights, Value x);
  /// Head h of x [k, n_heads, t] times matrix h of weights [k, n, n_heads]: [n, n_heads, t].
  Value mul_mat_heads(Value weights, Value x);
  /// y [n, t] plus factor * scales[row] * d, where d [n, t] or [n] and scales [1, t]. A row of scale 0 keeps its bits.
  Value add_scaled(Value y, Value d, Value scales, float factor = 1.0f);
  /// The same for y [n, n_pairs] in routed order, with scales [1, t] by token.
  Value add_scaled(Value y, Value d, Value scales, float factor, ExpertRoutes routes);
  /// Sum over all rows of x^2, column by column: [n]. The sums run in f32 in the order of the rows.
  Value sum_squares(Value x);
  /// 1 + beta * ln(1 + floor(position / length)) for positions i32 [n_tokens]: [1, 1, n_tokens].
  Value temperature(Value positions, const TemperatureParams& params);
  /// Cosines and sines [n_rot, n_tokens] (pairs) for positions i32 [n_tokens]; freq_factors [n_rot / 2] or absent.
  Value rope_table(Value positions, Value freq_factors, const RopeTableParams& params);
  /// Rotates the first n_rot elements of each row of x [dim, n_heads, n_tokens]; inverse: by the opposite angles.
  Value rope(Value x, Value table, RopePairs pairs, bool inverse = false);
  /// Attention over the paged cache: softmax(scores) V (ops/attention.h), where a token sees stored positions of its
  /// own sequence.
  ///   q [k_dim, n_heads, n_tokens]; k_cache, v_cache as kv_store (v_cache absent where V is part of K);
  ///   positions, slots i32 [n_tokens];
  ///   blocks i32 [n_max_blocks, n_slots]: physical block of each logical block of a slot's sequence, or -1;
  ///   valid i64 [n_max_blocks, n_slots]: bit i = position 64 * block + i is stored
  ///   sinks [n_heads] or absent: a score per head that takes its share of the softmax and adds nothing
  ///   bias [n_heads, n_buckets] or absent: what scores get for the distance, by bias_bucket()
  ///   returns [v_dim, n_heads, n_tokens]
  Value attention(Value q, Value k_cache, Value v_cache, Value positions, Value slots, Value blocks, Value valid,
                  Value sinks, const AttentionParams& params, Value bias = {});

  /// Attention among the tokens of a batch, as attention() does it for a cache, without a bias. Tokens see those of the
  /// same id in `sequences`.
  ///   q [k_dim, n_heads, t]; k [k_dim, n_heads_kv, t]; v [v_dim, n_heads_kv, t], absent where it is part of k;
  ///   positions (below kMaxSelfPositions), sequences i32 [t]; sinks [n_heads] or absent
  ///   returns [v_dim, n_heads, t]
  Value self_attention(Value q, Value k, Value v, Value positions, Value sequences, Value sinks,
                       const AttentionParams& params);

  // --- recurrent layers: states and runs as ops/recurrent.h

  /// ln(1 + e^x), e^x
  Value softplus(Value x);
  Value exp(Value x);
  /// x / max(|x|, eps), per row
  Value l2_norm(Value x, float eps);
  /// The sum of each row: [1, ...].
  Value row_sum(Value x);
  /// y[c, t] = sum over j of weight[j, c] * x[c, t - (width - 1) + j], + bias; x [n, n_tokens], weight [width, n],
  /// bias [n] or absent.
  Value causal_conv(Value x, Value weight, Value bias, Value state, Value runs);
  /// The row of the token before, less the token's own: [n, n_tokens].
  Value token_shift(Value x, Value state, Value runs);
  /// A selective state space (Gu and Dao 2023; Dao and Gu 2024), per head h of group h / (n_heads / n_groups):
  ///   S[n, p] = e^(dt[h] * a[n, h]) * S[n, p] + dt[h] * x[p, h] * b[n, group]
  ///   y[p, h] = sum over n of S[n, p] * c[n, group], + d[h] * x[p, h]
  /// x [head_dim, n_heads, n_tokens]; dt [n_heads, n_tokens]; a [n_state, n_heads] or [1, n_heads];
  /// b, c [n_state, n_groups, n_tokens]; d [n_heads]
  Value selective_scan(Value x, Value dt, Value a, Value b, Value c, Value d, Value state, Value runs);
  /// The gated delta rule (Yang et al. 2024), per value head: S is scaled by decay, then S[i, j] += k[i] * beta *
  /// (v[j] - sum over i of S[i, j] * k[i]), and y[j] = scale * sum over i of S[i, j] * q[i].
  ///   q, k [k_dim, n_k_heads, n_tokens]; v [v_dim, n_heads, n_tokens]; decay, beta [n_heads, n_tokens]
  Value delta_net(Value q, Value k, Value v, Value decay, Value beta, Value state, Value runs,
                  const DeltaNetParams& params);
  /// RWKV-7 (Peng et al. 2025), per head: S[j, i] = S[j, i] * decay[j] + v[i] * k[j] + s[i] * b[j], where s[i] = sum
  /// over j of S[j, i] * a[j] of the S before; y[i] = sum over j of S[j, i] * r[j]. All [head_dim, n_heads, n_tokens].
  Value rwkv7(Value r, Value decay, Value k, Value v, Value a, Value b, Value state, Value runs);

  // --- training: what gradients are made of besides

  /// The first two dimensions of x (any dtype) exchanged, as f32: [n, k, ...].
  Value transpose(Value x);
  /// x summed along the dimensions in which `shape` has 1, in ascending order; x repeated along those in which x has 1.
  Value sum_to(Value x, const Shape& shape);
  Value repeat(Value x, const Shape& shape);
  /// Zeros of params.shape in which x's elements stand where params say: the inverse of view().
  Value place(Value x, const PlaceParams& params);
  /// [n, n_rows]: row r is the sum of the rows [n, t] with ids[i] = r, in their order; the inverse of get_rows().
  /// An id out of range fails the run.
  Value scatter_rows(Value rows, Value ids, int64_t n_rows);
  /// dy times the derivative at x of silu, gelu, clamp.
  Value silu_grad(Value x, Value dy);
  Value gelu_grad(Value x, Value dy);
  Value clamp_grad(Value x, Value dy, float min, float max);
  /// The gradient with respect to x of soft_max(x) = y, and of the norms as above.
  Value soft_max_grad(Value y, Value dy);
  Value rms_norm_grad(Value x, Value weight, Value dy, float eps);
  Value layer_norm_grad(Value x, Value weight, Value dy, float eps);
  Value l2_norm_grad(Value x, Value dy, float eps);
  /// -ln softmax(logits)[target] of each row of logits [n_vocab, t], for targets i32 [t]: [1, t], 0 where the target is
  /// -1. A target out of range fails the run.
  Value cross_entropy(Value logits, Value targets);
  /// (softmax(logits) - [target]) * d_loss of each row, 0 where the target is -1; d_loss [1, t].
  Value cross_entropy_grad(Value logits, Value targets, Value d_loss);

  /// The gradients of the operands of self_attention one after another, where self_attention_offsets() says; dy is that
  /// of its result.
  Value self_attention_grad(Value q, Value k, Value v, Value positions, Value sequences, Value sinks, Value dy,
                            const AttentionParams& params);

  /// The gradients of recurrent operations on the same operands. Those of the first of them one after another in a flat
  /// vector, each contiguous in its operand's shape: x, weight; x, dt, a, b, c, d; q, k, v, decay, beta; r, decay, k,
  /// v, a, b. token_shift_grad: of x, in its shape.
  Value causal_conv_grad(Value x, Value weight, Value state, Value runs, Value dy);
  Value token_shift_grad(Value dy, Value state, Value runs);
  Value selective_scan_grad(Value x, Value dt, Value a, Value b, Value c, Value d, Value state, Value runs, Value dy);
  Value delta_net_grad(Value q, Value k, Value v, Value decay, Value beta, Value state, Value runs, Value dy,
                       const DeltaNetParams& params);
  Value rwkv7_grad(Value r, Value decay, Value k, Value v, Value a, Value b, Value state, Value runs, Value dy);

  // --- steps of an optimizer, in place in tensors of their own; hyper: see ops/optimizer.h

  /// sum += x; returns sum.
  Value accumulate(Value sum, Value x);
  /// m = beta1 * m + g; returns m.
  Value momentum(Value m, Value gradient, Value hyper);
  /// m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g^2; returns the direction
  /// (m / correction1) / (sqrt(v / correction2) + epsilon) (Kingma and Ba 2015).
  Value adam(Value m, Value v, Value gradient, Value hyper);
  /// w -= learning_rate * (direction + weight_decay * w); writes w's values into `rounded` (bf16) too, if there is one.
  Value descend(Value w, Value direction, Value hyper, Value rounded, const DescendParams& params);

  // --- mixture of experts (ops/experts.h)

  /// The ids of the k largest of each row of scores [n, t], largest first: i32 [k, t]. Of equals the lower id comes
  /// first; NaN counts as lower than any number.
  Value top_k(Value scores, int64_t k);
  /// Scores [n, t] in which all but params.n_used groups of neighbours are -inf: those with the highest sum of their
  /// two best scores (DeepSeek-V3 2024); of equals the lower group stays.
  Value top_groups(Value scores, const TopGroupsParams& params);
  /// scores[id] for the ids [k, t] of each row of scores [n, t], divided by their sum and scaled as params say.
  Value expert_weights(Value scores, Value ids, const ExpertWeightsParams& params);
  /// Sorts the pairs of ids [n_used, t] (token and slot) by expert. An id outside [0, n_experts) fails the run.
  ExpertRoutes expert_routes(Value ids, int64_t n_experts);
  /// Each pair's row of x times its expert's matrix of weights [k, n, n_experts]: [n, n_pairs], in routed order.
  /// x [k, t], of which a pair reads its token's row, or [k, n_pairs] in routed order.
  Value mul_mat_experts(Value weights, Value x, ExpertRoutes routes, ExpertInput input);
  /// Row e of rows [n, n_experts] for each pair of expert e: [n, n_pairs], in routed order.
  Value expert_rows(Value rows, ExpertRoutes routes);
  /// Sum over a token's slots, in their order, of weights [n_used, t] (absent: of 1) times its pairs' rows of y
  /// [n, n_pairs]: [n, t].
  Value expert_sum(Value y, Value weights, ExpertRoutes routes);

  // --- their gradients; rows of pairs are in routed order

  /// Sum over an expert's pairs of (row of x) (row of y)^T: [k, n, n_experts], for x as mul_mat_experts reads it and y
  /// [n, n_pairs].
  Value expert_outer(Value x, Value y, ExpertRoutes routes, ExpertInput input);
  /// Sum over an expert's pairs of their rows of y [n, n_pairs]: [n, n_experts].
  Value expert_totals(Value y, ExpertRoutes routes);
  /// Each pair's weight of weights [n_used, t] (absent: 1) times its token's row of x [n, t]: [n, n_pairs].
  Value expert_spread(Value x, Value weights, ExpertRoutes routes);
  /// Each pair's row of y [n, n_pairs] times its token's row of x [n, t]: [n_used, t].
  Value expert_dot(Value y, Value x, ExpertRoutes routes);
  /// The gradient of expert_weights with respect to scores, for dy [k, t].
  Value expert_weights_grad(Value scores, Value ids, Value dy, const ExpertWeightsParams& params);

  // --- names, results

  /// Names a value for dumps and error messages; returns it.
  Value name(Value x, std::string_view name);
  /// Keeps x's bytes until the run is over, so that the caller can read them.
  Value output(Value x, std::string_view name);
  /// From now on each mul_mat with a tensor leaf (weights named W) also gives an output "W.in_sum2": sum_squares of its
  /// x, what an importance matrix is collected from.
  void observe_products() { observes_products_ = true; }
  /// From now on products with, and rows of, the tensor leaves that these adapters know get their terms, in this order.
  void adapt(std::vector<ActiveAdapter> adapters) { adapters_ = std::move(adapters); }
  /// x [n_embd, t], the output of a layer, with the vectors that adapters add to it.
  Value adapt_layer(Value x, int64_t layer);
  // --- for passes that extend the graph

  /// What has been built so far. References into it are good until the next node.
  const Graph& graph() const { return graph_; }
  Value at(NodeId id) const { return Value(id); }
  /// The operation of a node once more, on other operands of the same types and shapes.
  Value add_copy(NodeId id, std::span<const Value> sources);
  /// Type and layout of a value; an empty spec for an absent or poisoned one.
  TensorSpec spec(Value x) const;

  /// What follows is not wanted: from now on calls add nothing and return absent values.
  void stop() { is_stopped_ = true; }
  /// Records an error of the model's own ("block_count is 0").
  void fail_with(Error error);
  /// The graph, or the first error.
  Result<Graph> finish() &&;

  /// For passes over finished graphs: a node as it is, whose operands are nodes of this graph.
  NodeId append(Node node);

 private:
  Value add_node(Op op, std::initializer_list<Value> sources, OpParams params = {});
  bool adds_nothing() const { return error_.has_value() || is_stopped_; }
  bool want_present(Value x, std::string_view what);
  Value add_alias(Value of, const TensorSpec& spec, size_t offset);
  // An operation that writes its first operand in place.
  Value add_in_place(Op op, std::initializer_list<Value> sources, OpParams params = {});
  // What an adapter adds beside a product with these weights, or to rows of this table; null: nothing.
  const LowRank* find_term(const std::unordered_map<const Tensor*, LowRank>& terms, Value weights) const;
  // An adapter's scales for n rows: those of all tokens or of the wanted ones.
  Value scales_of(const ActiveAdapter& adapter, int64_t n);

  Graph graph_;
  std::optional<Error> error_;
  std::vector<ActiveAdapter> adapters_;
  bool observes_products_ = false;
  bool is_stopped_ = false;
};

}  // namespace tessera
