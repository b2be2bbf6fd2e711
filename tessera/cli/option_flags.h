// Translates messages: the library names its options, the command line names flags.
#pragma once

#include <string>
#include <string_view>

namespace tessera::cli {

/// Replaces each "option n_ctx" of a message with the flag, "-c". Options without a flag stay.
std::string with_flag_names(std::string_view message);

}  // namespace tessera::cli
