#include "tessera/cli/kl_report.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

namespace tessera::cli {

namespace {

using eval::Distribution;
using eval::KlStatistics;
using eval::Measured;

struct Quantile {
  std::string_view label, key;
  double share;
};

constexpr Quantile kKlQuantiles[] = {
    {"Maximum", "max", 1.0}, {"99.9%", "p99_9", 0.999}, {"99.0%", "p99", 0.99},  {"95.0%", "p95", 0.95},
    {"90.0%", "p90", 0.9},   {"Median", "median", 0.5}, {"10.0%", "p10", 0.1},   {" 5.0%", "p5", 0.05},
    {" 1.0%", "p1", 0.01},   {" 0.1%", "p0_1", 0.001},  {"Minimum", "min", 0.0},
};
constexpr Quantile kChangeQuantiles[] = {
    {"Maximum", "max", 1.0}, {"99.9%", "p99_9", 0.999}, {"99.0%", "p99", 0.99},    {"95.0%", "p95", 0.95},
    {"90.0%", "p90", 0.9},   {"75.0%", "p75", 0.75},    {"Median", "median", 0.5}, {"25.0%", "p25", 0.25},
    {"10.0%", "p10", 0.1},   {" 5.0%", "p5", 0.05},     {" 1.0%", "p1", 0.01},     {" 0.1%", "p0_1", 0.001},
    {"Minimum", "min", 0.0},
};

std::string line(std::string_view label, const Measured& m) {
  return fmt::format("{:<30}: {:>11.6f} ± {:>10.6f}\n", label, m.value, m.error);
}

std::string percent_line(std::string_view label, const Measured& m) {
  return fmt::format("{:<30}: {:>6.3f} ± {:.3f} %\n", label, 100 * m.value, 100 * m.error);
}

std::string json(const Measured& m) { return fmt::format("{{\"value\": {}, \"error\": {}}}", m.value, m.error); }

std::string json(const Distribution& d, std::span<const Quantile> quantiles) {
  std::vector<std::string> members;
  for (const Quantile& q : quantiles) members.push_back(fmt::format("\"{}\": {}", q.key, d.quantile(q.share)));
  return fmt::format("{{{}}}", fmt::join(members, ", "));
}

}  // namespace

std::string format_kl_statistics(const KlStatistics& s) {
  std::string text = "====== Perplexity statistics ======\n";
  text += line("Mean PPL(Q)", s.ppl);
  text += line("Mean PPL(base)", s.ppl_base);
  text += fmt::format("{:<30}: {:>6.2f}%\n", "Cor(ln(PPL(Q)), ln(PPL(base)))", 100 * s.correlation);
  text += line("Mean ln(PPL(Q)/PPL(base))", s.log_ratio);
  text += line("Mean PPL(Q)/PPL(base)", s.ratio);
  text += line("Mean PPL(Q)-PPL(base)", s.difference);
  text += "\n====== KL divergence statistics ======\n";
  text += line("Mean    KLD", s.kl);
  for (const Quantile& q : kKlQuantiles)
    text += fmt::format("{:<30}: {:>11.6f}\n", fmt::format("{:<7} KLD", q.label), s.kl_values.quantile(q.share));
  text += "\n====== Token probability statistics ======\n";
  text += percent_line("Mean    Δp", s.p_change);
  for (const Quantile& q : kChangeQuantiles)
    text += fmt::format("{:<30}: {:>6.3f}%\n", fmt::format("{:<7} Δp", q.label), 100 * s.p_changes.quantile(q.share));
  text += percent_line("RMS Δp", s.p_change_rms);
  text += percent_line("Same top p", s.same_top);
  return text;
}

std::string kl_statistics_json(const KlStatistics& s) {
  return fmt::format(
      "\"tokens\": {}, \"ppl\": {}, \"ppl_base\": {}, \"correlation\": {}, \"log_ppl_ratio\": {}, \"ppl_ratio\": {}, "
      "\"ppl_difference\": {}, \"kl\": {}, \"kl_quantiles\": {}, \"p_change\": {}, \"p_change_quantiles\": {}, "
      "\"p_change_rms\": {}, \"same_top\": {}",
      s.n_tokens, json(s.ppl), json(s.ppl_base), s.correlation, json(s.log_ratio), json(s.ratio), json(s.difference),
      json(s.kl), json(s.kl_values, kKlQuantiles), json(s.p_change), json(s.p_changes, kChangeQuantiles),
      json(s.p_change_rms), json(s.same_top));
}

}  // namespace tessera::cli
