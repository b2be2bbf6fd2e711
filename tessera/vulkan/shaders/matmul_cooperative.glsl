// Products for many tokens on cooperative matrices (cooperative.glsl). matmul_convert.comp has converted the tokens'
// values. A workgroup of eight subgroups computes a tile of 64 rows and 128 tokens, each subgroup 2 x 2 matrices.
//   kVariant: lowest byte: invocations of a subgroup; bit 16: y is aligned to 16 bytes; 17: rows end with a
//   segment
//   u[9]: rows of x
#include "step.glsl"
#include "formats.glsl"
#include "formats_wide.glsl"
#include "matmul.glsl"

const uint kRows = 64, kTokens = 128, kLine = kLanes + 1u;
#define kPoolPieces ((kRows + kTokens) * kLine)
#include "cooperative.glsl"

const bool kAlignedY = (kVariant >> 16u & 1u) != 0u;
const uint kAcross = kTokens / (2u * kSide);  // subgroups side by side

shared float scales[kTokens];         // of the tokens in this segment
shared float edge[kSide * kSide];     // a matrix at the edge of y

/// The row of x that a token of this part has.
uint x_index(Part p, uint matrix, uint token) {
  if (step.u[8] != 0u) return uint(Ints(step.x[2].data).at[step.u[2] + 1u + token]) / step.u[8];
  return step.u[6] == 0u ? token : token * step.u[2] + matrix;
}

// The pieces that an invocation loads of each chunk: piece lane() % kLanes of lines lane() / kLanes + i * kLineStep.
const uint kLineStep = kSubgroups * kSubgroupLanes / kLanes;
const uint kMyWeights = kRows / kLineStep, kMyX = kTokens / kLineStep;
uint64_t weight_rows[kMyWeights], x_pieces[kMyX];  // addresses; those of x in the first chunk
uvec4 next_weights[kMyWeights];
uvec4 next_x[kMyX];
uint x_rows;        // rows of x
uint64_t scratch;

// Addresses are computed once per tile, because invocations read parameters again after each barrier.
void find_pieces(Part p, uint matrix, uint first, uint n_segments) {
  for (uint i = 0; i < kMyWeights; ++i)
    weight_rows[i] = p.w + uint64_t(min(lane() / kLanes + i * kLineStep, p.n_rows - 1u)) * step.x[0].nb[1];
  for (uint i = 0; i < kMyX; ++i) {
    const uint row = x_index(p, matrix, min(first + lane() / kLanes + i * kLineStep, p.end - 1u));
    x_pieces[i] = scratch + (uint64_t(row) * n_segments * kSegmentPieces + lane() % kLanes) * 16ul;
  }
}

/// Begins to load a chunk, while the one before is multiplied.
void load_pieces(uint chunk, uint k) {
  const uint column = chunk * kChunk + lane() % kLanes * kPiece;
  UNROLL for (uint i = 0; i < kMyX; ++i) next_x[i] = Quads(x_pieces[i] + uint64_t(chunk * kLanes * 16u)).at[0];
  UNROLL for (uint i = 0; i < kMyWeights; ++i) next_weights[i] = weights_as_halves(weight_rows[i], column, k);
}

void store_pieces() {
  const uint line = lane() / kLanes, at = lane() % kLanes;
  UNROLL for (uint i = 0; i < kMyWeights; ++i) pool[(line + i * kLineStep) * kLine + at] = next_weights[i];
  UNROLL for (uint i = 0; i < kMyX; ++i) pool[(kRows + line + i * kLineStep) * kLine + at] = next_x[i];
}

void load_scales(Part p, uint matrix, uint first, uint segment, uint n_segments) {
  const uint64_t from = scratch + uint64_t(x_rows) * n_segments * kSegmentPieces * 16ul;
  for (uint i = lane(); i < kTokens; i += n_lanes()) {
    const uint row = x_index(p, matrix, min(first + i, p.end - 1u));
    scales[i] = Floats(from).at[row * n_segments + segment];
  }
}

