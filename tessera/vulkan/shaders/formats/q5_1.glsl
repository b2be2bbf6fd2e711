// q5_1: its block is described in quant/formats/q5_1.h.
void decode_q5_1(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_q5_1) * kBytes_q5_1;
  const float d = f16_at(block), m = f16_at(block + 2ul);
  const uint high = bytes_at(block + 4ul) >> (i & 31u);
  uint q[8];
  nibbles_of(block + 8ul, i & 31u, q);
  for (uint n = 0; n < 8; ++n) v[n] = d * float(q[n] | (high >> n & 1u) << 4u) + m;
}
