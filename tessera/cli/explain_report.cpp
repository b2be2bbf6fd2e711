#include "tessera/cli/explain_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tessera/base/counted.h"
#include "tessera/cli/console.h"

namespace tessera::cli {

namespace {

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

// The rate of an amount in 10^9 per second; "" without one.
std::string giga_rate(double amount, double us) { return amount > 0 ? fmt::format("{:.1f}", amount / us * 1e-3) : ""; }

}  // namespace

std::string describe(const observe::ExplainedPhase& phase) {
  const observe::TimeAccount& account = phase.account;
  std::vector<std::vector<std::string>> rows = {
      {"kind of work", "ms", "share", "GMAC/s", "GB/s", "bound", "of bound", "lost"}};
  for (const observe::WorkPart& part : account.parts)
    rows.push_back({part.name, fmt::format("{:.2f}", part.us * 1e-3), percent(part.us / account.us),
                    giga_rate(part.macs, part.us), giga_rate(part.bytes, part.us), std::string(part.bound),
                    part.bound_us > 0 ? percent(part.bound_us / part.us) : "", percent(part.lost_us() / account.us)});
  return fmt::format("{} of {} in {:.2f} ms, {} of the speed at the bounds\n{}", phase.name,
                     counted(phase.n_tokens, "token"), account.us * 1e-3, percent(account.bound_us / account.us),
                     format_table(rows, "lrrrrlrr"));
}

Json to_json(const std::vector<observe::ExplainedPhase>& phases) {
  Json list = Json::array();
  for (const observe::ExplainedPhase& phase : phases) {
    Json parts = Json::array();
    for (const observe::WorkPart& part : phase.account.parts)
      parts.push_back({{"name", part.name},
                       {"seconds", part.us * 1e-6},
                       {"macs", part.macs},
                       {"bytes", part.bytes},
                       {"bound", part.bound},
                       {"bound_seconds", part.bound_us * 1e-6}});
    list.push_back({{"phase", phase.name},
                    {"n_tokens", phase.n_tokens},
                    {"seconds", phase.account.us * 1e-6},
                    {"bound_seconds", phase.account.bound_us * 1e-6},
                    {"parts", std::move(parts)}});
  }
  return list;
}

}  // namespace tessera::cli
