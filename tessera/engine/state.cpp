// The saved state of a sequence: little-endian header, per group of the cache the number of positions it holds and
// those positions, then per layer the K rows and the V rows of its group's positions in the cache's types, then the
// states of recurrent layers if the sequence has any position, then, where the model has an encoder, groups and rows of
// its cache likewise, then a checksum of all before it. Everything is checked before the session is touched.
#include <cstring>
#include <limits>

#include "tessera/base/bytes.h"
#include "tessera/base/checked.h"
#include "tessera/base/hash.h"
#include "tessera/engine/session.h"

namespace tessera {

namespace {

constexpr uint64_t kMagic = 0x3151455341525354;  // "TSRASEQ1"
constexpr uint32_t kVersion = 2;

struct Header {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t n_layers = 0;
  uint64_t fingerprint = 0;
  uint32_t type_k = 0;
  uint32_t type_v = 0;
  uint64_t n_groups = 0;
};
static_assert(sizeof(Header) == 40, "no padding: it is written as it is");

struct RowBytes {
  size_t k = 0;  // of one token in one layer
  size_t v = 0;
  size_t both() const { return k + v; }
};

Result<RowBytes> row_bytes_of(const KvCacheConfig& config, const KvLayerShape& layer) {
  TESSERA_ASSIGN(const size_t k, row_bytes(config.type_k, layer.k_dim));
  TESSERA_ASSIGN(const size_t v, row_bytes(config.type_v, layer.v_dim));
  const auto heads = static_cast<size_t>(layer.n_heads_kv);
  return RowBytes{k * heads, v * heads};
}

// Takes n bytes from the front of the rest. Errors: format.
Result<std::span<const std::byte>> take(std::span<const std::byte>& rest, uint64_t n) {
  if (n > rest.size()) return fail(ErrorCode::format, "state: {} bytes wanted, {} left", n, rest.size());
  const auto taken = rest.first(static_cast<size_t>(n));
  rest = rest.subspan(static_cast<size_t>(n));
  return taken;
}

Result<std::vector<int32_t>> take_positions(std::span<const std::byte>& rest) {
  uint64_t n;
  TESSERA_ASSIGN(const auto count, take(rest, sizeof n));
  std::memcpy(&n, count.data(), sizeof n);
  const auto n_bytes = checked_mul<uint64_t>(n, sizeof(int32_t));
  if (!n_bytes) return fail(ErrorCode::format, "state: {} positions", n);
  TESSERA_ASSIGN(const auto bytes, take(rest, *n_bytes));
  std::vector<int32_t> positions(static_cast<size_t>(n));
  if (n > 0) std::memcpy(positions.data(), bytes.data(), bytes.size());
  return positions;
}

/// A sequence in a cache: positions by group, then rows by layer.
struct SavedCache {
  std::vector<std::vector<int32_t>> positions;
  std::vector<std::span<const std::byte>> rows;
};

Result<SavedCache> take_cache(const KvCache& cache, std::span<const std::byte>& rest) {
  const KvCacheConfig& config = cache.config();
  SavedCache saved;
  for (size_t group = 0; group < cache.groups().size(); ++group) {
    TESSERA_ASSIGN(std::vector<int32_t> positions, take_positions(rest));
    saved.positions.push_back(std::move(positions));
  }
  for (size_t il = 0; il < config.layers.size(); ++il) {
    TESSERA_ASSIGN(const RowBytes row, row_bytes_of(config, config.layers[il]));
    const uint64_t n = saved.positions[cache.group_of(static_cast<int64_t>(il))].size();
    const auto bytes = checked_mul<uint64_t>(n, row.both());
    if (!bytes) return fail(ErrorCode::format, "state: {} positions", n);
    TESSERA_ASSIGN(const auto rows, take(rest, *bytes));
    saved.rows.push_back(rows);
  }
  return saved;
}

}  // namespace

// Rows of one layer out of (or into) the cache, n_ubatch cells at a time; k and v hold cells.size() rows.
Result<> Session::run_layer_io(const KvCache& cache, bool store, int64_t layer, std::span<const int32_t> cells,
                               std::span<std::byte> k, std::span<std::byte> v) {
  const KvLayerShape& shape = cache.config().layers[static_cast<size_t>(layer)];
  TESSERA_ASSIGN(const RowBytes row, row_bytes_of(cache.config(), shape));
  const auto step = static_cast<size_t>(options_.n_ubatch);
  for (size_t begin = 0; begin < cells.size(); begin += step) {
    const auto part = cells.subspan(begin, std::min(step, cells.size() - begin));
    const auto n = static_cast<int64_t>(part.size());
    struct Side {
      Value rows;
      std::span<std::byte> bytes;
    };
    std::vector<Side> sides;
    GraphBuilder b;
    const Value at = b.input("cells", DType::i32, {n});
    for (const KvSide side : {KvSide::k, KvSide::v}) {
      const bool is_k = side == KvSide::k;
      if (!is_k && !cache.has_v(layer)) continue;
      const Tensor& tensor = is_k ? cache.k(layer) : cache.v(layer);
      const std::string_view name = is_k ? "k" : "v";
      Value rows;
      if (store) {
        rows = b.input(name, tensor.dtype, {tensor.shape()[0], shape.n_heads_kv, n});
        b.kv_store(b.tensor(tensor), rows, at, side);
      } else {
        rows = b.output(b.kv_load(b.tensor(tensor), at, side), name);
      }
      const size_t row_size = is_k ? row.k : row.v;
      sides.push_back({rows, (is_k ? k : v).subspan(begin * row_size, part.size() * row_size)});
    }
    TESSERA_ASSIGN(Graph graph, std::move(b).finish());
    TESSERA_ASSIGN(const auto prepared, executor_->prepare(std::move(graph)));
    const Tensor& cells_place = prepared->place(at.id());
    TESSERA_TRY(cells_place.buffer->set(cells_place, 0, std::as_bytes(part)));
    for (const Side& side : sides)
      if (const Tensor& place = prepared->place(side.rows.id()); store)
        TESSERA_TRY(place.buffer->set(place, 0, side.bytes));
    TESSERA_TRY(executor_->run(*prepared));
    for (const Side& side : sides)
      if (const Tensor& place = prepared->place(side.rows.id()); !store)
        TESSERA_TRY(place.buffer->get(place, 0, side.bytes));
  }
  return {};
}

Result<> Session::save_cache(const KvCache& cache, int32_t sequence, std::vector<std::byte>& state) {
  const KvCacheConfig& config = cache.config();
  const auto append = [&](std::span<const std::byte> bytes) { state.insert(state.end(), bytes.begin(), bytes.end()); };
  std::vector<std::vector<int32_t>> cells;  // by group
  for (size_t group = 0; group < cache.groups().size(); ++group) {
    TESSERA_ASSIGN(KvCache::Cells held, cache.cells(sequence, group));
    const uint64_t n = held.positions.size();
    append(std::as_bytes(std::span(&n, 1)));
    append(std::as_bytes(std::span(held.positions)));
    cells.push_back(std::move(held.cells));
  }
  for (size_t il = 0; il < config.layers.size(); ++il) {
    TESSERA_ASSIGN(const RowBytes row, row_bytes_of(config, config.layers[il]));
    const auto layer = static_cast<int64_t>(il);
    const std::vector<int32_t>& at = cells[cache.group_of(layer)];
    const size_t begin = state.size();
    state.resize(begin + at.size() * row.both());
    const std::span<std::byte> rows = std::span(state).subspan(begin);
    TESSERA_TRY(run_layer_io(cache, false, layer, at, rows.first(at.size() * row.k), rows.subspan(at.size() * row.k)));
  }
  return {};
}

Result<> Session::store_rows(const KvCache& cache, std::span<const std::vector<int32_t>> cells,
                             std::span<const std::span<const std::byte>> rows) {
  const KvCacheConfig& config = cache.config();
  for (size_t il = 0; il < rows.size(); ++il) {
    TESSERA_ASSIGN(const RowBytes row, row_bytes_of(config, config.layers[il]));
    const auto layer = static_cast<int64_t>(il);
    const std::vector<int32_t>& at = cells[cache.group_of(layer)];
    // The rows are staged so that the graph's inputs can be set from them.
    std::vector<std::byte> staging(rows[il].begin(), rows[il].end());
    const std::span<std::byte> all(staging);
    TESSERA_TRY(run_layer_io(cache, true, layer, at, all.first(at.size() * row.k), all.subspan(at.size() * row.k)));
  }
  return {};
}

Result<std::vector<std::byte>> Session::save_state(int32_t sequence) {
  const KvCacheConfig& config = cache_->config();
  const Header header{.n_layers = static_cast<uint32_t>(config.layers.size()),
                      .fingerprint = engine_->fingerprint(),
                      .type_k = static_cast<uint32_t>(config.type_k),
                      .type_v = static_cast<uint32_t>(config.type_v),
                      .n_groups = cache_->groups().size()};
  const auto header_bytes = std::as_bytes(std::span(&header, 1));
  std::vector<std::byte> state(header_bytes.begin(), header_bytes.end());
  TESSERA_TRY(save_cache(*cache_, sequence, state));
  if (states_ != nullptr && states_->last_position(sequence)) {
    const size_t begin = state.size();
    state.resize(begin + states_->state_bytes());
    TESSERA_TRY(states_->save(sequence, std::span(state).subspan(begin)));
  }
  if (has_encoder()) TESSERA_TRY(save_cache(*encoder_cache_, sequence, state));
  const uint64_t checksum = Hash64().add(state).value();
  const auto checksum_bytes = std::as_bytes(std::span(&checksum, 1));
  state.insert(state.end(), checksum_bytes.begin(), checksum_bytes.end());
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
  if (header.fingerprint != engine_->fingerprint() || header.n_layers != config.layers.size() ||
      header.n_groups != cache_->groups().size())
    return fail(ErrorCode::mismatch, "state: saved from another model");
  if (header.type_k != static_cast<uint32_t>(config.type_k) || header.type_v != static_cast<uint32_t>(config.type_v))
    return fail(ErrorCode::mismatch, "state: saved with cache types {} and {}, the session has {} and {}",
                header.type_k, header.type_v, info(config.type_k).name, info(config.type_v).name);

  std::span<const std::byte> rest = body.subspan(sizeof header);
  TESSERA_ASSIGN(const SavedCache saved, take_cache(*cache_, rest));
  const std::vector<int32_t>& positions = saved.positions[0];
  std::span<const std::byte> recurrent;
  if (states_ != nullptr && !positions.empty()) {
    TESSERA_ASSIGN(recurrent, take(rest, states_->state_bytes()));
  }
  SavedCache prompt;
  if (has_encoder()) {
    TESSERA_ASSIGN(prompt, take_cache(*encoder_cache_, rest));
    if (auto fits = encoder_cache_->want_replaceable(sequence, prompt.positions); !fits)
      return forward_error(fits, "state");
  }
  if (!rest.empty()) return fail(ErrorCode::format, "state: {} bytes too many", rest.size());
  std::vector<std::vector<int32_t>> cells;
  if (auto replaced = cache_->replace(sequence, saved.positions, cells); !replaced)
    return forward_error(replaced, "state");
  TESSERA_TRY(store_rows(*cache_, cells, saved.rows));
  if (has_encoder()) {
    TESSERA_TRY(encoder_cache_->replace(sequence, prompt.positions, cells));
    TESSERA_TRY(store_rows(*encoder_cache_, cells, prompt.rows));
  }
  if (states_ == nullptr) return {};
  if (positions.empty()) return states_->remove(sequence, 0, std::numeric_limits<int32_t>::max());
  return states_->restore(sequence, positions.front(), positions.back(), recurrent);
}

}  // namespace tessera
