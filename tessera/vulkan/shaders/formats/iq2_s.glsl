// iq2_s: its block is described in quant/formats/iq2_s.h.
void decode_iq2_s(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_iq2_s) * kBytes_iq2_s;
  const uint g = (i & 255u) / 8u, high = byte_at(block + 66ul + g / 4u) >> 2u * (g & 3u) & 3u;
  const uint point = kTableIq2s + 2u * (byte_at(block + 2ul + g) | high << 8u);
  const uint s = byte_at(block + 74ul + g / 4u) >> 4u * (g / 2u & 1u) & 15u;
  const float scale = f16_at(block) * (0.5 + float(s)) * 0.25;
  magnitudes_of(table_word(point), table_word(point + 1u), byte_at(block + 34ul + g), scale, v);
}
