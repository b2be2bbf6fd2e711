// iq2_xxs: its block is described in quant/formats/iq2_xxs.h.
void decode_iq2_xxs(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_iq2_xxs) * kBytes_iq2_xxs;
  const uint g = (i & 255u) / 8u;
  const uint64_t part = block + 2ul + uint64_t(g / 4u * 8u);
  const uint word = bytes_at(part + 4ul), point = kTableIq2xxs + 2u * byte_at(part + uint64_t(g & 3u));
  const float scale = f16_at(block) * (0.5 + float(word >> 28u)) * 0.25;
  magnitudes_of(table_word(point), table_word(point + 1u), even_signs(word >> 7u * (g & 3u) & 127u), scale, v);
}
