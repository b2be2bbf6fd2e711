#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
// Products for many tokens on cooperative matrices. A workgroup of four subgroups computes a tile of 32 rows and 32
// tokens, each subgroup a quarter. Weights and x are rounded to f16 and summed in f32. The bits differ from the other
// shaders (matmul.glsl) and depend on the number of tokens, so this shader is opt-in (cooperative.h).
#define kWorkgroup 128
#include "step.glsl"
#include "formats.glsl"
#include "formats_wide.glsl"
#include "matmul.glsl"

const uint kTile = 32, kSide = 16;

shared float16_t weights[kTile * kChunk], xs[kTile * kChunk];  // by row and column, by token and column
shared float sums[kTile * kTile];                              // by row and token

void load_chunk(Part p, uint first, uint chunk, uint k) {
  for (uint i = lane(); i < kTile * kLanes; i += n_lanes()) {
    const uint line = i / kLanes, column = chunk * kChunk + i % kLanes * kPiece;
    float w[8], a[8];
    for (uint j = 0; j < 8u; ++j) {
      w[j] = 0.0;
      a[j] = 0.0;
    }
    if (column < k) {
      weights_at(p.w + uint64_t(min(line, p.n_rows - 1u)) * step.x[0].nb[1], column, k, w);
      x_at(x_row(p, min(first + line, p.end - 1u)), column, k, a);
    }
    for (uint j = 0; j < 8u; ++j) {
      weights[kPiece * i + j] = float16_t(w[j]);
      xs[kPiece * i + j] = float16_t(a[j]);
    }
  }
}

void main() {
  const uint group = group_index();
  if (group >= step.n_groups) return;
  const Part p = part_of_group(group, kTile);
  const uint k = step.x[0].ne[0], n_chunks = (k + kChunk - 1u) / kChunk;
  const uint row = gl_SubgroupID % 2u * kSide, token = gl_SubgroupID / 2u * kSide;
  for (uint first = p.begin + p.share * kTile; first < p.end; first += step.u[1] * kTile) {
    fcoopmatNV<32, gl_ScopeSubgroup, kSide, kSide> sum = fcoopmatNV<32, gl_ScopeSubgroup, kSide, kSide>(0.0);
    for (uint chunk = 0; chunk < n_chunks; ++chunk) {
      barrier();
      load_chunk(p, first, chunk, k);
      barrier();
      for (uint column = 0; column < kChunk; column += kSide) {
        fcoopmatNV<16, gl_ScopeSubgroup, kSide, kSide> a, b;
        coopMatLoadNV(a, weights, row * kChunk + column, kChunk, false);
        coopMatLoadNV(b, xs, token * kChunk + column, kChunk, true);
        sum = coopMatMulAddNV(a, b, sum);
      }
    }
    coopMatStoreNV(sum, sums, row * kTile + token, kTile, false);
    barrier();
    for (uint i = lane(); i < kTile * kTile; i += n_lanes())
      if (i / kTile < p.n_rows && first + i % kTile < p.end)
        store_product(p, i / kTile, first + i % kTile, sums[i]);
  }
}
