// Flags of text generation by diffusion, with the names of llama.cpp.
#pragma once

#include <string>
#include <string_view>

#include "tessera/cli/args.h"
#include "tessera/engine/diffusion.h"

namespace tessera::cli {

struct DiffusionArgs {
  DiffusionOptions options{};
  bool is_visual = false;     // show the text after every step
  std::string first_given{};  // a flag of this group that was given; empty: none

  void add_to(FlagTable& table);
  /// Errors: invalid_argument (both schedules).
  Result<> check() const;
  /// Refuses these flags with a model that generates in another way. Errors: unsupported.
  Result<> require_absent(std::string_view architecture) const;
};

}  // namespace tessera::cli
