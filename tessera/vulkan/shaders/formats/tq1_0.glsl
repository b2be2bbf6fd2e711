// tq1_0: its block is described in quant/formats/tq1_0.h.
void decode_tq1_0(uint64_t row, uint i, out float v[8]) {
  const uint64_t block = row + uint64_t(i / kElements_tq1_0) * kBytes_tq1_0;
  const float d = f16_at(block + 52ul);
  for (uint n = 0; n < 8; ++n) {
    const uint e = (i & 255u) + n;
    // Five runs of 32 elements, five of 16, four of 4: a byte holds an element of each run.
    const uint byte = e < 160u ? e % 32u : e < 240u ? 32u + (e - 160u) % 16u : 48u + (e - 240u) % 4u;
    const uint trit = e < 160u ? e / 32u : e < 240u ? (e - 160u) / 16u : (e - 240u) / 4u;
    uint fraction = byte_at(block + byte);
    for (uint t = 0; t < trit; ++t) fraction = 3u * fraction & 255u;
    v[n] = d * float(int(3u * fraction >> 8u) - 1);
  }
}
