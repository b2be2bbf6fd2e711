// iq3_xxs: its block is described in quant/formats/iq3_xxs.h.
void decode_iq3_xxs(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_iq3_xxs) * kBytes_iq3_xxs;
  const uint g = (i & 255u) / 8u, points = half_at(block + 2ul + uint64_t(2u * g));
  const uint word = bytes_at(block + 66ul + uint64_t(g / 4u * 4u));
  const float scale = f16_at(block) * (0.5 + float(word >> 28u)) * 0.5;
  magnitudes_of(table_word(kTableIq3xxs + (points & 255u)), table_word(kTableIq3xxs + (points >> 8u)),
                even_signs(word >> 7u * (g & 3u) & 127u), scale, v);
}
