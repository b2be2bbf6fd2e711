// The parameters of an operation, read by name: the other direction of list_params() (graph/op_info.h).
#pragma once

#include <span>
#include <string_view>

#include "tessera/graph/node.h"

namespace tessera::mpi {

struct NamedParam {
  std::string_view name;
  int64_t integer;  // 0 if the number is not an integer
  double number;
};

/// Returns the parameters of an operation whose result has this type. Errors: unsupported (a name that the operation
/// does not have, or not in this place; a value that its member cannot have).
Result<OpParams> read_params(Op op, DType result, std::span<const NamedParam> params);

}  // namespace tessera::mpi
