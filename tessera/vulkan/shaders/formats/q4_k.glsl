// q4_k: its block is described in quant/formats/q4_k.h.
void decode_q4_k(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_q4_k) * kBytes_q4_k;
  const uint b = (i & 255u) / 32u;
  const uvec2 scales = k_scales(block + 4ul, b);
  const float a = f16_at(block) * float(scales.x), m = f16_at(block + 2ul) * float(scales.y);
  uint q[8];
  fields_of(block + 16ul + uint64_t(32u * (b / 2u) + (i & 31u)), b % 2u * 4u, 15u, q);
  for (uint n = 0; n < 8; ++n) v[n] = a * float(q[n]) - m;
}
