// f16: its block is described in quant/formats/float.cpp.
void decode_f16(uint64_t row, uint i, uint count, out float v[8]) {
  for (uint n = 0; n < 8; ++n) v[n] = n < count ? f16_at(row + uint64_t(i + n) * kBytes_f16) : 0.0;
}
