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

// The pieces that an invocation loads of each chunk: piece lane() % kLanes of lines lane() / kLanes + i * kLineStep.
const uint kLineStep = kSubgroups * kSubgroupLanes / kLanes;
const uint kMyWeights = kRows / kLineStep, kMyX = kTokens / kLineStep;
uint64_t weight_rows[kMyWeights], x_pieces[kMyX];  // addresses; those of x in the first chunk
Halves next_weights[kMyWeights];
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
  const uint line = lane() / kLanes, at = lane() % kLanes * 2u;
  UNROLL for (uint i = 0; i < kMyWeights; ++i) store_piece((line + i * kLineStep) * kLine + at, next_weights[i]);
  UNROLL for (uint i = 0; i < kMyX; ++i)
    store_piece((kRows + line + i * kLineStep) * kLine + at, halves_of_words(next_x[i]));
}

void load_scales(Part p, uint matrix, uint first, uint segment, uint n_segments) {
  const uint64_t from = scratch + uint64_t(x_rows) * n_segments * kSegmentPieces * 16ul;
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
  x_rows = step.u[9];
  scratch = step.scratch;
  const uint row = gl_SubgroupID / kAcross * kTall * kSide, token = gl_SubgroupID % kAcross * kWide * kSide;
  for (uint first = p.begin + p.share * kTokens; first < p.end; first += step.u[1] * kTokens) {
    UNROLL for (uint r = 0; r < kTall; ++r)
      UNROLL for (uint t = 0; t < kWide; ++t) {
        totals[r][t] = zeros();
        sums[r][t] = zeros();
      }
    find_pieces(p, matrix, first, n_segments);
    load_pieces(0u, k);
    for (uint chunk = 0; chunk < n_chunks; ++chunk) {
      const uint in_segment = chunk % (kSegmentColumns / kChunk);
      barrier();
      store_pieces();
      if (in_segment == 0u) load_scales(p, matrix, first, chunk / (kSegmentColumns / kChunk), n_segments);
      barrier();
      if (chunk + 1u < n_chunks) load_pieces(chunk + 1u, k);
      UNROLL for (uint i = 0; i < kChunk / 4u; i += kSide / 4u) {
        MatrixA a[kTall];
        MatrixB b[kWide];
        UNROLL for (uint r = 0; r < kTall; ++r) a[r] = load_a((row + r * kSide) * kLine + i, kLine);
        UNROLL for (uint t = 0; t < kWide; ++t) b[t] = load_b((kRows + token + t * kSide) * kLine + i, kLine);
        UNROLL for (uint r = 0; r < kTall; ++r)
          UNROLL for (uint t = 0; t < kWide; ++t) sums[r][t] = multiply_add(a[r], b[t], sums[r][t]);
      }
      if (in_segment + 1u < kSegmentColumns / kChunk && chunk + 1u < n_chunks) continue;
      UNROLL for (uint r = 0; r < kTall; ++r)
        UNROLL for (uint t = 0; t < kWide; ++t) {
          totals[r][t] = add_scaled(totals[r][t], sums[r][t], token + t * kSide);
          sums[r][t] = zeros();
        }
    }
    store_tile(p, first, row, token);
  }
}
