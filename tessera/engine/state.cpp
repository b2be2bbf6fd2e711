// The saved state of a sequence: little-endian header, positions, then per layer the K rows and the V rows in the
// cache's types, then a checksum of all before it. Everything is checked before the session is touched.
#include <cstring>
#include <numeric>

#include "tessera/base/bytes.h"
#include "tessera/base/checked.h"
#include "tessera/base/hash.h"
#include "tessera/engine/session.h"

namespace tessera {

namespace {

constexpr uint64_t kMagic = 0x3151455341525354;  // "TSRASEQ1"
constexpr uint32_t kVersion = 1;

struct Header {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t n_layers = 0;
  uint64_t fingerprint = 0;
  uint32_t type_k = 0;
  uint32_t type_v = 0;
  uint64_t n_positions = 0;
};
static_assert(sizeof(Header) == 40, "no padding: it is written as it is");

struct RowBytes {
  size_t k = 0;  // of one token in one layer
  size_t v = 0;
};

Result<RowBytes> row_bytes_of(const KvCacheConfig& config, const KvLayerShape& layer) {
  TESSERA_ASSIGN(const size_t k, row_bytes(config.type_k, layer.k_dim));
  TESSERA_ASSIGN(const size_t v, row_bytes(config.type_v, layer.v_dim));
  const auto heads = static_cast<size_t>(layer.n_heads_kv);
  return RowBytes{k * heads, v * heads};
}

}  // namespace

// Rows of one layer out of (or into) the cache, n_ubatch cells at a time; k and v hold cells.size() rows.
Result<> Session::run_layer_io(bool store, int64_t layer, std::span<const int32_t> cells, std::span<std::byte> k,
                               std::span<std::byte> v) {
  const KvLayerShape& shape = model_->info().kv_layers[static_cast<size_t>(layer)];
  TESSERA_ASSIGN(const RowBytes row, row_bytes_of(cache_->config(), shape));
  const auto step = static_cast<size_t>(options_.n_ubatch);
  for (size_t begin = 0; begin < cells.size(); begin += step) {
    const auto part = cells.subspan(begin, std::min(step, cells.size() - begin));
    const auto n = static_cast<int64_t>(part.size());
    GraphBuilder b;
    const Value at = b.input("cells", DType::i32, {n});
    for (const KvSide side : {KvSide::k, KvSide::v}) {
      const bool is_k = side == KvSide::k;
      const Tensor& cache = is_k ? cache_->k(layer) : cache_->v(layer);
      if (store) {
        const Value rows = b.input(is_k ? "k" : "v", cache.dtype, {cache.shape()[0], shape.n_heads_kv, n});
        b.kv_store(b.tensor(cache), rows, at, side);
      } else {
        b.output(b.kv_load(b.tensor(cache), at, side), is_k ? "k" : "v");
      }
    }
    TESSERA_ASSIGN(Graph graph, std::move(b).finish());
    TESSERA_ASSIGN(const auto prepared, executor_->prepare(std::move(graph)));
    TESSERA_TRY(set_input(*prepared, "cells", part));
    const auto each_side = [&](auto transfer) -> Result<> {
      for (NodeId id = 0; id < prepared->graph().size(); ++id) {
        const std::string& name = prepared->graph()[id].name;
        if (name == "k") TESSERA_TRY(transfer(prepared->place(id), k.subspan(begin * row.k, part.size() * row.k)));
        if (name == "v") TESSERA_TRY(transfer(prepared->place(id), v.subspan(begin * row.v, part.size() * row.v)));
      }
      return {};
    };
    if (store)
      TESSERA_TRY(each_side([](const Tensor& t, std::span<std::byte> rows) { return t.buffer->set(t, 0, rows); }));
    TESSERA_TRY(executor_->run(*prepared, nullptr));
    if (!store)
      TESSERA_TRY(each_side([](const Tensor& t, std::span<std::byte> rows) { return t.buffer->get(t, 0, rows); }));
  }
  return {};
}

Result<std::vector<std::byte>> Session::save_state(int32_t sequence) {
  TESSERA_ASSIGN(const KvCache::Cells cells, cache_->cells(sequence));
  const KvCacheConfig& config = cache_->config();
  const Header header{.n_layers = static_cast<uint32_t>(config.layers.size()),
                      .fingerprint = engine_->fingerprint(),
                      .type_k = static_cast<uint32_t>(config.type_k),
                      .type_v = static_cast<uint32_t>(config.type_v),
                      .n_positions = cells.positions.size()};
  std::vector<std::byte> state;
  const auto append = [&](std::span<const std::byte> bytes) { state.insert(state.end(), bytes.begin(), bytes.end()); };
  append(std::as_bytes(std::span(&header, 1)));
  append(std::as_bytes(std::span(cells.positions)));
  for (size_t il = 0; il < config.layers.size(); ++il) {
    TESSERA_ASSIGN(const RowBytes row, row_bytes_of(config, config.layers[il]));
    const size_t n = cells.cells.size(), at = state.size();
    state.resize(at + n * (row.k + row.v));
    const std::span<std::byte> rows = std::span(state).subspan(at);
    TESSERA_TRY(
        run_layer_io(false, static_cast<int64_t>(il), cells.cells, rows.first(n * row.k), rows.subspan(n * row.k)));
  }
  const uint64_t checksum = Hash64().add(state).value();
  append(std::as_bytes(std::span(&checksum, 1)));
  return state;
}

Result<> Session::restore_state(int32_t sequence, std::span<const std::byte> state) {
  const KvCacheConfig& config = cache_->config();
  if (state.size() < sizeof(Header) + sizeof(uint64_t))
    return fail(ErrorCode::format, "state: {} bytes, a saved state has at least {}", state.size(),
                sizeof(Header) + sizeof(uint64_t));
  Header header;
  std::memcpy(&header, state.data(), sizeof header);
  if (header.magic != kMagic) return fail(ErrorCode::format, "state: not a saved state of tessera");
  if (header.version != kVersion)
    return fail(ErrorCode::unsupported, "state: version {}, want {}", header.version, kVersion);
  uint64_t checksum;
  const std::span<const std::byte> body = state.first(state.size() - sizeof checksum);
  std::memcpy(&checksum, state.data() + body.size(), sizeof checksum);
  if (Hash64().add(body).value() != checksum) return fail(ErrorCode::format, "state: damaged (the checksum differs)");
  if (header.fingerprint != engine_->fingerprint() || header.n_layers != config.layers.size())
    return fail(ErrorCode::mismatch, "state: saved from another model");
  if (header.type_k != static_cast<uint32_t>(config.type_k) || header.type_v != static_cast<uint32_t>(config.type_v))
    return fail(ErrorCode::mismatch, "state: saved with cache types {} and {}, the session has {} and {}",
                header.type_k, header.type_v, info(config.type_k).name, info(config.type_v).name);

  size_t per_position = sizeof(int32_t);
  for (const KvLayerShape& layer : config.layers) {
    TESSERA_ASSIGN(const RowBytes row, row_bytes_of(config, layer));
    per_position += row.k + row.v;
  }
  const auto expected = checked_mul<uint64_t>(header.n_positions, per_position);
  if (!expected || *expected != body.size() - sizeof header)
    return fail(ErrorCode::format, "state: {} positions of {} bytes do not fill {} bytes", header.n_positions,
                per_position, body.size() - sizeof header);
  std::vector<BatchToken> tokens(static_cast<size_t>(header.n_positions));
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::memcpy(&tokens[i].position, body.data() + sizeof header + i * sizeof(int32_t), sizeof(int32_t));
    tokens[i].sequence = sequence;
    if (tokens[i].position < 0 || (i > 0 && tokens[i].position <= tokens[i - 1].position))
      return fail(ErrorCode::format, "state: positions do not ascend");
  }
  TESSERA_TRY(cache_->want_room_for(sequence, tokens));
  TESSERA_TRY(cache_->remove(sequence, 0, static_cast<int32_t>(options_.n_ctx)));
  TESSERA_TRY(cache_->reserve(tokens, cells_));
  const std::vector<int32_t> cells = cells_;
  // The rows are staged so that the graph's inputs can be set from them.
  size_t at = sizeof header + tokens.size() * sizeof(int32_t);
  for (size_t il = 0; il < config.layers.size(); ++il) {
    TESSERA_ASSIGN(const RowBytes row, row_bytes_of(config, config.layers[il]));
    const auto rows = body.subspan(at, tokens.size() * (row.k + row.v));
    std::vector<std::byte> staging(rows.begin(), rows.end());
    const std::span<std::byte> all(staging);
    TESSERA_TRY(run_layer_io(true, static_cast<int64_t>(il), cells, all.first(tokens.size() * row.k),
                             all.subspan(tokens.size() * row.k)));
    at += rows.size();
  }
  return {};
}

}  // namespace tessera
