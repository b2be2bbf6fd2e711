#include "tessera/convert/checkpoints/qkv_pieces.h"

#include <utility>

#include "tessera/convert/source/views.h"

namespace tessera::convert {

namespace {

enum class Third : uint8_t { q, k, v };

// The rows of a head. Errors: mismatch.
Result<int64_t> rows_of_head(const StoredTensor& tensor, const HeadCounts& heads) {
  const int64_t n_rows = tensor.shape.empty() ? 0 : tensor.shape[0], n_all = heads.q + 2 * heads.kv;
  if (heads.q < 1 || heads.kv < 1 || heads.q % heads.kv != 0 || n_rows < n_all || n_rows % n_all != 0)
    return fail(ErrorCode::mismatch, "{}: {} rows, want q, k and v of {} heads and {} KV heads", tensor.name, n_rows,
                heads.q, heads.kv);
  return n_rows / n_all;
}

Result<StoredTensor> third_of(const StoredTensor& tensor, const HeadCounts& heads, Third third) {
  TESSERA_ASSIGN(const int64_t size, rows_of_head(tensor, heads));
  const int64_t n = third == Third::q ? heads.q : heads.kv;
  const int64_t first = third == Third::q ? 0 : third == Third::k ? heads.q : heads.q + heads.kv;
  return part_of(tensor, 0, first * size, n * size);
}

Result<TensorPieces> third_in_pairs(const StoredTensor& tensor, const HeadCounts& heads, Third third) {
  TESSERA_ASSIGN(const StoredTensor rows, third_of(tensor, heads, third));
  TESSERA_ASSIGN(StoredTensor pairs, rope_pairs_together(rows, third == Third::q ? heads.q : heads.kv));
  return TensorPieces{{std::move(pairs)}, rows.shape};
}

Result<TensorPieces> third_of_groups(const StoredTensor& tensor, const HeadCounts& heads, Third third) {
  TESSERA_ASSIGN(const int64_t size, rows_of_head(tensor, heads));
  const HeadCounts group{.q = heads.q / heads.kv, .kv = 1};
  const int64_t n_group = (group.q + 2) * size;
  TensorPieces pieces{.shape = tensor.shape};
  pieces.shape[0] = (third == Third::q ? heads.q : heads.kv) * size;
  for (int64_t i = 0; i < heads.kv; ++i) {
    TESSERA_ASSIGN(const StoredTensor rows, part_of(tensor, 0, i * n_group, n_group));
    TESSERA_ASSIGN(StoredTensor part, third_of(rows, group, third));
    if (third != Third::v) {
      TESSERA_ASSIGN(part, rope_pairs_together(part, third == Third::q ? group.q : 1));
    }
    pieces.views.push_back(std::move(part));
  }
  return pieces;
}

Result<TensorPieces> whole_third(const StoredTensor& tensor, const HeadCounts& heads, Third third) {
  TESSERA_ASSIGN(StoredTensor view, third_of(tensor, heads, third));
  return one_view(std::move(view));
}

}  // namespace

TensorPieces one_view(StoredTensor view) {
  TensorPieces pieces{.shape = view.shape};
  pieces.views.push_back(std::move(view));
  return pieces;
}

Result<TensorPieces> q_of_qkv(const StoredTensor& tensor, const RuleFacts& facts) {
  return whole_third(tensor, facts.heads, Third::q);
}
Result<TensorPieces> k_of_qkv(const StoredTensor& tensor, const RuleFacts& facts) {
  return whole_third(tensor, facts.heads, Third::k);
}
Result<TensorPieces> v_of_qkv(const StoredTensor& tensor, const RuleFacts& facts) {
  return whole_third(tensor, facts.heads, Third::v);
}
Result<TensorPieces> q_of_qkv_in_pairs(const StoredTensor& tensor, const RuleFacts& facts) {
  return third_in_pairs(tensor, facts.heads, Third::q);
}
Result<TensorPieces> k_of_qkv_in_pairs(const StoredTensor& tensor, const RuleFacts& facts) {
  return third_in_pairs(tensor, facts.heads, Third::k);
}

Result<TensorPieces> q_of_groups_in_pairs(const StoredTensor& tensor, const RuleFacts& facts) {
  return third_of_groups(tensor, facts.heads, Third::q);
}
Result<TensorPieces> k_of_groups_in_pairs(const StoredTensor& tensor, const RuleFacts& facts) {
  return third_of_groups(tensor, facts.heads, Third::k);
}
Result<TensorPieces> v_of_groups(const StoredTensor& tensor, const RuleFacts& facts) {
  return third_of_groups(tensor, facts.heads, Third::v);
}

}  // namespace tessera::convert
