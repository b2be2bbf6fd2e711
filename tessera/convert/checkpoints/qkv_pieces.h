// Matrices and biases that hold q, k and v, which GGUF stores apart.
#pragma once

#include "tessera/base/result.h"
#include "tessera/convert/checkpoints/tensor_rules.h"

namespace tessera::convert {

// The rows of q, k or v in a tensor of all q, then all k, then all v. Those "in pairs" are in the order of GGUF
// (rope_pairs_together). Errors: mismatch (rows that are not those of the model's heads).
Result<TensorPieces> q_of_qkv(const StoredTensor& tensor, const RuleFacts& facts);
Result<TensorPieces> k_of_qkv(const StoredTensor& tensor, const RuleFacts& facts);
Result<TensorPieces> v_of_qkv(const StoredTensor& tensor, const RuleFacts& facts);
Result<TensorPieces> q_of_qkv_in_pairs(const StoredTensor& tensor, const RuleFacts& facts);
Result<TensorPieces> k_of_qkv_in_pairs(const StoredTensor& tensor, const RuleFacts& facts);

// The same for a tensor of groups: the q of all heads that read a KV head, its k, its v, and then the next group.
Result<TensorPieces> q_of_groups_in_pairs(const StoredTensor& tensor, const RuleFacts& facts);
Result<TensorPieces> k_of_groups_in_pairs(const StoredTensor& tensor, const RuleFacts& facts);
Result<TensorPieces> v_of_groups(const StoredTensor& tensor, const RuleFacts& facts);

// All rows of a tensor of q, k and v of the first head, then those of the next one: all q, all k, all v.
Result<TensorPieces> qkv_of_each_head(const StoredTensor& tensor, const RuleFacts& facts);

}  // namespace tessera::convert
