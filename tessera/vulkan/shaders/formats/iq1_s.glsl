// iq1_s: its block is described in quant/formats/iq1_s.h.
void decode_iq1_s(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_iq1_s) * kBytes_iq1_s;
  const uint g = (i & 255u) / 8u, high = half_at(block + 34ul + uint64_t(g / 4u * 2u));
  const uint point = byte_at(block + 2ul + g) | (high >> 3u * (g & 3u) & 7u) << 8u;
  iq1_values(point, high >> 15u != 0u, f16_at(block) * float(2u * (high >> 12u & 7u) + 1u), v);
}
