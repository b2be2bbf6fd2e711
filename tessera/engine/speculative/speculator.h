// Speculation: guesses the next tokens of one text, and chooses how many of the guesses a step verifies. The more often
// guesses of the same confidence were right, and the less a wider step costs, the longer the draft. A text on which
// guesses fail gets none, and its guesses are only compared with the tokens that came.
//
// The choice depends on measured times, so the division into steps may differ between two runs. The tokens do not: the
// logits of a token are the same bits in a step of any width.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tessera/engine/speculative/acceptance.h"
#include "tessera/engine/speculative/drafter.h"
#include "tessera/engine/speculative/step_times.h"

namespace tessera {

/// A recurrent state goes back to a checkpoint, and the next step repeats the tokens after it. A step that has to
/// compute more tokens than this verifies no guesses, so that the repetitions end.
inline constexpr int64_t kMostRepeated = 8;

struct SpeculationCounts {
  int64_t n_drafts = 0;    // steps that verified guesses
  int64_t n_drafted = 0;   // verified guesses
  int64_t n_accepted = 0;  // right ones among them

  void add(const SpeculationCounts& more) {
    n_drafts += more.n_drafts;
    n_drafted += more.n_drafted;
    n_accepted += more.n_accepted;
  }
};

class Speculator {
 public:
  /// Of several drafters the one counts whose guesses promise most tokens per time. There must be one. Without
  /// `adapts` the first one with guesses counts, and steps verify all of them, whatever that costs.
  explicit Speculator(std::vector<std::unique_ptr<Drafter>> drafters, bool adapts = true);

  void begin(std::span<const int32_t> text);
  /// The text has one more token, guessed or not.
  void append(int32_t token);

  /// A step that may verify guesses.
  struct Step {
    int64_t n_most = 0;                      // guesses, at most
    int32_t position = 0;                    // of the last token of the text: see DraftRequest
    FunctionRef<double(int64_t n)> ms_with;  // the time with n guesses; 0: unknown
    int64_t n_others = 0;                    // tokens that the step gives to other texts
  };
  /// The guesses that the next step should verify. Valid until the next call. Errors: those of a drafter; cancelled.
  Result<std::span<const int32_t>> draft(const Step& step, const CancelToken* cancel);

  /// Whether the last draft() had more guesses than it returned.
  bool was_shortened() const { return n_chosen_ < tokens_.size(); }
  const SpeculationCounts& counts() const { return counts_; }

  /// The times of steps in which the text is alone, as its generator measures them. They hold for later texts too.
  StepTimes& times() { return times_; }

 private:
  struct Party {
    std::unique_ptr<Drafter> drafter;
    Acceptance acceptance;
    int64_t n_idle = 0;      // tokens without a guess, of a drafter whose guesses take time
    int64_t n_patience = 0;  // tokens to wait before it is tried again
  };
  struct Choice {
    size_t n = 0;     // guesses to verify
    double gain = 1;  // tokens per time, relative to a step without guesses
  };

  Result<> ask(Party& party, const Step& step, const CancelToken* cancel);
  static Choice choose(const Party& party, std::span<const DraftToken> guesses, const Step& step);

  std::vector<Party> parties_;
  bool adapts_;
  Party* of_guesses_ = nullptr;      // the one that made guesses_
  std::vector<DraftToken> guesses_;  // not yet compared with the text, from next_ on
  std::vector<DraftToken> asked_;    // reused
  std::vector<int32_t> tokens_;      // of the guesses
  size_t next_ = 0, n_chosen_ = 0;
  SpeculationCounts counts_;
  StepTimes times_;
};

}  // namespace tessera
