// The CPU's kernel of each operation.
#include "tessera/cpu/step.h"

namespace tessera::cpu {

extern const OpKernel kAddScaled, kCast, kGetRows, kKvStore, kKvLoad, kAdd, kMul, kScale, kSilu, kSwiglu, kSoftMax,
    kRmsNorm, kMulMat, kSumSquares, kRopeTable, kRope, kAttention, kSigmoid, kTopK, kExpertWeights, kExpertRoutes,
    kMulMatExperts, kExpertRows, kExpertSum, kSoftplus, kExp, kL2Norm, kRowSum, kCausalConv, kTokenShift,
    kSelectiveScan, kDeltaNet, kRwkv7, kDiv, kGelu, kGeglu, kSwigluOai, kReluSquared, kSoftCap, kClamp, kLayerNorm,
    kSqrt, kTopGroups, kTemperature, kConcat, kMulMatHeads;

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
    case Op::sqrt:
      return &kSqrt;
    case Op::top_groups:
      return &kTopGroups;
    case Op::temperature:
      return &kTemperature;
    case Op::concat:
      return &kConcat;
    case Op::mul_mat_heads:
      return &kMulMatHeads;
    case Op::div:
      return &kDiv;
    case Op::gelu:
      return &kGelu;
    case Op::geglu:
      return &kGeglu;
    case Op::swiglu_oai:
      return &kSwigluOai;
    case Op::relu_squared:
      return &kReluSquared;
    case Op::soft_cap:
      return &kSoftCap;
    case Op::clamp:
      return &kClamp;
    case Op::soft_max:
      return &kSoftMax;
    case Op::rms_norm:
      return &kRmsNorm;
    case Op::layer_norm:
      return &kLayerNorm;
    case Op::mul_mat:
      return &kMulMat;
    case Op::add_scaled:
      return &kAddScaled;
    case Op::sum_squares:
      return &kSumSquares;
    case Op::rope_table:
      return &kRopeTable;
    case Op::rope:
      return &kRope;
    case Op::attention:
      return &kAttention;
    case Op::softplus:
      return &kSoftplus;
    case Op::exp:
      return &kExp;
    case Op::l2_norm:
      return &kL2Norm;
    case Op::row_sum:
      return &kRowSum;
    case Op::causal_conv:
      return &kCausalConv;
    case Op::token_shift:
      return &kTokenShift;
    case Op::selective_scan:
      return &kSelectiveScan;
    case Op::delta_net:
      return &kDeltaNet;
    case Op::rwkv7:
      return &kRwkv7;
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
