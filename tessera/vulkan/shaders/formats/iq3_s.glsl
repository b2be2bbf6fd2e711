// iq3_s: its block is described in quant/formats/iq3_s.h.
void decode_iq3_s(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_iq3_s) * kBytes_iq3_s;
  const uint g = (i & 255u) / 8u, points = half_at(block + 2ul + uint64_t(2u * g));
  const uint high = byte_at(block + 66ul + g / 4u) >> 2u * (g & 3u);
  const uint s = byte_at(block + 106ul + g / 8u) >> 4u * (g / 4u & 1u) & 15u;
  magnitudes_of(table_word(kTableIq3s + (points & 255u | (high & 1u) << 8u)),
                table_word(kTableIq3s + (points >> 8u | (high >> 1u & 1u) << 8u)), byte_at(block + 74ul + g),
                f16_at(block) * float(1u + 2u * s), v);
}
