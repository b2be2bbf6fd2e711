// Writes and reads single tokens of a KV cache block (kv_tiles.h defines the layout). cpu/ops stores each new token's K
// and V with these functions. The cache saves and restores sequences as rows.
//
// store_*() stores exactly the bytes that from_f32() computes, so a restored cache is identical to the saved one.
#include "tessera/cpu/kernels/kv_tiles.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

constexpr int kChunk = 32;  // elements encoded at a time: one block of the quantized dtypes

template <class Row>
size_t tile_offset(int dim, int slot) {
  return static_cast<size_t>(slot / kTileTokens) * tile_bytes<Row>(dim);
}

// The fifth bits of a block: the bit of element 4t + j is bit 4t + j in a row and bit 8j + t in a tile. In a tile, one
// shift moves the bits of four adjacent elements to the bytes of their codes.

/// Moves even bits to the lower half and odd bits to the upper half.
uint32_t unshuffle_bits(uint32_t x) {
  const auto swap = [&](int distance, uint32_t mask) {
    const uint32_t differ = (x ^ (x >> distance)) & mask;
    x ^= differ ^ (differ << distance);
  };
  swap(1, 0x22222222u), swap(2, 0x0c0c0c0cu), swap(4, 0x00f000f0u), swap(8, 0x0000ff00u);
  return x;
}
uint32_t tile_from_row_bits(uint32_t x) { return unshuffle_bits(unshuffle_bits(x)); }
// Five unshuffles of 32 bits are the identity.
uint32_t row_from_tile_bits(uint32_t x) { return unshuffle_bits(tile_from_row_bits(x)); }

template <uint32_t (*kReorder)(uint32_t)>
void copy_field(const char* from, char* to, size_t bytes, FieldKind kind) {
  if (kind == FieldKind::plain) {
    memcpy(to, from, bytes);
  } else {
    uint32_t bits;
    memcpy(&bits, from, 4);
    bits = kReorder(bits);
    memcpy(to, &bits, 4);
  }
}

template <class Row>
void store_k_elements(const char* row, int n, int slot, char* tile) {
  for_each_piece<Row>(static_cast<size_t>(slot % kTileTokens), n,
                      [=](size_t to, size_t from, size_t bytes, FieldKind kind) {
                        copy_field<tile_from_row_bits>(row + from, tile + to, bytes, kind);
                      });
}

template <class Row>
void store_k(const float* x, int dim, int slot, void* block) {
  char* tile = static_cast<char*>(block) + tile_offset<Row>(dim, slot);
  for (int begin = 0; begin < dim; begin += kChunk) {
    const int n = dim - begin < kChunk ? dim - begin : kChunk;
    alignas(64) char chunk[kChunk * sizeof(float)] = {};
    Row::encode(x + begin, n, chunk);
    store_k_elements<Row>(chunk, n, slot, tile + tile_bytes<Row>(begin));
  }
}

template <class Row>
void store_k_row(const void* row, int dim, int slot, void* block) {
  store_k_elements<Row>(static_cast<const char*>(row), dim, slot,
                        static_cast<char*>(block) + tile_offset<Row>(dim, slot));
}

template <class Row>
void load_k(const void* block, int dim, int slot, void* row) {
  const char* tile = static_cast<const char*>(block) + tile_offset<Row>(dim, slot);
  auto* out = static_cast<char*>(row);
  for_each_piece<Row>(static_cast<size_t>(slot % kTileTokens), dim,
                      [=](size_t from, size_t to, size_t bytes, FieldKind kind) {
                        copy_field<row_from_tile_bits>(tile + from, out + to, bytes, kind);
                      });
}

template <class Row>
void store_v(const float* x, int dim, int slot, void* block) {
  Row::encode(x, dim, static_cast<char*>(block) + static_cast<size_t>(slot) * Row::bytes(dim));
}

template <class Row>
void store_v_row(const void* row, int dim, int slot, void* block) {
  memcpy(static_cast<char*>(block) + static_cast<size_t>(slot) * Row::bytes(dim), row, Row::bytes(dim));
}

template <class Row>
void load_v(const void* block, int dim, int slot, void* row) {
  memcpy(row, static_cast<const char*>(block) + static_cast<size_t>(slot) * Row::bytes(dim), Row::bytes(dim));
}

template <class Row>
constexpr KvFormat kFormat = {store_k<Row>, store_v<Row>, load_k<Row>, load_v<Row>, store_k_row<Row>, store_v_row<Row>};

struct Format {
  template <class Row>
  static constexpr const KvFormat* of() {
    return &kFormat<Row>;
  }
};

}  // namespace

constexpr ByDType<const KvFormat*> kKvFormats = make_row_table<Format>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
