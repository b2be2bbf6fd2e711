// q6_k: its block is described in quant/formats/q6_k.h.
void decode_q6_k(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_q6_k) * kBytes_q6_k;
  const uint b = (i & 255u) / 16u, g = b / 2u % 4u, at = 16u * (b & 1u) + (i & 8u);
  const float a = f16_at(block + 208ul) * float(signed_byte(byte_at(block + 192ul + b)));
  uint low[8], high[8];
  fields_of(block + uint64_t(64u * (b / 8u) + 32u * (g & 1u) + at), g / 2u * 4u, 15u, low);
  fields_of(block + 128ul + uint64_t(32u * (b / 8u) + at), 2u * g, 3u, high);
  for (uint n = 0; n < 8; ++n) v[n] = a * float(int(low[n] | high[n] << 4u) - 32);
}
