// iq2_xs: its block is described in quant/formats/iq2_xs.h.
void decode_iq2_xs(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_iq2_xs) * kBytes_iq2_xs;
  const uint g = (i & 255u) / 8u, code = half_at(block + 2ul + uint64_t(2u * g)), point = kTableIq2xs + 2u * (code & 511u);
  const uint s = byte_at(block + 66ul + g / 4u) >> 4u * (g / 2u & 1u) & 15u;
  const float scale = f16_at(block) * (0.5 + float(s)) * 0.25;
  magnitudes_of(table_word(point), table_word(point + 1u), even_signs(code >> 9u), scale, v);
}
