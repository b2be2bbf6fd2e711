#include "tessera/convert/checkpoints/qkv_pieces.h"

#include <algorithm>
#include <utility>

#include "tessera/convert/source/views.h"

namespace tessera::convert {

namespace {

enum class Third : uint8_t { q, k, v };

/// The order of the rows of each head.
enum class Order : uint8_t { as_stored, in_pairs };

// The rows of a head. Errors: mismatch.
Result<int64_t> rows_of_head(const StoredTensor& tensor, const HeadCounts& heads) {
  const int64_t n_rows = tensor.shape.empty() ? 0 : tensor.shape[0], n_all = heads.q + 2 * heads.kv;
  if (heads.q < 1 || heads.kv < 1 || heads.q % heads.kv != 0 || n_rows < n_all || n_rows % n_all != 0)
    return fail(ErrorCode::mismatch, "{}: {} rows, want q, k and v of {} heads and {} KV heads", tensor.name, n_rows,
                heads.q, heads.kv);
  return n_rows / n_all;
}

Result<StoredTensor> third_of(const StoredTensor& tensor, const HeadCounts& heads, Third third, Order order) {
  TESSERA_ASSIGN(const int64_t size, rows_of_head(tensor, heads));
  const int64_t n = third == Third::q ? heads.q : heads.kv;
  const int64_t first = third == Third::q ? 0 : third == Third::k ? heads.q : heads.q + heads.kv;
  TESSERA_ASSIGN(StoredTensor rows, part_of(tensor, 0, first * size, n * size));
  if (order == Order::as_stored) return rows;
  TESSERA_ASSIGN(StoredTensor pairs, rope_pairs_together(rows, n));
  return pairs;
}

// A tensor is n_groups times q, k and v of some heads.
Result<TensorPieces> third_of_groups(const StoredTensor& tensor, const HeadCounts& heads, int64_t n_groups, Third third,
                                     Order order) {
  TESSERA_ASSIGN(const int64_t size, rows_of_head(tensor, heads));
  const HeadCounts group{.q = heads.q / n_groups, .kv = heads.kv / n_groups};
  const int64_t n_group = (group.q + 2 * group.kv) * size;
  TensorPieces pieces{.shape = tensor.shape};
  pieces.shape[0] = (third == Third::q ? heads.q : heads.kv) * size;
  for (int64_t i = 0; i < n_groups; ++i) {
    TESSERA_ASSIGN(const StoredTensor rows, part_of(tensor, 0, i * n_group, n_group));
    TESSERA_ASSIGN(StoredTensor part, third_of(rows, group, third, order));
    pieces.views.push_back(std::move(part));
  }
  return pieces;
}

Result<TensorPieces> third_of_all(const StoredTensor& tensor, const HeadCounts& heads, Third third, Order order) {
  return third_of_groups(tensor, heads, 1, third, order);
}

// A group has one KV head.
Result<TensorPieces> third_of_each(const StoredTensor& tensor, const HeadCounts& heads, Third third, Order order) {
  return third_of_groups(tensor, heads, std::max<int64_t>(heads.kv, 1), third, order);
}

}  // namespace

Result<TensorPieces> q_of_qkv(const StoredTensor& tensor, const RuleFacts& facts) {
  return third_of_all(tensor, facts.heads, Third::q, Order::as_stored);
}
Result<TensorPieces> k_of_qkv(const StoredTensor& tensor, const RuleFacts& facts) {
  return third_of_all(tensor, facts.heads, Third::k, Order::as_stored);
}
Result<TensorPieces> v_of_qkv(const StoredTensor& tensor, const RuleFacts& facts) {
  return third_of_all(tensor, facts.heads, Third::v, Order::as_stored);
}
Result<TensorPieces> q_of_qkv_in_pairs(const StoredTensor& tensor, const RuleFacts& facts) {
  return third_of_all(tensor, facts.heads, Third::q, Order::in_pairs);
}
Result<TensorPieces> k_of_qkv_in_pairs(const StoredTensor& tensor, const RuleFacts& facts) {
  return third_of_all(tensor, facts.heads, Third::k, Order::in_pairs);
}

Result<TensorPieces> q_of_groups_in_pairs(const StoredTensor& tensor, const RuleFacts& facts) {
  return third_of_each(tensor, facts.heads, Third::q, Order::in_pairs);
}
Result<TensorPieces> k_of_groups_in_pairs(const StoredTensor& tensor, const RuleFacts& facts) {
  return third_of_each(tensor, facts.heads, Third::k, Order::in_pairs);
}
Result<TensorPieces> v_of_groups(const StoredTensor& tensor, const RuleFacts& facts) {
  return third_of_each(tensor, facts.heads, Third::v, Order::as_stored);
}

Result<TensorPieces> qkv_of_each_head(const StoredTensor& tensor, const RuleFacts& facts) {
  const int64_t n_rows = tensor.shape.empty() ? 0 : tensor.shape[0], n_heads = facts.heads.q;
  if (n_heads <= 0 || n_rows % (3 * n_heads) != 0)
    return fail(ErrorCode::mismatch, "{}: {} rows, want q, k and v of {} heads", tensor.name, n_rows, n_heads);
  std::vector<int64_t> shape = {n_heads, 3, n_rows / 3 / n_heads};
  std::vector<size_t> order = {1, 0, 2};
  for (size_t i = 1; i < tensor.shape.size(); ++i) {
    shape.push_back(tensor.shape[i]);
    order.push_back(i + 2);
  }
  TESSERA_ASSIGN(const StoredTensor apart, reshaped(tensor, std::move(shape)));
  TESSERA_ASSIGN(StoredTensor view, with_order(apart, order));
  return TensorPieces{{std::move(view)}, tensor.shape};
}

}  // namespace tessera::convert
