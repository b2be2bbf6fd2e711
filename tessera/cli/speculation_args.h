// Flags of speculation, with the names of llama.cpp.
#pragma once

#include <string>

#include "tessera/cli/args.h"
#include "tessera/engine/loaded_model.h"

namespace tessera::cli {

struct SpeculationArgs {
  SpeculationOptions options{};
  std::string draft_path{};
  bool is_given = false;  // --spec-type was

  void add_to(FlagTable& table);
  /// Copies the options to those of a model. Errors: invalid_argument (the kind "draft" without a model).
  Result<> apply(ModelOptions& model) const;
};

/// "; 12 of 20 guesses right" for a line of timings; "" without speculation.
std::string describe(const Speculator* speculator);

}  // namespace tessera::cli
