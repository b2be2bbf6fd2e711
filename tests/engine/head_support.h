// Texts and guesses of models with a prediction head or a draft model that takes hidden states.
#pragma once

#include <string>
#include <vector>

#include "tessera/engine/generate.h"
#include "tessera/engine/loaded_model.h"
#include "tests/support/engine_support.h"

namespace tessera::testing {

struct HeadText {
  std::vector<int32_t> tokens{};
  SpeculationCounts counts{};
};

inline Result<HeadText> write_text(Session& session, const std::shared_ptr<Engine>& engine,
                                   const sample::SamplerParams& params, GenerateOptions options,
                                   std::span<const int32_t> prompt, Speculator* speculator) {
  TESSERA_TRY(session.clear());
  TESSERA_ASSIGN(const auto chain, sample::Chain::create(params, sampling_vocab(engine), 128));
  options.speculator = speculator;
  Generator generator(session, *chain, 0, options);
  TESSERA_TRY(generator.start(prompt, nullptr));
  HeadText text;
  while (true) {
    TESSERA_ASSIGN(const int32_t token, generator.next(nullptr));
    if (token < 0) break;
    text.tokens.push_back(token);
  }
  if (speculator != nullptr) text.counts = speculator->counts();
  TESSERA_TRY(generator.remove_guesses());
  return text;
}

/// The guesses after `text`, whose last token is at `position`.
inline Result<std::vector<int32_t>> guesses_after(Drafter& drafter, int64_t n, int64_t position) {
  std::vector<int32_t> guesses;
  TESSERA_TRY(drafter.draft(
      {.n_most = n, .position = static_cast<int32_t>(position)},
      [&](const DraftToken& guess) {
        guesses.push_back(guess.token);
        return true;
      },
      nullptr));
  return guesses;
}

/// The guesses of a head that has read the text at once.
inline Result<std::vector<int32_t>> fresh_guesses(const LoadedModel& model, std::span<const int32_t> text, int64_t n) {
  TESSERA_TRY(model.session->remove(0, 0, 1000));
  HeadDrafter drafter(*model.head, 0);
  drafter.begin(text);
  TESSERA_TRY(model.session->decode(Batch::prompt(text.first(text.size() - 1), 0, 0)));
  return guesses_after(drafter, n, std::ssize(text) - 1);
}

}  // namespace tessera::testing
