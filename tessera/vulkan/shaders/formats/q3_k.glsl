// q3_k: its block is described in quant/formats/q3_k.h.
void decode_q3_k(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_q3_k) * kBytes_q3_k, scales = block + 96ul;
  const uint b = (i & 255u) / 16u, at = 16u * (b & 1u) + (i & 8u);
  const uint low = byte_at(scales + b % 8u) >> 4u * (b / 8u) & 15u;
  const uint high = byte_at(scales + 8ul + b % 4u) >> 2u * (b / 4u) & 3u;
  const float a = f16_at(block + 108ul) * float(int(low | high << 4u) - 32);
  uint q[8], mask[8];
  fields_of(block + 32ul + uint64_t(32u * (b / 8u) + at), b / 2u % 4u * 2u, 3u, q);
  fields_of(block + uint64_t(at), b / 2u, 1u, mask);
  for (uint n = 0; n < 8; ++n) v[n] = a * float(int(q[n] + mask[n] * 4u) - 4);
}
