// nvfp4: its block is described in quant/formats/nvfp4.h.
void decode_nvfp4(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_nvfp4) * kBytes_nvfp4;
  const uint s = (i & 63u) / 16u, code = byte_at(block + s) & 127u, e = code >> 3u;
  // Half of the E4M3 value, because the levels are doubled; 0x7f is NaN.
  const float normal = uintBitsToFloat((e + 119u) << 23u | (code & 7u) << 20u);
  const float scale = code == 127u ? 0.0 : e == 0u ? float(code) * 0.0009765625 : normal;
  uint q[8];
  fields_of(block + 4ul + uint64_t(8u * s), (i & 8u) >> 1u, 15u, q);
  for (uint n = 0; n < 8; ++n) v[n] = scale * table_level(kTableE2m1, q[n]);
}
