#include "tessera/graph/ops/streams.h"

#include <cmath>

#include "tessera/graph/op_def.h"

namespace tessera {

Value StreamOps::stream_weights(Value m, Value bias, Value scale, const StreamParams& params) {
  return add_op(*this, Op::stream_weights, {m, bias, scale}, params);
}

Value StreamOps::join_streams(Value x, Value weights) { return add_op(*this, Op::join_streams, {x, weights}); }

Value StreamOps::update_streams(Value x, Value y, Value weights) {
  return add_op(*this, Op::update_streams, {x, y, weights});
}

namespace {

Result<TensorSpec> infer_stream_weights(Operands x, const StreamParams& p) {
  if (p.n_streams < 1 || p.n_streams > kMaxStreams || p.n_iterations < 1 || p.n_iterations > kMaxStreamIterations ||
      !std::isfinite(p.eps) || p.eps < 0)
    return fail(ErrorCode::invalid_argument, "{} streams, {} iterations with epsilon {}", p.n_streams, p.n_iterations,
                p.eps);
  TESSERA_TRY(require_f32_rows(*x[0], "products"));
  TESSERA_TRY(require_f32_rows(*x[1], "biases"));
  TESSERA_TRY(require_f32_rows(*x[2], "scales"));
  const Shape& m = x[0]->shape();
  const bool is_input = m[0] == p.n_streams;
  if (m != Shape{m[0], m[1]} || (!is_input && m[0] != p.n_streams * (p.n_streams + 2)))
    return fail(ErrorCode::invalid_argument, "products {} for {} streams", to_string(m), p.n_streams);
  if (x[1]->shape() != Shape{m[0]} || x[2]->shape() != Shape{is_input ? 1 : 3})
    return fail(ErrorCode::invalid_argument, "biases {} and scales {}, want [{}] and [{}]", to_string(x[1]->shape()),
                to_string(x[2]->shape()), m[0], is_input ? 1 : 3);
  return contiguous(DType::f32, m);
}

Result<> require_streams(const TensorSpec& x, const TensorSpec& weights, bool only_input) {
  TESSERA_TRY(require_f32_rows(x, "streams"));
  TESSERA_TRY(require_f32_rows(weights, "weights"));
  const int64_t n = x.shape()[1], n_tokens = x.shape()[2];
  if (x.shape()[3] != 1 || n < 1 || n > kMaxStreams)
    return fail(ErrorCode::invalid_argument, "streams {}, want at most {}", to_string(x.shape()), kMaxStreams);
  const Shape& w = weights.shape();
  if (w == Shape{n * (n + 2), n_tokens} || (only_input && w == Shape{n, n_tokens})) return {};
  return fail(ErrorCode::invalid_argument, "weights {} for streams {}", to_string(w), to_string(x.shape()));
}

Result<TensorSpec> infer_join_streams(Operands x) {
  TESSERA_TRY(require_streams(*x[0], *x[1], true));
  return contiguous(DType::f32, {x[0]->shape()[0], x[0]->shape()[2]});
}

Result<TensorSpec> infer_update_streams(Operands x) {
  TESSERA_TRY(require_streams(*x[0], *x[2], false));
  TESSERA_TRY(require_f32_rows(*x[1], "the block's output"));
  const Shape& streams = x[0]->shape();
  if (x[1]->shape() != Shape{streams[0], streams[2]})
    return fail(ErrorCode::invalid_argument, "output {} for streams {}", to_string(x[1]->shape()), to_string(streams));
  return contiguous(DType::f32, streams);
}

}  // namespace

const OpDef op_defs::stream_weights = {.n_operands = 3,
                                       .infer = shape_rule<infer_stream_weights>,
                                       .gradient = kForwardOnly,
                                       .cost = cost_of_memory,
                                       .in_place = kNoOperand,
                                       .writes = kNoOperand};
const OpDef op_defs::join_streams = {.n_operands = 2,
                                     .infer = shape_rule<infer_join_streams>,
                                     .gradient = kForwardOnly,
                                     .cost = cost_of_each_element,
                                     .in_place = kNoOperand,
                                     .writes = kNoOperand};
const OpDef op_defs::update_streams = {.n_operands = 3,
                                       .infer = shape_rule<infer_update_streams>,
                                       .gradient = kForwardOnly,
                                       .cost = cost_of_memory,
                                       .in_place = kNoOperand,
                                       .writes = kNoOperand};

}  // namespace tessera
