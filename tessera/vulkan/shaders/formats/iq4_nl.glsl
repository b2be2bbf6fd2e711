// iq4_nl: its block is described in quant/formats/iq4_nl.h.
void decode_iq4_nl(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_iq4_nl) * kBytes_iq4_nl;
  const float d = f16_at(block);
  uint q[8];
  nibbles_of(block + 2ul, i & 31u, q);
  for (uint n = 0; n < 8; ++n) v[n] = d * table_level(kTableIq4, q[n]);
}
