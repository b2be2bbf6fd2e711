// Adds what a session observes (SessionOptions::observer) to an importance matrix. Used by `tessera imatrix`.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tessera/convert/imatrix.h"

namespace tessera::eval {

class ImatrixCollector {
 public:
  enum class Output : uint8_t { skip, collect };

  /// Collects the weights of blocks ("blk."), and output.weight if wanted; the imatrix outlives this.
  ImatrixCollector(convert::Imatrix& imatrix, Output output) : imatrix_(imatrix), output_(output) {}

  /// Adds the sums of n_tokens inputs of a weight.
  void observe(std::string_view weight, std::span<const float> sums, int64_t n_tokens);

  /// The first error of observe(): format (a sum that is not finite: none of that call's is added), mismatch (the
  /// imatrix has another number of columns).
  Result<> status() const;

 private:
  convert::Imatrix& imatrix_;
  Output output_;
  std::optional<Error> error_;
};

}  // namespace tessera::eval
