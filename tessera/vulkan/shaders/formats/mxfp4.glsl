// mxfp4: its block is described in quant/formats/mxfp4.h.
void decode_mxfp4(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_mxfp4) * kBytes_mxfp4;
  const uint e = byte_at(block);
  // 2^(e - 128) in two factors: for e < 2 it is subnormal, and a device may flush it to 0.
  const float half_scale = uintBitsToFloat((e / 2u + 64u) << 23u), rest = uintBitsToFloat((e - e / 2u + 62u) << 23u);
  uint q[8];
  nibbles_of(block + 1ul, i & 31u, q);
  for (uint n = 0; n < 8; ++n) v[n] = table_level(kTableE2m1, q[n]) * half_scale * rest;
}
