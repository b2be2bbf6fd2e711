// The device's kernel of each operation.
#include <algorithm>

#include "tessera/vulkan/step.h"

namespace tessera::vulkan {

extern const OpKernel kAdd, kMul, kDiv, kScale, kSilu, kSigmoid, kGelu, kReluSquared, kSoftCap, kClamp, kSqrt, kSwiglu,
    kGeglu, kSwigluOai, kSoftplus, kExp, kRmsNorm, kLayerNorm, kL2Norm, kSoftMax, kRowSum, kGetRows, kCast, kConcat,
    kRopeTable, kRope, kKvStore, kKvLoad, kMulMat, kMulMatHeads, kMulMatExperts, kAttention, kTemperature, kSumSquares,
    kAddScaled, kTopGroups, kTopK, kExpertWeights, kExpertRoutes, kExpertRows, kExpertSum, kCausalConv, kTokenShift,
    kSelectiveScan, kDeltaNet, kRwkv7;

const OpKernel* kernel_of(Op op) {
  switch (op) {
    case Op::cast:
      return &kCast;
    case Op::get_rows:
      return &kGetRows;
    case Op::concat:
      return &kConcat;
    case Op::kv_store:
      return &kKvStore;
    case Op::kv_load:
      return &kKvLoad;
    case Op::add:
      return &kAdd;
    case Op::mul:
      return &kMul;
    case Op::div:
      return &kDiv;
    case Op::scale:
      return &kScale;
    case Op::silu:
      return &kSilu;
    case Op::sigmoid:
      return &kSigmoid;
    case Op::swiglu:
      return &kSwiglu;
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
    case Op::sqrt:
      return &kSqrt;
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
    case Op::mul_mat_heads:
      return &kMulMatHeads;
    case Op::sum_squares:
      return &kSumSquares;
    case Op::temperature:
      return &kTemperature;
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
    case Op::top_groups:
      return &kTopGroups;
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
    default:
      return nullptr;
  }
}

bool has_decoder(DType dtype) {
  constexpr DType kWithout[] = {DType::q8_1, DType::q8_k, DType::i8, DType::i16, DType::i32, DType::i64, DType::f64};
  return std::ranges::find(kWithout, dtype) == std::end(kWithout);
}

bool is_kv_format(DType dtype) {
  constexpr DType kAll[] = {DType::f32,  DType::f16,  DType::bf16, DType::q8_0,  DType::q4_0,
                            DType::q4_1, DType::q5_0, DType::q5_1, DType::iq4_nl};
  return std::ranges::find(kAll, dtype) != std::end(kAll);
}

}  // namespace tessera::vulkan
