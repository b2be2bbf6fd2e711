// q8_0: its block is described in quant/formats/q8_0.h.
void decode_q8_0(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_q8_0) * kBytes_q8_0;
  const float d = f16_at(block);
  uint q[8];
  fields_of(block + 2ul + uint64_t(i & 31u), 0u, 255u, q);
  for (uint n = 0; n < 8; ++n) v[n] = d * float(signed_byte(q[n]));
}
