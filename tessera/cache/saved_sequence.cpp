// The saved form of a sequence, little-endian:
//   header
//   the KV cache: per group the number of its positions and the positions, then per layer the K rows and the V rows of
//     the group's positions, in the types of the layer. A layer with entries has the rows of two groups, first those of
//     positions. In a group of entries, the number of an entry is in the place of a position.
//   the states of recurrent layers, if there are any and the sequence has a position
//   the KV cache of the encoder's output, if the model has an encoder
//   a checksum of all bytes before it
// restore() checks everything before it changes the memory.
#include <cstring>

#include "tessera/base/checked.h"
#include "tessera/base/function_ref.h"
#include "tessera/base/hash.h"
#include "tessera/base/index.h"
#include "tessera/cache/sequence_memory.h"

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

constexpr uint64_t kFewestBytes = sizeof(Header) + sizeof(uint64_t);  // with the checksum

Header header_of(const KvCache& cache, uint64_t fingerprint) {
  return {.n_layers = static_cast<uint32_t>(cache.config().layers.size()),
          .fingerprint = fingerprint,
          .type_k = static_cast<uint32_t>(cache.config().type_k),
          .type_v = static_cast<uint32_t>(cache.config().type_v),
          .n_groups = cache.groups().size()};
}

// The number of rows of a layer. n_rows(group): that of one group.
uint64_t rows_of_layer(const KvCache& cache, int64_t layer, FunctionRef<uint64_t(size_t group)> n_rows) {
  const size_t group = cache.group_of(layer);
  const auto entries = cache.entries_of(group);
  return n_rows(group) + (entries ? n_rows(*entries) : 0);
}

// The cells of the rows of a layer.
std::vector<int32_t> cells_of_layer(const KvCache& cache, int64_t layer,
                                    std::span<const std::vector<int32_t>> cells_of_group) {
  const size_t group = cache.group_of(layer);
  std::vector<int32_t> cells = cells_of_group[group];
  if (const auto entries = cache.entries_of(group); entries)
    cells.insert(cells.end(), cells_of_group[*entries].begin(), cells_of_group[*entries].end());
  return cells;
}

// Removes n bytes from the front of the rest. Errors: format.
Result<std::span<const std::byte>> take(std::span<const std::byte>& rest, uint64_t n) {
  if (n > rest.size()) return fail(ErrorCode::format, "state: {} bytes wanted, {} left", n, rest.size());
  const auto taken = rest.first(to_size(n));
  rest = rest.subspan(to_size(n));
  return taken;
}

Result<std::vector<int32_t>> take_positions(std::span<const std::byte>& rest) {
  uint64_t n;
  TESSERA_ASSIGN(const auto count, take(rest, sizeof n));
  std::memcpy(&n, count.data(), sizeof n);
  const auto n_bytes = checked_mul<uint64_t>(n, sizeof(int32_t));
  if (!n_bytes) return fail(ErrorCode::format, "state: {} positions", n);
  TESSERA_ASSIGN(const auto bytes, take(rest, *n_bytes));
  std::vector<int32_t> positions(to_size(n));
  if (n > 0) std::memcpy(positions.data(), bytes.data(), bytes.size());
  return positions;
}

// A sequence in one cache.
struct SavedCache {
  std::vector<std::vector<int32_t>> positions;   // by group
  std::vector<std::span<const std::byte>> rows;  // by layer: all of K, then all of V
};

Result<SavedCache> take_cache(const KvCache& cache, std::span<const std::byte>& rest) {
  SavedCache saved;
  for (size_t group = 0; group < cache.groups().size(); ++group) {
    TESSERA_ASSIGN(std::vector<int32_t> positions, take_positions(rest));
    saved.positions.push_back(std::move(positions));
  }
  for (int64_t layer = 0; layer < std::ssize(cache.config().layers); ++layer) {
    TESSERA_ASSIGN(const KvTokenBytes token, cache.token_bytes(layer));
    const uint64_t n =
        rows_of_layer(cache, layer, [&](size_t group) -> uint64_t { return saved.positions[group].size(); });
    const auto bytes = checked_mul<uint64_t>(n, token.k + token.v);
    if (!bytes) return fail(ErrorCode::format, "state: {} positions", n);
    TESSERA_ASSIGN(const auto rows, take(rest, *bytes));
    saved.rows.push_back(rows);
  }
  return saved;
}

