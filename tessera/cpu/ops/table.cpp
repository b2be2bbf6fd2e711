// The CPU's kernel of each operation.
#include "tessera/cpu/step.h"

namespace tessera::cpu {

extern const OpKernel kCast, kGetRows, kKvStore, kKvLoad, kAdd, kMul, kScale, kSilu, kSwiglu, kSoftMax, kRmsNorm,
    kMulMat, kSumSquares, kRopeTable, kRope, kAttention, kSigmoid, kTopK, kExpertWeights, kExpertRoutes, kMulMatExperts,
    kExpertRows, kExpertSum;

const OpKernel* kernel_of(Op op) {
  switch (op) {
    case Op::input:
    case Op::tensor:
    case Op::view:
      return nullptr;
    case Op::cast:
      return &kCast;
    case Op::get_rows:
      return &kGetRows;
    case Op::kv_store:
      return &kKvStore;
    case Op::kv_load:
      return &kKvLoad;
    case Op::add:
      return &kAdd;
    case Op::mul:
      return &kMul;
    case Op::scale:
      return &kScale;
    case Op::silu:
      return &kSilu;
    case Op::sigmoid:
      return &kSigmoid;
    case Op::swiglu:
      return &kSwiglu;
    case Op::soft_max:
      return &kSoftMax;
    case Op::rms_norm:
      return &kRmsNorm;
    case Op::mul_mat:
      return &kMulMat;
    case Op::sum_squares:
      return &kSumSquares;
    case Op::rope_table:
      return &kRopeTable;
    case Op::rope:
      return &kRope;
    case Op::attention:
      return &kAttention;
    case Op::top_k:
      return &kTopK;
    case Op::expert_weights:
      return &kExpertWeights;
    case Op::expert_routes:
      return &kExpertRoutes;
    case Op::mul_mat_experts:
      return &kMulMatExperts;
    case Op::expert_rows:
      return &kExpertRows;
    case Op::expert_sum:
      return &kExpertSum;
  }
  return nullptr;
}

}  // namespace tessera::cpu
