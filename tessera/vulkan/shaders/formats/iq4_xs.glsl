// iq4_xs: its block is described in quant/formats/iq4_xs.h.
void decode_iq4_xs(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_iq4_xs) * kBytes_iq4_xs;
  const uint b = (i & 255u) / 32u;
  const uint low = byte_at(block + 4ul + b / 2u) >> 4u * (b & 1u) & 15u, high = half_at(block + 2ul) >> 2u * b & 3u;
  const float scale = f16_at(block) * float(int(low | high << 4u) - 32);
  uint q[8];
  nibbles_of(block + 8ul + uint64_t(16u * b), i & 31u, q);
  for (uint n = 0; n < 8; ++n) v[n] = scale * table_level(kTableIq4, q[n]);
}
