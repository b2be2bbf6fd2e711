// iq1_m: its block is described in quant/formats/iq1_m.h.
void decode_iq1_m(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_iq1_m) * kBytes_iq1_m, scales = block + 48ul;
  const uint g = (i & 255u) / 8u, high = byte_at(block + 32ul + g / 2u) >> 4u * (g & 1u) & 15u;
  uint d = 0u;
  for (uint n = 0; n < 4; ++n) d |= half_at(scales + 2u * n) >> 12u << 4u * n;
  const uint s = half_at(scales + uint64_t(g / 8u * 2u)) >> 3u * (g / 2u % 4u) & 7u;
  const uint point = byte_at(block + g) | (high & 7u) << 8u;
  iq1_values(point, high >> 3u != 0u, float_of_half(d) * float(2u * s + 1u), v);
}
