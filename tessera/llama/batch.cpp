// llama.h: batches that the library allocates.
#include <cstdlib>

#include "tessera/base/checked.h"
#include "tessera/llama/boundary.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

constexpr int32_t kMaxBatchTokens = 1 << 24;
constexpr int64_t kMaxBatchIds = 1 << 28;  // of sequences

// Zeroed memory for an array of a batch. Programs read the arrays as plain memory.
template <class T>
Result<T*> allocate_array(size_t n) {
  auto* const array = static_cast<T*>(std::calloc(n, sizeof(T)));
  if (array == nullptr) return fail(ErrorCode::out_of_memory, "an array of {} items", n);
  return array;
}

Result<> allocate_batch(llama_batch& batch, int32_t n_tokens, int32_t embd, int32_t n_seq_max) {
  if (n_tokens < 1 || n_tokens > kMaxBatchTokens || embd < 0 || n_seq_max < 1 || n_seq_max > kMaxBatchIds / n_tokens)
    return fail(ErrorCode::invalid_argument, "a batch of {} tokens, {} values each, {} sequences", n_tokens, embd,
                n_seq_max);
  const auto n = static_cast<size_t>(n_tokens);
  const auto n_values = checked_mul(n, static_cast<size_t>(embd));
  if (!n_values) return fail(ErrorCode::limit, "embd: {} values per token", embd);
  if (embd > 0) {
    TESSERA_ASSIGN(batch.embd, allocate_array<float>(*n_values));
  } else {
    TESSERA_ASSIGN(batch.token, allocate_array<llama_token>(n));
  }
  TESSERA_ASSIGN(batch.pos, allocate_array<llama_pos>(n));
  TESSERA_ASSIGN(batch.n_seq_id, allocate_array<int32_t>(n));
  TESSERA_ASSIGN(batch.seq_id, allocate_array<llama_seq_id*>(n + 1));  // null after the last: see llama_batch_free
  for (size_t i = 0; i < n; ++i) {
    TESSERA_ASSIGN(batch.seq_id[i], allocate_array<llama_seq_id>(static_cast<size_t>(n_seq_max)));
  }
  TESSERA_ASSIGN(batch.logits, allocate_array<int8_t>(n));
  return {};
}

}  // namespace

llama_batch tessera_llama_batch_get_one(llama_token* tokens, int32_t n_tokens) {
  llama_batch batch{};
  batch.n_tokens = n_tokens;
  batch.token = tokens;
  return batch;
}

llama_batch tessera_llama_batch_init(int32_t n_tokens, int32_t embd, int32_t n_seq_max) {
  llama_batch batch{};
  const bool is_done = guarded("llama_batch_init", false, [&]() -> Result<bool> {
    TESSERA_TRY(allocate_batch(batch, n_tokens, embd, n_seq_max));
    return true;
  });
  if (is_done) return batch;
  tessera_llama_batch_free(batch);
  return {};
}

void tessera_llama_batch_free(llama_batch batch) {
  for (llama_seq_id** ids = batch.seq_id; ids != nullptr && *ids != nullptr; ++ids) std::free(*ids);
  std::free(batch.token);
  std::free(batch.embd);
  std::free(batch.pos);
  std::free(batch.n_seq_id);
  std::free(static_cast<void*>(batch.seq_id));
  std::free(batch.logits);
}
