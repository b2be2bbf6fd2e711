// q1_0: its block is described in quant/formats/q1_0.h.
void decode_q1_0(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_q1_0) * kBytes_q1_0;
  const float d = f16_at(block);
  const uint bits = byte_at(block + 2ul + uint64_t((i & 127u) / 8u));
  for (uint n = 0; n < 8; ++n) v[n] = (bits >> n & 1u) != 0u ? d : -d;
}
