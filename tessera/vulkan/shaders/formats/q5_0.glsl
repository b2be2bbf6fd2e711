// q5_0: its block is described in quant/formats/q5_0.h.
void decode_q5_0(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_q5_0) * kBytes_q5_0;
  const float d = f16_at(block);
  const uint high = bytes_at(block + 2ul) >> (i & 31u);
  uint q[8];
  nibbles_of(block + 6ul, i & 31u, q);
  for (uint n = 0; n < 8; ++n) v[n] = d * float(int(q[n] | (high >> n & 1u) << 4u) - 16);
}
