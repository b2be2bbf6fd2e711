#include "tessera/cli/sampling_args.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>

namespace tessera::cli {

namespace {

constexpr float kMaxReal = 1e30f;  // sample::validate() checks the narrower range of each parameter

// The flags of a parameter that differ from its name with dashes. They are the flags of llama.cpp.
struct Spelling {
  std::string_view param;
  std::string_view names;
};
constexpr Spelling kSpellings[] = {
    {"temp", "--temp --temperature"},   {"dynatemp_exponent", "--dynatemp-exp"},
    {"typ_p", "--typical --typical-p"}, {"top_n_sigma", "--top-nsigma --top-n-sigma"},
    {"mirostat_tau", "--mirostat-ent"}, {"mirostat_eta", "--mirostat-lr"},
};
constexpr std::string_view kCommon[] = {"temp", "top_k", "top_p", "min_p"};

std::string flag_names(std::string_view param) {
  const auto* spelling = std::ranges::find(kSpellings, param, &Spelling::param);
  if (spelling != std::end(kSpellings)) return std::string(spelling->names);
  std::string name = "--" + std::string(param);
  std::ranges::replace(name, '_', '-');
  return name;
}

// Adds the flag of a parameter, a row of sample/samplers.def.
void add_flag(FlagTable& table, const sample::SamplingParam& param, sample::SamplerParams& params) {
  const auto* real = std::get_if<float sample::SamplerParams::*>(&param.member);
  const auto* integer = std::get_if<int32_t sample::SamplerParams::*>(&param.member);
  const Setter setter =
      real != nullptr ? set_real(params.**real, -kMaxReal, kMaxReal)
                      : set_integer(params.**integer, static_cast<int32_t>(param.min), static_cast<int32_t>(param.max));
  const bool is_common = std::ranges::find(kCommon, param.name) != std::end(kCommon);
  const auto add = is_common ? &FlagTable::common : &FlagTable::rare;
  (table.*add)(flag_names(param.name), real != nullptr ? "X" : "N", std::string(param.description), setter, {});
}

}  // namespace

std::string sampling_flag(std::string_view param) {
  const std::string names = flag_names(param);
  return names.substr(0, names.find(' '));
}

void SamplingArgs::add_to(FlagTable& table) {
  sample::SamplerParams& p = params;
  table.common("--seed -s", "N", "random seed; -1: a new one for each run", set_integer(p.seed, -1, INT64_MAX));
  for (const sample::SamplingParam& param : sample::sampling_params()) add_flag(table, param, p);
  // As in llama.cpp, the first occurrence replaces the defaults.
  table.rare(
      "--dry-sequence-breaker", "TEXT", "DRY: text that ends a repetition; may be repeated; 'none': no breakers",
      [&p, is_first = true](std::string_view text) mutable -> Result<> {
        if (is_first) p.dry_sequence_breakers.clear();
        is_first = false;
        if (text != "none") p.dry_sequence_breakers.emplace_back(text);
        return {};
      },
      "\\n : \" *");
  table.rare("--logit-bias -l", "ID(+|-)X", "add X to the logit of a token; may be repeated",
             [&p](std::string_view text) -> Result<> {
               const size_t sign = text.find_first_of("+-", 1);
               if (sign == std::string_view::npos)
                 return fail(ErrorCode::invalid_argument, "'{}': want TOKEN_ID+BIAS or TOKEN_ID-BIAS", text);
               TESSERA_ASSIGN(const int64_t id, parse_integer(text.substr(0, sign), 0, INT32_MAX));
               const bool is_ban = text.substr(sign) == "-inf";
               // from_chars refuses a plus sign.
               const std::string_view number = text.substr(text[sign] == '+' ? sign + 1 : sign);
               TESSERA_ASSIGN(const float bias, is_ban ? Result<float>(-std::numeric_limits<float>::infinity())
                                                       : parse_real(number, -kMaxReal, kMaxReal));
               p.logit_bias.push_back({static_cast<int32_t>(id), bias});
               return {};
             });
  table.rare("--samplers", "NAMES", "samplers in the order of use, separated by ';'", set_string(samplers),
             "the default chain");
  table.rare("--sampling-seq --sampler-seq", "LETTERS", "samplers in the order of use, as letters",
             set_string(sampling_letters), "edskypmxt");
  table.rare("--ignore-eos", "", "continue after end-of-text tokens", set_switch(ignore_eos));
}

Result<> SamplingArgs::check() {
  if (!samplers.empty() && !sampling_letters.empty())
    return fail(ErrorCode::invalid_argument, "--samplers and --sampling-seq: give one of them");
  if (!samplers.empty()) {
    TESSERA_ASSIGN(params.order, sample::parse_sampler_names(samplers));
  }
  if (!sampling_letters.empty()) {
    TESSERA_ASSIGN(params.order, sample::parse_sampler_letters(sampling_letters));
  }
  return sample::validate(params);
}

sample::SamplerParams SamplingArgs::seeded() const {
  sample::SamplerParams seeded = params;
  if (seeded.seed < 0) seeded.seed = std::random_device()();
  return seeded;
}

}  // namespace tessera::cli
