// What holds for the shape rules of all families: totality over operands and parameters.
#include "tests/graph/rules_support.h"

namespace tessera {
namespace {

using namespace testing;

TEST(Rules, RefuseParametersOfAnotherOperation) {
  const TensorSpec x{DType::f32, contiguous_layout(DType::f32, {8, 64, 1, 1}).value()};
  const TensorSpec* operands[] = {&x, &x, &x, &x, &x, &x, &x};
  for (const auto& [op, n] : {std::pair{Op::scale, 1u},
                              {Op::rms_norm, 1u},
                              {Op::rope, 2u},
                              {Op::rope_table, 1u},
                              {Op::kv_store, 3u},
                              {Op::kv_load, 2u},
                              {Op::paged_attention, 7u}})
    EXPECT_ERROR(infer(op, Operands(operands, n), NoParams{}), "parameters of another op");
}

TEST(Rules, AreTotalOverTheNumberOfOperands) {
  for (const Op op : {Op::add, Op::silu, Op::mul_mat, Op::get_rows, Op::cast, Op::swiglu})
    EXPECT_ERROR(infer(op, {}, NoParams{}), "operands");
}

}  // namespace
}  // namespace tessera
