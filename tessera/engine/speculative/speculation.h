// The options of speculation, and the speculator that they describe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/engine/session_options.h"
#include "tessera/engine/speculative/speculator.h"
#include "tessera/engine/speculative/text_index.h"

namespace tessera {

class PredictionHead;
class Session;

enum class DraftKind : uint8_t {
  ngram,   // copies what followed the last tokens when they occurred before
  suffix,  // copies what followed the longest such match, also in earlier texts
  model,   // asks a draft model
  head,    // asks the model's own prediction head
};

/// "ngram", "suffix", "draft" or "mtp".
std::string_view name_of(DraftKind kind);
std::optional<DraftKind> draft_kind_from_name(std::string_view name);
/// "suffix,mtp"
std::string names_of(std::span<const DraftKind> kinds);

struct SpeculationOptions {
  /// The bound of n_most: a session can remove that many tokens again.
  static constexpr int64_t kMostGuesses = 63;

  std::vector<DraftKind> kinds{};            // empty: no speculation
  int64_t n_most = 15;                       // guesses that a step verifies, over all sequences of a session
  bool adapts = true;                        // see Speculator
  std::shared_ptr<const Engine> follower{};  // the draft model, if it takes hidden states (FollowerInfo); else null

  bool is_on() const { return !kinds.empty(); }
  bool uses(DraftKind kind) const;
  /// Extends the options of a session for guesses: more rows of logits, checkpoints of recurrent states, and the hidden
  /// states that a prediction head takes.
  void extend(SessionOptions& session) const;
};

/// The models that guess for one speculator. A sequence of the draft model's session serves one speculator; in a head
/// it is the sequence of the text.
struct DraftPlace {
  Session* session = nullptr;      // of the draft model; null: there is none
  PredictionHead* head = nullptr;  // or the draft model that takes hidden states; null: there is none
  int32_t sequence = 0;
};

/// A speculator for one text at a time of a model with n_vocab tokens. others: texts from which "suffix" copies too, or
/// null. They, the draft's session and the head must outlive the result. Returns null without kinds. Errors:
/// invalid_argument (the kind "draft" without a session or such a draft model, or "mtp" without a head).
Result<std::unique_ptr<Speculator>> create_speculator(const SpeculationOptions& options, int64_t n_vocab,
                                                      DraftPlace draft, const TextIndex* others = nullptr);

}  // namespace tessera
