// The encoder of a session: prompts are computed whole, each by itself, and the decoder's layers attend to what a cache
// of their own holds of them.
#include "tessera/engine/session.h"

namespace tessera {

Result<Graph> Session::encode_graph(const StepShape& shape, Encoder& encoder) const {
  GraphBuilder b;
  encoder.in = nn::add_batch_inputs(b, *encoder_cache_, shape.n_tokens, shape.n_outputs);
  encoder.adapters = adapters_.add_to(b, shape.adapters, encoder.in);
  model_->build_encoder(b, encoder.in, *encoder_cache_);
  return std::move(b).finish();
}

Result<> Session::encode(int32_t sequence, std::span<const int32_t> tokens, const CancelToken* cancel) {
  if (!has_encoder())
    return fail(ErrorCode::unsupported, "{}: no encoder beside the decoder", model_->info().architecture);
  TESSERA_TRY(encoder_cache_->remove(sequence, 0, static_cast<int32_t>(options_.n_ctx)));
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  if (n_tokens == 0) return fail(ErrorCode::invalid_argument, "the prompt has no tokens");
  const Batch prompt = Batch::prompt(tokens, 0, sequence);
  TESSERA_TRY(want_tokens(prompt.tokens()));
  if (n_tokens > options_.n_ubatch)
    return fail(ErrorCode::invalid_argument,
                "a prompt of {} tokens, micro-batch of {} (-ub): an encoder computes a prompt at once", n_tokens,
                options_.n_ubatch);
  if (auto done = run_encoder(prompt.tokens(), cancel); !done) {
    TESSERA_TRY(encoder_cache_->rollback());
    return done;
  }
  return encoder_cache_->commit();
}

Result<> Session::run_encoder(std::span<const BatchToken> tokens, const CancelToken* cancel) {
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  // With all adapters or none: what a sequence does not get is multiplied by 0, and leaves its bits.
  const StepShape shape{n_tokens, n_tokens, adapters_.used_by(tokens) == 0 ? 0 : adapters_.all()};
  if (encoder_.graph == nullptr || encoder_.shape != shape) {
    encoder_.graph = nullptr;
    TESSERA_ASSIGN(Graph graph, encode_graph(shape, encoder_));
    TESSERA_ASSIGN(encoder_.graph, executor_->prepare(std::move(graph)));
    encoder_.shape = shape;
  }
  TESSERA_TRY(set_tokens(*encoder_.graph, encoder_.in, encoder_.adapters, tokens));
  TESSERA_TRY(encoder_cache_->reserve(tokens, cells_));
  TESSERA_TRY(set_cells(*encoder_.graph, encoder_.in));
  return run_step(*encoder_.graph, n_tokens, 0, cancel);
}

// The blocks are shared: prompts are never added to.
Result<> Session::copy_prompt(int32_t from, int32_t to) {
  if (from == to) return {};
  const auto end = static_cast<int32_t>(options_.n_ctx);
  TESSERA_TRY(encoder_cache_->remove(to, 0, end));
  TESSERA_TRY(encoder_cache_->copy(from, to, 0, end));
  return {};
}

Result<> Session::want_prompts(std::span<const BatchToken> tokens) const {
  for (size_t i = 0; has_encoder() && i < tokens.size(); ++i)
    if (!encoder_cache_->min_position(tokens[i].sequence))
      return fail(ErrorCode::invalid_argument, "{}: sequence {} has no prompt that the encoder has read",
                  model_->info().architecture, tokens[i].sequence);
  return {};
}

}  // namespace tessera
