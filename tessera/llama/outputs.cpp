// llama.h: the results of a batch.
#include <algorithm>
#include <utility>

#include "tessera/llama/context.h"

namespace tessera::llama {

void Outputs::begin(size_t n_tokens, size_t n_rows, size_t width) {
  width_ = width;
  rows_.clear();
  rows_.reserve(n_rows * width);
  row_of_token_.assign(n_tokens, -1);
  pooled_.clear();
}

void Outputs::add(size_t token, std::span<const float> row) {
  row_of_token_[token] = static_cast<int64_t>(n_rows());
  rows_.insert(rows_.end(), row.begin(), row.end());
}

Result<float*> Outputs::row(int32_t i) {
  const auto n = static_cast<int64_t>(n_rows());
  if (i >= 0 && std::cmp_greater_equal(i, row_of_token_.size()))
    return fail(ErrorCode::invalid_argument, "token {}, the last batch had {}", i, row_of_token_.size());
  const int64_t at = i < 0 ? n + i : row_of_token_[static_cast<size_t>(i)];
  if (at < 0) return fail(ErrorCode::invalid_argument, "token {} has no output, there are {} outputs", i, n);
  return rows_.data() + static_cast<size_t>(at) * width_;
}

float* Outputs::pooled(int32_t sequence) {
  const auto found = pooled_.find(sequence);
  return found == pooled_.end() ? nullptr : found->second.data();
}

}  // namespace tessera::llama

using namespace tessera;
using namespace tessera::llama;

namespace {

Result<> require_rows(const llama_context& context, bool embeddings) {
  if (context.options.embeddings == embeddings) return {};
  return fail(ErrorCode::invalid_argument, "the context computes {} (see llama_set_embeddings)",
              context.options.embeddings ? "embeddings" : "logits");
}

float* all_rows(const char* function, llama_context* ctx, bool embeddings) {
  return of_context<float*>(function, ctx, nullptr, [&](llama_context& of) -> Result<float*> {
    TESSERA_TRY(require_rows(of, embeddings));
    return of.outputs.rows();
  });
}

float* one_row(const char* function, llama_context* ctx, int32_t i, bool embeddings) {
  return of_context<float*>(function, ctx, nullptr, [&](llama_context& of) -> Result<float*> {
    TESSERA_TRY(require_rows(of, embeddings));
    return of.outputs.row(i);
  });
}

}  // namespace

float* tessera_llama_get_logits(llama_context* ctx) { return all_rows("llama_get_logits", ctx, false); }
float* tessera_llama_get_logits_ith(llama_context* ctx, int32_t i) {
  return one_row("llama_get_logits_ith", ctx, i, false);
}
float* tessera_llama_get_embeddings(llama_context* ctx) { return all_rows("llama_get_embeddings", ctx, true); }
float* tessera_llama_get_embeddings_ith(llama_context* ctx, int32_t i) {
  return one_row("llama_get_embeddings_ith", ctx, i, true);
}
float* tessera_llama_get_embeddings_seq(llama_context* ctx, llama_seq_id seq_id) {
  return of_context<float*>("llama_get_embeddings_seq", ctx, nullptr,
                            [&](llama_context& of) { return of.outputs.pooled(seq_id); });
}

// Samplers never run within a graph, so there is nothing of theirs to return.
llama_token tessera_llama_get_sampled_token_ith(llama_context* ctx, int32_t /*i*/) {
  return of_context<int32_t>("llama_get_sampled_token_ith", ctx, -1, [](const auto&) { return -1; });
}
float* tessera_llama_get_sampled_probs_ith(llama_context* ctx, int32_t /*i*/) {
  return of_context<float*>("llama_get_sampled_probs_ith", ctx, nullptr, [](const auto&) { return nullptr; });
}
uint32_t tessera_llama_get_sampled_probs_count_ith(llama_context* ctx, int32_t /*i*/) {
  return of_context<uint32_t>("llama_get_sampled_probs_count_ith", ctx, 0, [](const auto&) { return 0; });
}
float* tessera_llama_get_sampled_logits_ith(llama_context* ctx, int32_t /*i*/) {
  return of_context<float*>("llama_get_sampled_logits_ith", ctx, nullptr, [](const auto&) { return nullptr; });
}
uint32_t tessera_llama_get_sampled_logits_count_ith(llama_context* ctx, int32_t /*i*/) {
  return of_context<uint32_t>("llama_get_sampled_logits_count_ith", ctx, 0, [](const auto&) { return 0; });
}
llama_token* tessera_llama_get_sampled_candidates_ith(llama_context* ctx, int32_t /*i*/) {
  return of_context<llama_token*>("llama_get_sampled_candidates_ith", ctx, nullptr,
                                  [](const auto&) { return nullptr; });
}
uint32_t tessera_llama_get_sampled_candidates_count_ith(llama_context* ctx, int32_t /*i*/) {
  return of_context<uint32_t>("llama_get_sampled_candidates_count_ith", ctx, 0, [](const auto&) { return 0; });
}