layout(buffer_reference, std430, buffer_reference_align = 16) buffer AlignedFloats { float at[]; };

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
Sums add_scaled(Sums total, Sums part, uint token) {
  Sums columns;
  coopMatLoadNV(columns, scales, token, 0u, false);  // the same row 16 times
  return coopMatMulAddNV(part, columns, total);  // by elements, see cooperative.glsl
}
void store_to_y(uint64_t y, Sums s) { coopMatStoreNV(s, AlignedFloats(y).at, 0u, step.u[5] / 4u, true); }
void store_to_edge(Sums s) { coopMatStoreNV(s, edge, 0u, kSide, false); }
#endif

/// Whether a matrix is inside of y and can be stored by the subgroup at once.
bool is_whole(Part p, uint n_tokens, uint row, uint token) {
  return kAlignedY && row + kSide <= p.n_rows && token + kSide <= n_tokens;
}

/// The first row and token of a subgroup.
uint row_of_subgroup(uint n) { return n / kAcross * 2u * kSide; }
uint token_of_subgroup(uint n) { return n % kAcross * 2u * kSide; }

/// Stores a matrix of each subgroup, which is `row` and `token` after the first of the subgroup. Those at an edge of y are
/// stored one after the other by way of shared memory.
void store_matrices(Part p, uint first, uint row, uint token, Sums total) {
  const uint n_tokens = p.end - first;
  const uint row_here = row_of_subgroup(gl_SubgroupID) + row, token_here = token_of_subgroup(gl_SubgroupID) + token;
  if (is_whole(p, n_tokens, row_here, token_here))
    store_to_y(p.y + uint64_t(first + token_here) * step.u[5] + uint64_t(p.row + row_here) * 4ul, total);
  if (kAlignedY && p.n_rows == kRows && n_tokens >= kTokens) return;
  for (uint turn = 0; turn < kSubgroups; ++turn) {
    const uint row_there = row_of_subgroup(turn) + row, token_there = token_of_subgroup(turn) + token;
    if (is_whole(p, n_tokens, row_there, token_there) || row_there >= p.n_rows || token_there >= n_tokens) continue;
    barrier();
    if (gl_SubgroupID == turn) store_to_edge(total);
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
  const uint weights = row_of_subgroup(gl_SubgroupID) * kLine;
  const uint token = token_of_subgroup(gl_SubgroupID), values = (kRows + token) * kLine;
  x_rows = step.u[9];
  scratch = step.scratch;
  for (uint first = p.begin + p.share * kTokens; first < p.end; first += step.u[1] * kTokens) {
    // By row and token; arrays of matrices make the optimizer of Debian 12 fail.
    Sums sum00 = zeros(), sum01 = zeros(), sum10 = zeros(), sum11 = zeros();
    Sums total00 = zeros(), total01 = zeros(), total10 = zeros(), total11 = zeros();
    find_pieces(p, matrix, first, n_segments);
    load_pieces(0u, k);
    for (uint chunk = 0; chunk < n_chunks; ++chunk) {
      const uint in_segment = chunk % (kSegmentColumns / kChunk);
      barrier();
      store_pieces();
      if (in_segment == 0u) load_scales(p, matrix, first, chunk / (kSegmentColumns / kChunk), n_segments);
      barrier();
      if (chunk + 1u < n_chunks) load_pieces(chunk + 1u, k);
      UNROLL for (uint i = 0; i < kLanes; i += kSide / kPiece) {
        const MatrixA a0 = load_a(weights + i, kLine), a1 = load_a(weights + kSide * kLine + i, kLine);
        const MatrixB b0 = load_b(values + i, kLine), b1 = load_b(values + kSide * kLine + i, kLine);
        sum00 = multiply_add(a0, b0, sum00);
        sum01 = multiply_add(a0, b1, sum01);
        sum10 = multiply_add(a1, b0, sum10);
        sum11 = multiply_add(a1, b1, sum11);
      }
      if (in_segment + 1u < kSegmentColumns / kChunk && chunk + 1u < n_chunks) continue;
      total00 = add_scaled(total00, sum00, token);
      total01 = add_scaled(total01, sum01, token + kSide);
      total10 = add_scaled(total10, sum10, token);
      total11 = add_scaled(total11, sum11, token + kSide);
      sum00 = zeros();
      sum01 = zeros();
      sum10 = zeros();
      sum11 = zeros();
    }
    store_matrices(p, first, 0u, 0u, total00);
    store_matrices(p, first, 0u, kSide, total01);
    store_matrices(p, first, kSide, 0u, total10);
    store_matrices(p, first, kSide, kSide, total11);
  }
}
