#include "tessera/cli/two_paths.h"

namespace tessera::cli {

void TwoPaths::add_to(FlagTable& table, std::string_view in_name, std::string_view out_name) {
  wanted_ = std::string(in_name).append(" ").append(out_name);
  table.positional = wanted_;
  table.add_positional = [this](std::string_view text) -> Result<> {
    if (text.empty()) return fail(ErrorCode::invalid_argument, "an empty path: want {}", wanted_);
    if (!out.empty()) return fail(ErrorCode::invalid_argument, "unexpected argument '{}': want {}", text, wanted_);
    (in.empty() ? in : out) = text;
    return {};
  };
}

Result<> TwoPaths::check() const {
  if (out.empty())
    return fail(ErrorCode::invalid_argument, "{}: want {}", in.empty() ? "no paths" : "no second path", wanted_);
  return {};
}

}  // namespace tessera::cli
