#version 460
#extension GL_GOOGLE_include_directive : require
// Products with weights of any format for many tokens. A workgroup computes a tile of 32 rows and 32 tokens. It decodes
// a chunk of its rows once into shared memory, next to the tokens' x. Each invocation sums 8 x 8 outputs for one of the
// eight lanes that share a row (matmul.glsl). The shader needs 16 KiB of shared memory and 128 invocations, which every
// Vulkan device has.
#define kWorkgroup 128
#include "step.glsl"
#include "formats.glsl"
#include "formats_wide.glsl"
#include "matmul.glsl"

const uint kTile = 32, kRowSlots = 4, kSide = 8;  // an invocation's rows and tokens are kRowSlots apart
const uint kPool = kTile * kChunk;

// Elements j of the pieces by row and lane, so that adjacent invocations read adjacent words. Between segments the same
// memory holds the invocations' sums, half of them at a time.
shared float pool[2 * kPool];
uint weights_index(uint j, uint row, uint piece) { return (j * kTile + row) * kLanes + piece; }
uint x_index(uint j, uint token, uint piece) { return kPool + weights_index(j, token, piece); }

float sums[kSide][kSide];  // by row and token

void load_chunk(Part p, uint first, uint chunk, uint k) {
  for (uint i = lane(); i < kTile * kLanes; i += n_lanes()) {
    const uint piece = i % kLanes, line = i / kLanes, column = chunk * kChunk + piece * kPiece;
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
      pool[weights_index(j, line, piece)] = w[j];
      pool[x_index(j, line, piece)] = a[j];
    }
  }
}

void multiply_chunk(uint piece, uint row_slot, uint token_slot) {
  for (uint j = 0; j < 8u; ++j) {
    float w[kSide], a[kSide];
    [[unroll]] for (uint i = 0; i < kSide; ++i) {
      w[i] = pool[weights_index(j, row_slot + kRowSlots * i, piece)];
      a[i] = pool[x_index(j, token_slot + kRowSlots * i, piece)];
    }
    [[unroll]] for (uint r = 0; r < kSide; ++r)
      [[unroll]] for (uint t = 0; t < kSide; ++t) sums[r][t] = fma(w[r], a[t], sums[r][t]);
  }
}

void main() {
  const uint group = group_index();
  if (group >= step.n_groups) return;
  const Part p = part_of_group(group, kTile);
  const uint k = step.x[0].ne[0], n_chunks = (k + kChunk - 1u) / kChunk, per_segment = kSegment / kChunk;
  const uint piece = lane() % kLanes, row_slot = lane() / kLanes % kRowSlots, token_slot = lane() / kLanes / kRowSlots;
  for (uint first = p.begin + p.share * kTile; first < p.end; first += step.u[1] * kTile) {
    // Eight invocations sum 64 outputs, of which each keeps eight: row i and token t with piece = (4 i + t) % 8 in each
    // half of the tokens.
    float totals[2][4];
    [[unroll]] for (uint i = 0; i < 8u; ++i) totals[i / 4u][i % 4u] = 0.0;
    for (uint chunk = 0; chunk < n_chunks;) {
      [[unroll]] for (uint r = 0; r < kSide; ++r)
        [[unroll]] for (uint t = 0; t < kSide; ++t) sums[r][t] = 0.0;
      const uint end = min(n_chunks, (chunk / per_segment + 1u) * per_segment);
      for (; chunk < end; ++chunk) {
        barrier();
        load_chunk(p, first, chunk, k);
        barrier();
        multiply_chunk(piece, row_slot, token_slot);
      }
      [[unroll]] for (uint part = 0; part < 2u; ++part) {
        barrier();
        // The eight sums of an output are rotated by its number, so that concurrent reads use all memory banks.
        [[unroll]] for (uint n = 0; n < 32u; ++n)
          pool[n * kWorkgroup + lane() - piece + (piece + n) % kLanes] = sums[n / 4u][4u * part + n % 4u];
        barrier();
        [[unroll]] for (uint q = 0; q < 4u; ++q) {
          const uint n = piece + kLanes * q, at = n * kWorkgroup + lane() - piece;
          totals[part][q] += sum_of_lanes(pool[at + n % 8u], pool[at + (n + 1u) % 8u], pool[at + (n + 2u) % 8u],
                                          pool[at + (n + 3u) % 8u], pool[at + (n + 4u) % 8u], pool[at + (n + 5u) % 8u],
                                          pool[at + (n + 6u) % 8u], pool[at + (n + 7u) % 8u]);
        }
      }
    }
    [[unroll]] for (uint i = 0; i < 8u; ++i) {
      const uint n = piece + kLanes * (i % 4u), r = row_slot + kRowSlots * (n / 4u);
      const uint token = first + token_slot + kRowSlots * (4u * (i / 4u) + n % 4u);
      if (r < p.n_rows && token < p.end) store_product(p, r, token, totals[i / 4u][i % 4u]);
    }
  }
}