void append_bytes(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

Result<> append_cache(const KvCache& cache, int32_t sequence, CellAccess& access, std::vector<std::byte>& to) {
  std::vector<std::vector<int32_t>> cells;  // by group
  for (size_t group = 0; group < cache.groups().size(); ++group) {
    TESSERA_ASSIGN(KvCache::Cells held, cache.cells(sequence, group));
    const uint64_t n = held.positions.size();
    append_bytes(to, std::as_bytes(std::span(&n, 1)));
    append_bytes(to, std::as_bytes(std::span(held.positions)));
    cells.push_back(std::move(held.cells));
  }
  for (int64_t layer = 0; layer < std::ssize(cache.config().layers); ++layer) {
    TESSERA_ASSIGN(const KvTokenBytes token, cache.token_bytes(layer));
    const std::vector<int32_t> of_layer = cells_of_layer(cache, layer, cells);
    const size_t begin = to.size(), k_bytes = of_layer.size() * token.k;
    to.resize(begin + k_bytes + of_layer.size() * token.v);
    const std::span<std::byte> rows = std::span(to).subspan(begin);
    TESSERA_TRY(access.read(cache, layer, of_layer, rows.first(k_bytes), rows.subspan(k_bytes)));
  }
  return {};
}

// The bytes of a cache that holds n_positions(group) positions, each at most n_ctx. The sums are far below 2^64: a
// context has at most 2^31 positions.
Result<uint64_t> cache_bytes(const KvCache& cache, FunctionRef<Result<uint64_t>(size_t group)> n_positions) {
  std::vector<uint64_t> of_group;
  uint64_t n_bytes = 0;
  for (size_t group = 0; group < cache.groups().size(); ++group) {
    TESSERA_ASSIGN(const uint64_t n, n_positions(group));
    of_group.push_back(n);
    n_bytes += sizeof n + n * sizeof(int32_t);
  }
  for (int64_t layer = 0; layer < std::ssize(cache.config().layers); ++layer) {
    TESSERA_ASSIGN(const KvTokenBytes token, cache.token_bytes(layer));
    n_bytes += rows_of_layer(cache, layer, [&](size_t group) { return of_group[group]; }) * (token.k + token.v);
  }
  return n_bytes;
}

Result<> restore_cache(KvCache& cache, int32_t sequence, const SavedCache& saved, CellAccess& access) {
  std::vector<std::vector<int32_t>> cells;
  TESSERA_TRY(cache.replace(sequence, saved.positions, cells));
  for (int64_t layer = 0; layer < std::ssize(cache.config().layers); ++layer) {
    TESSERA_ASSIGN(const KvTokenBytes token, cache.token_bytes(layer));
    const std::vector<int32_t> of_layer = cells_of_layer(cache, layer, cells);
    const std::span<const std::byte> rows = saved.rows[to_size(layer)];
    const size_t k_bytes = of_layer.size() * token.k;
    TESSERA_TRY(access.write(cache, layer, of_layer, rows.first(k_bytes), rows.subspan(k_bytes)));
  }
  return {};
}

// The bytes between header and checksum, after checking both.
Result<std::span<const std::byte>> checked_body(std::span<const std::byte> saved, const Header& want) {
  if (saved.size() < kFewestBytes)
    return fail(ErrorCode::format, "state: {} bytes, a saved state has at least {}", saved.size(), kFewestBytes);
  Header header;
  std::memcpy(&header, saved.data(), sizeof header);
  if (header.magic != kMagic) return fail(ErrorCode::format, "state: not a saved state of tessera");
  if (header.version != kVersion)
    return fail(ErrorCode::unsupported, "state: version {}, want {}", header.version, kVersion);
  uint64_t checksum;
  const std::span<const std::byte> body = saved.first(saved.size() - sizeof checksum);
  std::memcpy(&checksum, saved.data() + body.size(), sizeof checksum);
  if (Hash64().add(body).value() != checksum) return fail(ErrorCode::format, "state: damaged (the checksum differs)");
  if (header.fingerprint != want.fingerprint || header.n_layers != want.n_layers || header.n_groups != want.n_groups)
    return fail(ErrorCode::mismatch, "state: saved from another model");
  if (header.type_k != want.type_k || header.type_v != want.type_v)
    return fail(ErrorCode::mismatch, "state: saved with cache types {} and {}, the session has {} and {}",
                header.type_k, header.type_v, info(static_cast<DType>(want.type_k)).name,
                info(static_cast<DType>(want.type_v)).name);
  return body.subspan(sizeof header);
}

}  // namespace

