// A drafter guesses how a text goes on. The model verifies all guesses in one step, so a right guess saves a step and a
// wrong one changes nothing but the time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/base/cancel.h"
#include "tessera/base/function_ref.h"
#include "tessera/base/result.h"

namespace tessera {

/// Classes of guesses by how sure the drafter is: 0 to kConfidences - 1. The share of right guesses is measured for
/// each class.
inline constexpr int32_t kConfidences = 12;

struct DraftToken {
  int32_t token = 0;
  int32_t confidence = 0;
};

struct DraftRequest {
  int64_t n_most = 0;    // guesses, at least 1
  int32_t position = 0;  // of the last token of the text, in the sequence of the model that computes it
};

class Drafter {
 public:
  virtual ~Drafter() = default;

  /// The name as --spec-type has it.
  virtual std::string_view name() const = 0;
  /// The expected share of right guesses of a class before any is measured.
  virtual double prior(int32_t confidence) const = 0;
  /// Whether a guess is computed by a model.
  virtual bool takes_time() const { return false; }
  /// The measured time of a guess. 0: too short to count, or not measured yet.
  virtual double ms_per_token() const { return 0; }

  /// A new text begins.
  virtual void begin(std::span<const int32_t> text) = 0;
  /// The text has one more token.
  virtual void append(int32_t token) = 0;
  /// Guesses up to n_most tokens of the model's vocabulary after the text, one after another. Calls add() with each,
  /// which returns whether one more is wanted. Errors: those of the drafter's model; cancelled.
  virtual Result<> draft(const DraftRequest& request, FunctionRef<bool(const DraftToken&)> add,
                         const CancelToken* cancel) = 0;
};

}  // namespace tessera
