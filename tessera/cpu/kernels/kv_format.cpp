// Writes and reads single tokens of a KV cache block (kv_tiles.h has the layout). cpu/ops stores each new
// token's K and V with these; the cache saves and restores sequences through the rows.
//
// store_*() keeps exactly the bytes that from_f32() gives, so a saved and restored cache is the same cache.
#include "tessera/cpu/kernels/kv_tiles.h"
#include "tessera/cpu/kernels/table.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

constexpr int kChunk = 32;  // elements encoded at a time: one block of q8_0

/// Calls copy(offset in the K block, offset in the row chunk, bytes) for each piece of elements
/// [begin, begin + n) of token `slot`; the chunk is in file form.
template <class Row, class Copy>
void for_each_piece(int dim, int slot, int begin, int n, Copy copy) {
  const size_t lane = static_cast<size_t>(slot % kTileTokens);
  const size_t tile = static_cast<size_t>(slot / kTileTokens) * tile_bytes<Row>(dim) + tile_bytes<Row>(begin);
  if constexpr (Row::kBlock == 1) {
    constexpr size_t kUnit = Row::kElementBytes;
    for (size_t e = 0; e < static_cast<size_t>(n); ++e) {
      copy(tile + (e * kTileTokens + lane) * kUnit, e * kUnit, kUnit);
    }
  } else {
    static_assert(Row::kBlock == kChunk);
    copy(tile + lane * 2, size_t{0}, size_t{2});
    for (size_t e = 0; e < kChunk; ++e) {
      copy(tile + kQ8TileScaleBytes + e * kTileTokens + lane, 2 + e, size_t{1});
    }
  }
}

template <class Row>
void store_k_chunk(const char* chunk, int dim, int slot, int begin, int n, void* block) {
  auto* out = static_cast<char*>(block);
  for_each_piece<Row>(dim, slot, begin, n,
                      [=](size_t to, size_t from, size_t bytes) { memcpy(out + to, chunk + from, bytes); });
}

template <class Row>
void store_k(const float* x, int dim, int slot, void* block) {
  for (int begin = 0; begin < dim; begin += kChunk) {
    const int n = dim - begin < kChunk ? dim - begin : kChunk;
    alignas(64) char chunk[kChunk * sizeof(float)] = {};
    Row::encode(x + begin, n, chunk);
    store_k_chunk<Row>(chunk, dim, slot, begin, n, block);
  }
}

template <class Row>
void store_k_row(const void* row, int dim, int slot, void* block) {
  for (int begin = 0; begin < dim; begin += kChunk) {
    const int n = dim - begin < kChunk ? dim - begin : kChunk;
    store_k_chunk<Row>(static_cast<const char*>(row) + Row::bytes(begin), dim, slot, begin, n, block);
  }
}

template <class Row>
void load_k(const void* block, int dim, int slot, void* row) {
  const auto* in = static_cast<const char*>(block);
  for (int begin = 0; begin < dim; begin += kChunk) {
    const int n = dim - begin < kChunk ? dim - begin : kChunk;
    char* chunk = static_cast<char*>(row) + Row::bytes(begin);
    for_each_piece<Row>(dim, slot, begin, n,
                        [=](size_t from, size_t to, size_t bytes) { memcpy(chunk + to, in + from, bytes); });
  }
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

}  // namespace

// Positions are GGUF type ids: 0 f32, 1 f16, 8 q8_0, 30 bf16.
constexpr const KvFormat* const kKvFormats[kMaxDTypes] = {
    &kFormat<RowF32>,  &kFormat<RowF16>, nullptr, nullptr, nullptr, nullptr, nullptr,          nullptr,
    &kFormat<RowQ8_0>, nullptr,          nullptr, nullptr, nullptr, nullptr, nullptr,          nullptr,
    nullptr,           nullptr,          nullptr, nullptr, nullptr, nullptr, nullptr,          nullptr,
    nullptr,           nullptr,          nullptr, nullptr, nullptr, nullptr, &kFormat<RowBF16>};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
