// f32: its block is described in quant/formats/float.cpp.
void decode_f32(uint64_t row, uint i, uint count, out float v[8]) {
  Floats from = Floats(row + uint64_t(i) * kBytes_f32);
  for (uint n = 0; n < 8; ++n) v[n] = n < count ? from.at[n] : 0.0;
}
