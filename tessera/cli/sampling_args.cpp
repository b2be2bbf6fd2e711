#include "tessera/cli/sampling_args.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>

namespace tessera::cli {

namespace {

constexpr float kMaxReal = 1e30f;  // the parameters have narrower ranges of their own

// The flags of a parameter, if they are not its name with dashes: GGUF users know it by these.
struct Spelling {
  std::string_view param;
  std::string_view names;
};
constexpr Spelling kSpellings[] = {
    {"temp", "--temp --temperature"},
    {"dynatemp_exponent", "--dynatemp-exp"},
    {"typ_p", "--typical --typical-p"},
    {"top_n_sigma", "--top-nsigma --top-n-sigma"},
    {"mirostat_tau", "--mirostat-ent"},
    {"mirostat_eta", "--mirostat-lr"},
};
constexpr std::string_view kCommon[] = {"temp", "top_k", "top_p", "min_p"};

std::string flag_names(std::string_view param) {
  const auto* spelling = std::ranges::find(kSpellings, param, &Spelling::param);
  if (spelling != std::end(kSpellings)) return std::string(spelling->names);
  std::string name = "--" + std::string(param);
  std::ranges::replace(name, '_', '-');
  return name;
}

// The flag of a number: a row of sample/samplers.def.
void add_flag(FlagTable& table, const sample::SamplingParam& param, sample::SamplerParams& params) {
  const auto* real = std::get_if<float sample::SamplerParams::*>(&param.member);
  const auto* integer = std::get_if<int32_t sample::SamplerParams::*>(&param.member);
  const Setter setter = real != nullptr ? set_real(params.**real, -kMaxReal, kMaxReal)
                                        : set_integer(params.**integer, static_cast<int32_t>(param.min),
                                                      static_cast<int32_t>(param.max));
  const bool is_common = std::ranges::find(kCommon, param.name) != std::end(kCommon);
  const auto add = is_common ? &FlagTable::common : &FlagTable::rare;
  (table.*add)(flag_names(param.name), real != nullptr ? "X" : "N", std::string(param.description), setter, {});
}

}  // namespace

void SamplingArgs::add_to(FlagTable& table) {
  sample::SamplerParams& p = params;
  table.common("--seed -s", "N", "seed of the random numbers; -1: a new one", set_integer(p.seed, -1, INT64_MAX));
  for (const sample::SamplingParam& param : sample::sampling_params()) add_flag(table, param, p);
  // The first one given replaces the defaults, as users know it.
  table.rare(
      "--dry-sequence-breaker", "TEXT", "text that ends a repetition; 'none': no breakers",
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
               // from_chars takes no plus sign.
               const std::string_view number = text.substr(text[sign] == '+' ? sign + 1 : sign);
               TESSERA_ASSIGN(const float bias, is_ban ? Result<float>(-std::numeric_limits<float>::infinity())
                                                       : parse_real(number, -kMaxReal, kMaxReal));
               p.logit_bias.push_back({static_cast<int32_t>(id), bias});
               return {};
             });
  table.rare("--samplers", "NAMES", "samplers in their order, separated by ';'", set_string(samplers),
             "the default chain");
  table.rare("--sampling-seq --sampler-seq", "LETTERS", "samplers in their order, as letters",
             set_string(sampling_letters), "edskypmxt");
  table.rare("--ignore-eos", "", "go on after tokens that end a text", set_switch(ignore_eos));
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
