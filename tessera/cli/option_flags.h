// Messages of the library name its options; on the command line they name flags.
#pragma once

#include <string>
#include <string_view>

namespace tessera::cli {

/// The message with each "option n_ctx" of it as the flag, "-c". Names without a flag stay.
std::string with_flag_names(std::string_view message);

}  // namespace tessera::cli