Result<std::vector<std::byte>> SequenceMemory::save(int32_t sequence, uint64_t fingerprint, CellAccess& access) const {
  const Header header = header_of(kv(), fingerprint);
  std::vector<std::byte> saved;
  append_bytes(saved, std::as_bytes(std::span(&header, 1)));
  TESSERA_TRY(append_cache(kv(), sequence, access, saved));
  if (states_->last_position(sequence)) {
    const size_t begin = saved.size();
    saved.resize(begin + states_->state_bytes());
    TESSERA_TRY(states_->save(sequence, std::span(saved).subspan(begin)));
  }
  for (const auto& cache : prompt_caches()) TESSERA_TRY(append_cache(*cache, sequence, access, saved));
  const uint64_t checksum = Hash64().add(saved).value();
  append_bytes(saved, std::as_bytes(std::span(&checksum, 1)));
  return saved;
}

Result<uint64_t> SequenceMemory::saved_bytes(int32_t sequence) const {
  uint64_t n_bytes = kFewestBytes;
  for (const auto& cache : caches_) {
    const auto held = [&](size_t group) -> Result<uint64_t> {
      TESSERA_ASSIGN(const KvCache::Cells cells, cache->cells(sequence, group));
      return cells.positions.size();
    };
    TESSERA_ASSIGN(const uint64_t n, cache_bytes(*cache, held));
    n_bytes += n;
  }
  return states_->last_position(sequence) ? n_bytes + states_->state_bytes() : n_bytes;
}

Result<uint64_t> SequenceMemory::most_saved_bytes() const {
  uint64_t n_bytes = kFewestBytes + states_->state_bytes();
  for (const auto& cache : caches_) {
    const auto most = [&](size_t group) -> Result<uint64_t> {
      return static_cast<uint64_t>(cache->groups()[group].at(cache->config().n_ctx));
    };
    TESSERA_ASSIGN(const uint64_t n, cache_bytes(*cache, most));
    n_bytes += n;
  }
  return n_bytes;
}

Result<> SequenceMemory::restore(int32_t sequence, uint64_t fingerprint, std::span<const std::byte> saved,
                                 CellAccess& access) {
  TESSERA_ASSIGN(std::span<const std::byte> rest, checked_body(saved, header_of(kv(), fingerprint)));
  std::vector<SavedCache> caches(caches_.size());
  TESSERA_ASSIGN(caches[0], take_cache(kv(), rest));
  const std::vector<int32_t>& positions = caches[0].positions[0];
  TESSERA_ASSIGN(const auto states, take(rest, positions.empty() ? 0 : states_->state_bytes()));
  for (size_t i = 1; i < caches.size(); ++i) {
    TESSERA_ASSIGN(caches[i], take_cache(*caches_[i], rest));
  }
  if (!rest.empty()) return fail(ErrorCode::format, "state: {} bytes too many", rest.size());
  for (size_t i = 0; i < caches.size(); ++i)
    if (auto fits = caches_[i]->require_replaceable(sequence, caches[i].positions); !fits)
      return forward_error(fits, "state");
  for (size_t i = 0; i < caches.size(); ++i) TESSERA_TRY(restore_cache(*caches_[i], sequence, caches[i], access));
  if (positions.empty()) return forget_states(sequence);
  return states_->restore(sequence, positions.front(), positions.back(), states);
}

}  // namespace tessera
