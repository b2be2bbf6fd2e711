// tq2_0: its block is described in quant/formats/tq2_0.h.
void decode_tq2_0(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_tq2_0) * kBytes_tq2_0;
  const uint e = i & 255u;
  const float d = f16_at(block + 64ul);
  uint q[8];
  fields_of(block + uint64_t(32u * (e / 128u) + (e & 31u)), e / 32u % 4u * 2u, 3u, q);
  for (uint n = 0; n < 8; ++n) v[n] = d * float(int(q[n]) - 1);
}
