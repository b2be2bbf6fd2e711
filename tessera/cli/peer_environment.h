// The environment variables of llama-server, so that a service which sets them runs tessera unchanged.
#pragma once

#include "tessera/cli/args.h"

namespace tessera::cli {

/// Adds LLAMA_ARG_CTX_SIZE for --ctx-size, and so on for all flags of a table. LLAMA_ARG_NO_UI and LLAMA_ARG_UI=0 both
/// mean --no-ui. The variables of our own names, TESSERA_..., take precedence.
void add_peer_environment(FlagTable& table);

}  // namespace tessera::cli
