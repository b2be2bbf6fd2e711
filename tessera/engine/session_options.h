// The options of a session.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/engine/adapter.h"
#include "tessera/engine/inspect.h"

namespace tessera {

/// Observes the inputs of the products with the model's weights: for each column of a weight, the sum of squares over
/// the n_tokens inputs of one micro-batch.
using ProductObserver = std::function<void(std::string_view weight, std::span<const float> sums, int64_t n_tokens)>;

inline constexpr int64_t kMaxUbatch = 1 << 16;

/// The part of a model that a session runs.
enum class SessionPart : uint8_t {
  model,
  model_with_hidden,  // a model whose hidden states a head or draft model takes: see Session::follow_hidden()
  head,               // the prediction head, or a draft model that takes hidden states: see Session::decode_after()
};

/// Precision of the products of attention on the CPU.
enum class AttentionPrecision : uint8_t {
  automatic,  // see attention_precision()
  float32,
  int16,  // queries and K as 16-bit integers, softmax weights and V rounded to bf16
};

struct SessionOptions {
  int64_t n_ctx = 0;        // tokens over all sequences; 0: the context that the model was trained with
  int64_t n_ubatch = 512;   // maximum number of tokens of a micro-batch, up to kMaxUbatch
  int32_t n_sequences = 1;  // sequence ids are 0 to n_sequences - 1
  int64_t n_outputs = 1;    // maximum number of rows of logits or embeddings per decode()
  bool embeddings = false;  // rows are embeddings instead of logits
  SessionPart part = SessionPart::model;
  size_t head_block = 0;                     // of SessionPart::head: see Model::head()
  std::shared_ptr<const Engine> follower{};  // of model_with_hidden: the draft model that takes the hidden states;
                                             // null: the model's own head
  int32_t n_checkpoints = 0;                 // of recurrent states: see Session::checkpoint()
  int64_t n_cache_tokens = 0;                // room for retained blocks, beyond that of n_ctx: see PrefixCache
  int32_t n_cache_marks = 0;                 // room for retained marks, of models that need_marks()
  DType type_k = DType::f16;                 // of the KV cache
  DType type_v = DType::f16;
  ActivationPrecision activations = ActivationPrecision::automatic;
  AttentionPrecision attention = AttentionPrecision::automatic;
  ThreadPoolOptions threads{};
  std::vector<SessionAdapter> adapters{};  // scales apply to all sequences; see Session::set_adapters()
  ProductObserver observer{};  // called after each micro-batch, on the thread that called decode(); empty: none
  ValueWatch watch{};          // values to observe while steps run
};

}  // namespace tessera
