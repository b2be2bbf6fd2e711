// q2_k: its block is described in quant/formats/q2_k.h.
void decode_q2_k(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_q2_k) * kBytes_q2_k;
  const uint b = (i & 255u) / 16u, scales = byte_at(block + b);
  const float a = f16_at(block + 80ul) * float(scales & 15u), m = f16_at(block + 82ul) * float(scales >> 4u);
  uint q[8];
  fields_of(block + 16ul + uint64_t(32u * (b / 8u) + 16u * (b & 1u) + (i & 8u)), b / 2u % 4u * 2u, 3u, q);
  for (uint n = 0; n < 8; ++n) v[n] = a * float(q[n]) - m;
}
