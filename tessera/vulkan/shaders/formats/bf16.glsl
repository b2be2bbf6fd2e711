// bf16: its block is described in quant/formats/float.cpp.
void decode_bf16(uint64_t row, uint i, uint count, out float v[8]) {
  for (uint n = 0; n < 8; ++n) v[n] = n < count ? uintBitsToFloat(half_at(row + uint64_t(i + n) * kBytes_bf16) << 16u) : 0.0;
}
