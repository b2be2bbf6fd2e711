// One step of a chain. A sampler is a row of samplers.def and the file of its name, which defines its class
// and make_<enumerator>(); only the chain calls them. Params are validated before a sampler sees them.
#pragma once

#include <memory>

#include "tessera/base/rng.h"
#include "tessera/sample/candidates.h"
#include "tessera/sample/history.h"
#include "tessera/sample/params.h"
#include "tessera/sample/vocab_view.h"

namespace tessera::sample {

class Sampler {
 public:
  virtual ~Sampler() = default;

  /// Changes logits, removes candidates, or (the last of a chain) selects one. `history` is the tokens so
  /// far. Copes with any logits and with no candidate left.
  virtual void apply(Candidates& candidates, const History& history, Rng& rng) = 0;

  /// `token` joins the text; `history` is the tokens before it.
  virtual void accept(int32_t token, const History& history) = 0;

  /// Back to the state at creation.
  virtual void reset() = 0;

  virtual std::unique_ptr<Sampler> clone() const = 0;
};

/// A sampler whose clone is its copy: class TopK : public CopyableSampler<TopK>. Most keep no state over
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

/// What a sampler is made from; it copies what it needs.
struct SamplerContext {
  const SamplerParams& params;
  std::shared_ptr<const VocabView> vocab;
  size_t n_ctx;  // the most tokens that a history holds

  /// The tokens that a "last n" parameter looks back on: -1 is the whole context.
  size_t window(int32_t last_n) const { return last_n < 0 ? n_ctx : std::min(static_cast<size_t>(last_n), n_ctx); }
  size_t min_keep() const { return static_cast<size_t>(params.min_keep); }
};

/// make_top_k(context) and so on, one per row: the sampler, or null where the parameters turn it off.
#define TESSERA_SAMPLER(enumerator, name, letter, description) \
  std::unique_ptr<Sampler> make_##enumerator(const SamplerContext& context);
#include "tessera/sample/samplers.def"

}  // namespace tessera::sample
