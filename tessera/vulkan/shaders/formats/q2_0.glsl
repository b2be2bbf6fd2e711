// q2_0: its block is described in quant/formats/q2_0.h.
void decode_q2_0(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_q2_0) * kBytes_q2_0;
  const float d = f16_at(block);
  const uint codes = half_at(block + 2ul + uint64_t((i & 63u) / 4u));
  for (uint n = 0; n < 8; ++n) v[n] = d * float(int(codes >> 2u * n & 3u) - 1);
}
