// Blocks of group 0 as bytes, for tiers of the prefix cache beyond this memory. A block is whole: all of what 64 tokens
// store is in it. So models with windows or recurrent states have none.
#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cache/sequence_memory.h"

namespace tessera {

Result<> SequenceMemory::require_whole_blocks() const {
  TESSERA_TRY(require_retainable());
  if (!needs_marks()) return {};
  return fail(ErrorCode::unsupported, "models with sliding windows or recurrent states have no whole blocks");
}

Result<size_t> SequenceMemory::saved_block_bytes() const {
  TESSERA_TRY(require_whole_blocks());
  uint64_t n_bytes = 0;
  for (int64_t layer = 0; layer < std::ssize(kv().config().layers); ++layer) {
    TESSERA_ASSIGN(const KvTokenBytes token, kv().token_bytes(layer));
    const auto of_layer = checked_mul<uint64_t>(token.k + token.v, static_cast<uint64_t>(kKvBlockTokens));
    const auto sum = of_layer ? checked_add<uint64_t>(n_bytes, *of_layer) : of_layer;
    if (!sum) return fail(ErrorCode::limit, "the size of a block overflows");
    n_bytes = *sum;
  }
  return to_size(n_bytes);
}

Result<std::vector<std::byte>> SequenceMemory::save_block(int32_t block, CellAccess& access) const {
  TESSERA_ASSIGN(const size_t n_bytes, saved_block_bytes());
  if (!kv().groups()[0].is_retained(block))
    return fail(ErrorCode::invalid_argument, "save: block {} is not retained", block);
  std::vector<int32_t> cells;
  for (int64_t i = 0; i < kKvBlockTokens; ++i) cells.push_back(static_cast<int32_t>(block * kKvBlockTokens + i));
  std::vector<std::byte> saved(n_bytes);
  std::span<std::byte> rest = saved;
  for (int64_t layer = 0; layer < std::ssize(kv().config().layers); ++layer) {
    TESSERA_ASSIGN(const KvTokenBytes token, kv().token_bytes(layer));
    const size_t k_bytes = token.k * cells.size(), v_bytes = token.v * cells.size();
    TESSERA_TRY(access.read(kv(), layer, cells, rest.first(k_bytes), rest.subspan(k_bytes, v_bytes)));
    rest = rest.subspan(k_bytes + v_bytes);
  }
  return saved;
}

Result<> SequenceMemory::append_block(int32_t sequence, std::span<const std::byte> saved, CellAccess& access) {
  TESSERA_ASSIGN(const size_t n_bytes, saved_block_bytes());
  if (saved.size() != n_bytes)
    return fail(ErrorCode::invalid_argument, "append: a block of {} bytes, want {}", saved.size(), n_bytes);
  const int64_t begin = int64_t{max_position(sequence).value_or(-1)} + 1;
  if (begin % kKvBlockTokens != 0)
    return fail(ErrorCode::invalid_argument, "append: sequence {} ends at {}, want a multiple of {}", sequence, begin,
                kKvBlockTokens);
  std::vector<BatchToken> tokens;
  for (int64_t i = 0; i < kKvBlockTokens; ++i)
    tokens.push_back({.token = 0, .position = static_cast<int32_t>(begin + i), .sequence = sequence});
  auto written = write_block(tokens, saved, access);
  if (written) return caches_.front()->commit();
  TESSERA_TRY(caches_.front()->rollback());
  return written;
}

Result<> SequenceMemory::write_block(std::span<const BatchToken> tokens, std::span<const std::byte> saved,
                                     CellAccess& access) {
  std::vector<int32_t> cells;
  const size_t n_part = std::min(tokens.size(), to_size(kv().config().n_ubatch));
  for (size_t begin = 0; begin < tokens.size(); begin += n_part) {
    std::vector<std::vector<int32_t>> of_part;
    TESSERA_TRY(caches_.front()->reserve(tokens.subspan(begin, std::min(n_part, tokens.size() - begin)), of_part));
    cells.insert(cells.end(), of_part[0].begin(), of_part[0].end());
  }
  for (int64_t layer = 0; layer < std::ssize(kv().config().layers); ++layer) {
    TESSERA_ASSIGN(const KvTokenBytes token, kv().token_bytes(layer));
    const size_t k_bytes = token.k * cells.size(), v_bytes = token.v * cells.size();
    TESSERA_TRY(access.write(kv(), layer, cells, saved.first(k_bytes), saved.subspan(k_bytes, v_bytes)));
    saved = saved.subspan(k_bytes + v_bytes);
  }
  return {};
}

}  // namespace tessera
