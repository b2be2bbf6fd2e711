#include "tessera/cli/peer_environment.h"

#include <algorithm>
#include <utility>

namespace tessera::cli {

namespace {

// Variables whose names do not follow from the flag's.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"--parallel", "LLAMA_ARG_N_PARALLEL"},
    {"--batch-size", "LLAMA_ARG_BATCH"},
    {"--ubatch-size", "LLAMA_ARG_UBATCH"},
    {"--api-key", "LLAMA_API_KEY"},
    {"--metrics", "LLAMA_ARG_ENDPOINT_METRICS"},
    {"--props", "LLAMA_ARG_ENDPOINT_PROPS"},
    {"--no-slots", "LLAMA_ARG_ENDPOINT_SLOTS"},
    {"--no-models-autoload", "LLAMA_ARG_MODELS_AUTOLOAD"},
    {"--reasoning-budget", "LLAMA_ARG_THINK_BUDGET"},
    {"--reasoning-budget-message", "LLAMA_ARG_THINK_BUDGET_MESSAGE"},
};

constexpr std::string_view kNo = "--no-";

std::string peer_name(std::string_view flag) { return environment_name(flag, "LLAMA_ARG_"); }

}  // namespace

void add_peer_environment(FlagTable& table) {
  for (Flag& flag : table.flags) {
    std::vector<std::string> names = flag.aliases;
    names.insert(names.begin(), flag.name);
    std::erase_if(names, [](const std::string& name) { return !name.starts_with("--"); });
    for (const std::string& name : names) {
      flag.environment.push_back({.name = peer_name(name)});
      if (flag.value.empty() && name.starts_with(kNo))
        flag.environment.push_back({.name = peer_name(std::string_view(name).substr(kNo.size())), .is_inverted = true});
    }
    for (const auto& [known, variable] : kOtherNames)
      if (flag.name == known)
        flag.environment.push_back({.name = std::string(variable), .is_inverted = known.starts_with(kNo)});
  }
}

}  // namespace tessera::cli
