// Output of `tessera perplexity --kl-divergence`: the tables that llama.cpp prints, or JSON.
#pragma once

#include <string>

#include "tessera/eval/kl_divergence.h"

namespace tessera::cli {

std::string format_kl_statistics(const eval::KlStatistics& statistics);

/// Returns the members of a JSON object, without its braces.
std::string kl_statistics_json(const eval::KlStatistics& statistics);

}  // namespace tessera::cli
