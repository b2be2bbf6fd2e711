// Products for many tokens on cooperative matrices (cooperative.glsl). matmul_convert.comp has converted the tokens'
// values. A workgroup of eight subgroups computes a tile of 64 rows and 128 or 64 tokens, each subgroup an eighth.
//   kVariant, from the lowest byte: invocations of a subgroup, tokens of a tile; bit 16: y is aligned to 16 bytes
//   u[9]: rows of x
#include "step.glsl"
#include "formats.glsl"
#include "formats_wide.glsl"
#include "matmul.glsl"

const uint kRows = 64, kTokens = kVariant >> 8u & 255u, kLine = kChunk / 4u + 2u;
#define kPoolWords ((kRows + kTokens) * kLine)
#include "cooperative.glsl"

const bool kAlignedY = (kVariant >> 16u & 1u) != 0u;
// The part of a subgroup: 2 x 2 matrices of a wide tile, 1 x 2 of the other.
const uint kTall = kTokens / 64u, kWide = 2, kAcross = 2 * kTall;  // kAcross: subgroups side by side

shared float scales[kTokens];         // of the tokens in this segment
shared float edge[kSide * kSide];     // a matrix at the edge of y

/// The row of x that a token of this part has.
uint x_index(Part p, uint matrix, uint token) {
  if (step.u[8] != 0u) return uint(Ints(step.x[2].data).at[step.u[2] + 1u + token]) / step.u[8];
  return step.u[6] == 0u ? token : token * step.u[2] + matrix;
}

void load_weights(Part p, uint chunk, uint k) {
  for (uint i = lane(); i < kRows * kLanes; i += n_lanes()) {
    const uint line = i / kLanes, column = chunk * kChunk + i % kLanes * kPiece;
    float w[8];
    for (uint j = 0; j < 8u; ++j) w[j] = 0.0;
    if (column < k) weights_at(p.w + uint64_t(min(line, p.n_rows - 1u)) * step.x[0].nb[1], column, k, w);
    store_piece(line * kLine + i % kLanes * 2u, w);
  }
}

void load_x(Part p, uint matrix, uint first, uint chunk, uint n_segments) {
  for (uint i = lane(); i < kTokens * kLanes; i += n_lanes()) {
    const uint line = i / kLanes, row = x_index(p, matrix, min(first + line, p.end - 1u));
    const uint64_t from = step.scratch + (uint64_t(row) * n_segments * kSegmentPieces + chunk * kLanes + i % kLanes) * 16ul;
    const uvec4 words = Quads(from).at[0];
    const uint at = (kRows + line) * kLine + i % kLanes * 2u;
    pool[at] = f16vec4(unpackFloat2x16(words.x), unpackFloat2x16(words.y));
    pool[at + 1u] = f16vec4(unpackFloat2x16(words.z), unpackFloat2x16(words.w));
  }
}

void load_scales(Part p, uint matrix, uint first, uint segment, uint n_segments) {
  const uint64_t from = step.scratch + uint64_t(step.u[9]) * n_segments * kSegmentPieces * 16ul;
  for (uint i = lane(); i < kTokens; i += n_lanes()) {
    const uint row = x_index(p, matrix, min(first + i, p.end - 1u));
    scales[i] = Floats(from).at[row * n_segments + segment];
  }
}

#ifdef kEmulated
/// Adds the sums of a segment, each column multiplied by its token's scale.
Sums add_scaled(Sums total, Sums part, uint token) {
  UNROLL for (uint i = 0; i < n_mine(); ++i) total.at[i] += part.at[i] * scales[token + my_value(i) % kSide];
  return total;
}
void store_to_y(uint64_t y, Sums s) {
  UNROLL for (uint i = 0; i < n_mine(); ++i)
    Floats(y + uint64_t(my_value(i) % kSide) * step.u[5]).at[my_value(i) / kSide] = s.at[i];
}
void store_to_edge(Sums s) {
  UNROLL for (uint i = 0; i < n_mine(); ++i) edge[my_value(i)] = s.at[i];
}
#else
#define kAlignedNonPrivate 0x22  // kNonPrivate, and the alignment follows
COOPERATIVE_INSTRUCTION(4458)
void write_aligned(spirv_by_reference float to, Sums s, uint layout_of, uint stride, spirv_literal uint access,
                   spirv_literal uint alignment);
#define add_scaled(total, part, token) \
  add(total, multiply(part, read_sums(scales[token], kRowMajor, 0u, kNonPrivate)))
