// q5_k: its block is described in quant/formats/q5_k.h.
void decode_q5_k(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_q5_k) * kBytes_q5_k;
  const uint b = (i & 255u) / 32u;
  const uvec2 scales = k_scales(block + 4ul, b);
  const float a = f16_at(block) * float(scales.x), m = f16_at(block + 2ul) * float(scales.y);
  uint q[8], high[8];
  fields_of(block + 48ul + uint64_t(32u * (b / 2u) + (i & 31u)), b % 2u * 4u, 15u, q);
  fields_of(block + 16ul + uint64_t(i & 31u), b, 1u, high);
  for (uint n = 0; n < 8; ++n) v[n] = a * float(q[n] | high[n] << 4u) - m;
}
