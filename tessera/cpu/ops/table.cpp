// The CPU's kernel of each operation.
#include "tessera/cpu/step.h"

namespace tessera::cpu {

extern const OpKernel kAddScaled, kCast, kGetRows, kKvStore, kKvLoad, kAdd, kMul, kScale, kSilu, kSwiglu, kSoftMax,
    kRmsNorm, kMulMat, kSumSquares, kRopeTable, kRope, kAttention, kSigmoid, kTopK, kExpertWeights, kExpertRoutes,
    kMulMatExperts, kExpertRows, kExpertSum, kSoftplus, kExp, kL2Norm, kRowSum, kCausalConv, kTokenShift,
    kSelectiveScan, kDeltaNet, kRwkv7, kDiv, kGelu, kGeglu, kSwigluOai, kReluSquared, kSoftCap, kClamp, kLayerNorm,
    kSelfAttention, kSelfAttentionGrad, kSqrt, kTopGroups, kTemperature, kConcat, kMulMatHeads, kTranspose, kSumTo,
    kRepeat, kPlace, kScatterRows, kSiluGrad, kGeluGrad, kClampGrad, kSoftMaxGrad, kRmsNormGrad, kLayerNormGrad,
    kL2NormGrad, kCrossEntropy, kCrossEntropyGrad, kAccumulate, kMomentum, kAdam, kDescend, kExpertOuter, kExpertTotals,
    kExpertSpread, kExpertDot, kExpertWeightsGrad, kCausalConvGrad, kTokenShiftGrad, kSelectiveScanGrad, kDeltaNetGrad,
    kRwkv7Grad;

const OpKernel* kernel_of(Op op) {
  switch (op) {
    case Op::input:
    case Op::tensor:
    case Op::copy:
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
    case Op::self_attention:
      return &kSelfAttention;
    case Op::self_attention_grad:
      return &kSelfAttentionGrad;
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
    case Op::expert_outer:
      return &kExpertOuter;
    case Op::expert_totals:
      return &kExpertTotals;
    case Op::expert_spread:
      return &kExpertSpread;
    case Op::expert_dot:
      return &kExpertDot;
    case Op::expert_weights_grad:
      return &kExpertWeightsGrad;
    case Op::causal_conv_grad:
      return &kCausalConvGrad;
    case Op::token_shift_grad:
      return &kTokenShiftGrad;
    case Op::selective_scan_grad:
      return &kSelectiveScanGrad;
    case Op::delta_net_grad:
      return &kDeltaNetGrad;
    case Op::rwkv7_grad:
      return &kRwkv7Grad;
    case Op::transpose:
      return &kTranspose;
    case Op::sum_to:
      return &kSumTo;
    case Op::repeat:
      return &kRepeat;
    case Op::place:
      return &kPlace;
    case Op::scatter_rows:
      return &kScatterRows;
    case Op::silu_grad:
      return &kSiluGrad;
    case Op::gelu_grad:
      return &kGeluGrad;
    case Op::clamp_grad:
      return &kClampGrad;
    case Op::soft_max_grad:
      return &kSoftMaxGrad;
    case Op::rms_norm_grad:
      return &kRmsNormGrad;
    case Op::layer_norm_grad:
      return &kLayerNormGrad;
    case Op::l2_norm_grad:
      return &kL2NormGrad;
    case Op::cross_entropy:
      return &kCrossEntropy;
    case Op::cross_entropy_grad:
      return &kCrossEntropyGrad;
    case Op::accumulate:
      return &kAccumulate;
    case Op::momentum:
      return &kMomentum;
    case Op::adam:
      return &kAdam;
    case Op::descend:
      return &kDescend;
  }
  return nullptr;
}

}  // namespace tessera::cpu
