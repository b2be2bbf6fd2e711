// One step of a chain. A sampler consists of a row of samplers.def and a source file, which defines its class and
// make_<enumerator>(). The chain calls samplers, after it has validated the parameters. Generation by diffusion
// (engine/diffusion_choice.h) calls some of them without a chain.
#pragma once

#include <memory>

#include "tessera/base/index.h"
#include "tessera/sample/candidates.h"
#include "tessera/sample/history.h"
#include "tessera/sample/params.h"
#include "tessera/sample/seeded_rng.h"
#include "tessera/sample/vocab_view.h"

namespace tessera::sample {

class Sampler {
 public:
  virtual ~Sampler() = default;

  /// Changes logits, removes candidates or, as the last sampler of a chain, selects one. `history` contains the tokens
  /// so far. Handles any logits, and an empty set of candidates.
  virtual void apply(Candidates& candidates, const History& history, SeededRng& rng) = 0;

  /// Records that `token` joins the text. `history` contains the tokens before it.
  virtual void accept(int32_t token, const History& history) = 0;

  /// Returns to the state at creation.
  virtual void reset() = 0;

  virtual std::unique_ptr<Sampler> clone() const = 0;
};

/// A sampler whose clone() is a copy: class TopK : public CopyableSampler<TopK>. By default it keeps no state across
/// tokens.
template <class Derived>
class CopyableSampler : public Sampler {
 public:
  void accept(int32_t, const History&) override {}
  void reset() override {}
  std::unique_ptr<Sampler> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
};

/// The inputs of a sampler's constructor, which copies the needed parts.
struct SamplerContext {
  const SamplerParams& params;
  std::shared_ptr<const VocabView> vocab;
  size_t n_ctx;  // maximum length of a history in tokens

  /// Number of tokens that a "last n" parameter covers; -1 means the whole context.
  size_t window(int32_t last_n) const { return last_n < 0 ? n_ctx : std::min(to_size(last_n), n_ctx); }
  size_t min_keep() const { return to_size(params.min_keep); }
};

/// make_top_k(context) and so on, one per row. Returns the sampler, or null if the parameters turn it off.
#define TESSERA_SAMPLER(enumerator, name, letter, description) \
  std::unique_ptr<Sampler> make_##enumerator(const SamplerContext& context);
#include "tessera/sample/samplers.def"

}  // namespace tessera::sample
