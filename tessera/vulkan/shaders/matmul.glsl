// Shared by the shaders of products. It defines the order of summation, which is the same for any number of tokens and
// in every shader. So the bits of a token's results do not depend on its batch.
//
// A piece is eight columns. A chunk is eight pieces, one for each of eight lanes. A segment is 16 chunks. A lane sums
// its columns of a segment in order, as one chain of fma. The eight sums of a segment are added as a tree, and the sums
// of the segments are added in order.
//   x[0]: weights [k, n, n_matrices] (kFormat); x[1]: rows of x; x[2]: routes or absent
//   u[0]: row groups; u[1]: workgroups per matrix for its tokens; u[2]: n_matrices; u[3]: n_tokens
//   u[4], u[5]: bytes between tokens of x and of y; u[6], u[7]: bytes between heads (matrices) of x and of y
//   u[8]: pairs per token if x has one row per token, else 0

const uint kPiece = 8, kLanes = 8, kChunk = kPiece * kLanes, kSegment = 16 * kChunk;
// Bits of kVariant: x and weights can be read 16 bytes at a time.
const bool kWideX = (kVariant >> 24u & 1u) != 0u, kWideWeights = (kVariant >> 25u & 1u) != 0u;
// Rows of floats may end within a piece.
const bool kIsFloat = kFormat == kFormat_f32 || kFormat == kFormat_f16 || kFormat == kFormat_bf16;

uint n_segments(uint k) { return (k + kSegment - 1u) / kSegment; }

float sum_of_lanes(float a, float b, float c, float d, float e, float f, float g, float h) {
  precise const float low = (a + b) + (c + d), high = (e + f) + (g + h), sum = low + high;
  return sum;
}

/// Reads the piece from column i < k of a row of k weights, with zeros after the end of the row.
void weights_at(uint64_t row, uint i, uint k, out float v[8]) {
  if (kWideWeights && (!kIsFloat || i + kPiece <= k))
    decode8_wide(kFormat, row, i, v);
  else
    decode8(kFormat, row, i, kIsFloat ? min(k - i, kPiece) : kPiece, v);
}

void x_at(uint64_t row, uint i, uint k, out float v[8]) {
  if (kIsFloat && i + kPiece > k) {
    for (uint n = 0; n < 8u; ++n) v[n] = i + n < k ? Floats(row).at[i + n] : 0.0;
  } else if (kWideX) {
    Quads from = Quads(row + uint64_t(i) * 4ul);
    const vec4 a = uintBitsToFloat(from.at[0]), b = uintBitsToFloat(from.at[1]);
    for (uint n = 0; n < 4u; ++n) {
      v[n] = a[n];
      v[n + 4u] = b[n];
    }
  } else {
    Floats from = Floats(row + uint64_t(i) * 4ul);
    for (uint n = 0; n < 8u; ++n) v[n] = from.at[n];
  }
}

/// The part of the product that a workgroup computes.
struct Part {
  uint64_t w;     // address of its first row
  uint64_t x, y;  // addresses of the matrix's first token
  uint row, n_rows, begin, end, share;
};

Part part_of_group(uint group, uint n_group_rows) {
  Part p;
  const uint matrix = group / step.u[0] / step.u[1];
  p.row = group % step.u[0] * n_group_rows;
  p.share = group / step.u[0] % step.u[1];
  p.n_rows = min(n_group_rows, step.x[0].ne[1] - p.row);
  const bool has_routes = step.x[2].data != 0ul;
  Ints routes = Ints(step.x[2].data);
  p.begin = has_routes ? uint(routes.at[matrix]) : 0u;
  p.end = has_routes ? uint(routes.at[matrix + 1u]) : step.u[3];
  p.w = row_of(step.x[0], p.row, matrix, 0u);
  p.x = step.x[1].data + uint64_t(matrix) * step.u[6];
  p.y = step.y.data + uint64_t(matrix) * step.u[7];
  return p;
}

uint64_t x_row(Part p, uint token) {
  const uint from = step.u[8] == 0u ? token : uint(Ints(step.x[2].data).at[step.u[2] + 1u + token]) / step.u[8];
  return p.x + uint64_t(from) * step.u[4];
}
void store_product(Part p, uint r, uint token, float sum) {
  Floats(p.y + uint64_t(token) * step.u[5]).at[p.row + r] = sum;
}
