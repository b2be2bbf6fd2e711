// q4_0: its block is described in quant/formats/q4_0.h.
void decode_q4_0(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_q4_0) * kBytes_q4_0;
  const float d = f16_at(block);
  uint q[8];
  nibbles_of(block + 2ul, i & 31u, q);
  for (uint n = 0; n < 8; ++n) v[n] = d * float(int(q[n]) - 8);
}
