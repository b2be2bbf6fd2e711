// What `tessera perplexity --kl-divergence` prints: the tables that GGUF users know, or JSON.
#pragma once

#include <string>

#include "tessera/eval/kl_divergence.h"

namespace tessera::cli {

std::string format_kl_statistics(const eval::KlStatistics& statistics);

/// The members of a JSON object, without its braces.
std::string kl_statistics_json(const eval::KlStatistics& statistics);

}  // namespace tessera::cli