#define store_to_y(y, s) write_aligned(Floats(y).at[0], s, kColumnMajor, step.u[5] / 4u, kAlignedNonPrivate, 16)
#define store_to_edge(s) write_sums(edge[0], s, kRowMajor, kSide, kNonPrivate)
#endif

Sums sums[kTall][kWide], totals[kTall][kWide];

/// Stores the totals of this workgroup; those at an edge one after the other by way of shared memory.
void store_tile(Part p, uint first, uint row, uint token) {
  const uint n_tokens = p.end - first;
  for (uint r = 0; r < kTall; ++r)
    for (uint t = 0; t < kWide; ++t) {
      const uint row_here = row + r * kSide, token_here = token + t * kSide;
      const bool is_whole = kAlignedY && row_here + kSide <= p.n_rows && token_here + kSide <= n_tokens;
      if (is_whole)
        store_to_y(p.y + uint64_t(first + token_here) * step.u[5] + uint64_t(p.row + row_here) * 4ul, totals[r][t]);
    }
  if (kAlignedY && p.n_rows == kRows && n_tokens >= kTokens) return;
  for (uint n = 0; n < kSubgroups * kTall * kWide; ++n) {
    const uint r = n / kSubgroups / kWide, t = n / kSubgroups % kWide, turn = n % kSubgroups;
    const uint row_there = turn / kAcross * kTall * kSide + r * kSide;
    const uint token_there = turn % kAcross * kWide * kSide + t * kSide;
    const bool is_whole = kAlignedY && row_there + kSide <= p.n_rows && token_there + kSide <= n_tokens;
    if (is_whole || row_there >= p.n_rows || token_there >= n_tokens) continue;
    barrier();
    if (gl_SubgroupID == turn) store_to_edge(totals[r][t]);
    barrier();
    for (uint i = lane(); i < kSide * kSide; i += n_lanes())
      if (row_there + i / kSide < p.n_rows && token_there + i % kSide < n_tokens)
        store_product(p, row_there + i / kSide, first + token_there + i % kSide, edge[i]);
  }
}

void main() {
  const uint group = group_index();
  if (group >= step.n_groups) return;
  const Part p = part_of_group(group, kRows);
  const uint matrix = group / step.u[0] / step.u[1];
  const uint k = step.x[0].ne[0], n_segments = n_matrix_segments(k), n_chunks = (k + kChunk - 1u) / kChunk;
  const uint row = gl_SubgroupID / kAcross * kTall * kSide, token = gl_SubgroupID % kAcross * kWide * kSide;
  for (uint first = p.begin + p.share * kTokens; first < p.end; first += step.u[1] * kTokens) {
    UNROLL for (uint r = 0; r < kTall; ++r)
      UNROLL for (uint t = 0; t < kWide; ++t) totals[r][t] = zeros();
    for (uint segment = 0; segment < n_segments; ++segment) {
      UNROLL for (uint r = 0; r < kTall; ++r)
        UNROLL for (uint t = 0; t < kWide; ++t) sums[r][t] = zeros();
      const uint begin = segment * kSegmentColumns / kChunk, end = min(n_chunks, begin + kSegmentColumns / kChunk);
      for (uint chunk = begin; chunk < end; ++chunk) {
        barrier();
        load_weights(p, chunk, k);
        load_x(p, matrix, first, chunk, n_segments);
        if (chunk == begin) load_scales(p, matrix, first, segment, n_segments);
        barrier();
        UNROLL for (uint i = 0; i < kChunk / 4u; i += kSide / 4u) {
          MatrixA a[kTall];
          MatrixB b[kWide];
          UNROLL for (uint r = 0; r < kTall; ++r) a[r] = load_a((row + r * kSide) * kLine + i, kLine);
          UNROLL for (uint t = 0; t < kWide; ++t) b[t] = load_b((kRows + token + t * kSide) * kLine + i, kLine);
          UNROLL for (uint r = 0; r < kTall; ++r)
            UNROLL for (uint t = 0; t < kWide; ++t) sums[r][t] = multiply_add(a[r], b[t], sums[r][t]);
        }
      }
      UNROLL for (uint r = 0; r < kTall; ++r)
        UNROLL for (uint t = 0; t < kWide; ++t)
          totals[r][t] = add_scaled(totals[r][t], sums[r][t], token + t * kSide);
    }
    store_tile(p, first, row, token);
  }
}
