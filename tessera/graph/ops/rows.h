// Rows of a table by index, conversion of rows to another type, and rows with individual scales.
#pragma once

#include "tessera/graph/ops/experts.h"
#include "tessera/graph/params.h"
#include "tessera/graph/value.h"

namespace tessera {

struct CastParams {
  DType dtype = DType::f32;       // type of the result
  void list(ParamList&) const {}  // backends read the result's type
};

struct ScatterRowsParams {
  int64_t n_rows = 0;  // rows of the result
  void list(ParamList& params) const { params.integer("n_rows", n_rows); }
};

struct AddScaledParams {
  float factor = 1.0f;    // common factor of all rows
  int64_t n_experts = 0;  // number of experts in the routes; 0: no routes
  void list(ParamList& params) const {
    params.number("factor", factor);
    params.integer("n_experts", n_experts);
  }
};

/// The part of GraphBuilder that works on rows of tables.
class RowOps {
 public:
  /// x converted to another dtype, contiguous.
  Value cast(Value x, DType dtype);
  /// Rows ids[i] of table [n, n_rows] as [n, n_ids]: i32 if the table is i32, else f32 (any dtype of the table). An id
  /// out of range fails the run.
  Value get_rows(Value table, Value ids);
  /// [n, n_rows]: row r is the sum of the rows [n, t] with ids[i] = r, in their order. This is the transpose of
  /// get_rows(). An id out of range fails the run.
  Value scatter_rows(Value rows, Value ids, int64_t n_rows);
  /// y [n, t] plus factor * scales[row] * d, where d is [n, t] or [n] and scales is [1, t]. A row with scale 0 keeps
  /// its bits.
  Value add_scaled(Value y, Value d, Value scales, float factor = 1.0f);
  /// The same for y [n, n_pairs] in routed order, with scales [1, t] per token.
  Value add_scaled(Value y, Value d, Value scales, float factor, ExpertRoutes routes);
};

}  // namespace tessera
