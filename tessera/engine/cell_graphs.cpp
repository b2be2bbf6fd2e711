#include "tessera/engine/cell_graphs.h"

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/nn/linear.h"

namespace tessera {

// Moves up to n_ubatch cells in the layers of a group; K is rotated by "delta" positions.
Result<Graph> CellGraphs::move_graph(const KvCache& cache, size_t group, Rotation rotation, Mover& mover) const {
  const KvCacheConfig& config = cache.config();
  GraphBuilder b;
  mover.from = b.input("from", DType::i32, {config.n_ubatch});
  mover.to = b.input("to", DType::i32, {config.n_ubatch});
  std::vector<Value> ropes;
  if (rotation == Rotation::by_delta) {
    mover.delta = b.input("delta", DType::i32, {config.n_ubatch});
    for (const nn::Rope& rope : model_.ropes)
      ropes.push_back(nn::rope_table(b, mover.delta, rope, config.n_ctx, nn::RopeMagnitude::left_out));
  }
  for (int64_t layer = 0; layer < std::ssize(config.layers); ++layer) {
    if (cache.group_of(layer) != group) continue;
    const Value k_cache = b.tensor(cache.k(layer));
    Value k = b.kv_load(k_cache, mover.from, KvSide::k);
    const int rope = ropes.empty() ? nn::kNoRope : model_.kv_ropes[to_size(layer)];
    if (rope != nn::kNoRope) {
      const auto r = to_size(rope);
      k = b.rope(b.cast(k, DType::f32), ropes[r], model_.ropes[r].config.pairs);
    }
    b.kv_store(k_cache, k, mover.to, KvSide::k);
    if (!cache.has_v(layer)) continue;
    const Value v_cache = b.tensor(cache.v(layer));
    b.kv_store(v_cache, b.kv_load(v_cache, mover.from, KvSide::v), mover.to, KvSide::v);
  }
  return std::move(b).finish();
}

// In a cache with entries no cell moves: sequences are copied to empty ones, and not shifted.
Result<std::vector<Graph>> CellGraphs::largest_graphs(const KvCache& cache) const {
  std::vector<Graph> graphs;
  if (cache.has_entries()) return graphs;
  for (size_t group = 0; group < cache.groups().size(); ++group)
    for (const Rotation rotation : {Rotation::none, Rotation::by_delta}) {
      if (!cache.groups()[group].has_data()) continue;
      Mover mover;
      TESSERA_ASSIGN(Graph graph, move_graph(cache, group, rotation, mover));
      graphs.push_back(std::move(graph));
    }
  return graphs;
}

Result<> CellGraphs::move(const KvCache& cache, size_t group, const CellMoves& moves) {
  const Rotation rotation = moves.delta == 0 ? Rotation::none : Rotation::by_delta;
  Mover& mover = movers_[{&cache, group, rotation}];
  if (mover.graph == nullptr) {
    TESSERA_ASSIGN(Graph graph, move_graph(cache, group, rotation, mover));
    TESSERA_ASSIGN(mover.graph, executor_.prepare(std::move(graph)));
  }
  const auto n = to_size(cache.config().n_ubatch);
  for (size_t begin = 0; begin < moves.from.size(); begin += n) {
    const size_t count = std::min(n, moves.from.size() - begin);
    // Spare entries of the last part read cell 0 and are written nowhere.
    const auto set = [&](Value input, const std::vector<int32_t>& cells, int32_t filler) {
      std::vector<int32_t> part(n, filler);
      std::copy_n(cells.begin() + static_cast<ptrdiff_t>(begin), count, part.begin());
      return set_input(*mover.graph, input, part);
    };
    TESSERA_TRY(set(mover.from, moves.from, 0));
    TESSERA_TRY(set(mover.to, moves.to, -1));
    if (mover.delta.present()) TESSERA_TRY(set_input(*mover.graph, mover.delta, std::vector<int32_t>(n, moves.delta)));
    TESSERA_TRY(executor_.run(*mover.graph));
  }
  return {};
}

Result<CellGraphs::RowGraph> CellGraphs::prepare_rows(const KvCache& cache, int64_t layer,
                                                      std::span<const int32_t> cells, Direction direction) {
  const int64_t n_heads = cache.config().layers[to_size(layer)].n_heads_kv;
  GraphBuilder b;
  const Value at = b.input("cells", DType::i32, {std::ssize(cells)});
  const auto add_side = [&](const Tensor& tensor, KvSide side, std::string_view name) {
    if (direction == Direction::read) return b.output(b.kv_load(b.tensor(tensor), at, side), name);
    const Value rows = b.input(name, tensor.dtype, {tensor.shape()[0], n_heads, std::ssize(cells)});
    b.kv_store(b.tensor(tensor), rows, at, side);
    return rows;
  };
  RowGraph rows;
  rows.k = add_side(cache.k(layer), KvSide::k, "k");
  if (cache.has_v(layer)) rows.v = add_side(cache.v(layer), KvSide::v, "v");
  TESSERA_ASSIGN(Graph graph, std::move(b).finish());
  TESSERA_ASSIGN(rows.graph, executor_.prepare(std::move(graph)));
  TESSERA_TRY(set_input(*rows.graph, at, cells));
  return rows;
}

Result<> CellGraphs::read(const KvCache& cache, int64_t layer, std::span<const int32_t> cells, std::span<std::byte> k,
                          std::span<std::byte> v) {
  TESSERA_ASSIGN(const KvTokenBytes token, cache.token_bytes(layer));
  const auto n_ubatch = to_size(cache.config().n_ubatch);
  for (size_t begin = 0; begin < cells.size(); begin += n_ubatch) {
    const auto part = cells.subspan(begin, std::min(n_ubatch, cells.size() - begin));
    TESSERA_ASSIGN(const RowGraph rows, prepare_rows(cache, layer, part, Direction::read));
    TESSERA_TRY(executor_.run(*rows.graph));
    const auto get = [&](Value value, std::span<std::byte> bytes, size_t row_bytes) {
      const Tensor& tensor = rows.graph->tensor(value.id());
      return tensor.buffer->get(tensor, 0, bytes.subspan(begin * row_bytes, part.size() * row_bytes));
    };
    TESSERA_TRY(get(rows.k, k, token.k));
    if (rows.v.present()) TESSERA_TRY(get(rows.v, v, token.v));
  }
  return {};
}

Result<> CellGraphs::write(const KvCache& cache, int64_t layer, std::span<const int32_t> cells,
                           std::span<const std::byte> k, std::span<const std::byte> v) {
  TESSERA_ASSIGN(const KvTokenBytes token, cache.token_bytes(layer));
  const auto n_ubatch = to_size(cache.config().n_ubatch);
  for (size_t begin = 0; begin < cells.size(); begin += n_ubatch) {
    const auto part = cells.subspan(begin, std::min(n_ubatch, cells.size() - begin));
    TESSERA_ASSIGN(const RowGraph rows, prepare_rows(cache, layer, part, Direction::write));
    TESSERA_TRY(set_input(*rows.graph, rows.k, k.subspan(begin * token.k, part.size() * token.k)));
    if (rows.v.present())
      TESSERA_TRY(set_input(*rows.graph, rows.v, v.subspan(begin * token.v, part.size() * token.v)));
    TESSERA_TRY(executor_.run(*rows.graph));
  }
  return {};
}

}  // namespace tessera
