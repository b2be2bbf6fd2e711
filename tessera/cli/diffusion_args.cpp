#include "tessera/cli/diffusion_args.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

constexpr float kMostReal = 1000;
constexpr float kMostEps = 0.999f;

Setter set_algorithm(DiffusionAlgorithm& target) {
  const auto set = [&target](std::string_view text) -> Result<> {
    const auto& names = kDiffusionAlgorithmNames;
    auto index = static_cast<int64_t>(std::ranges::find(names, text) - names.begin());
    if (index == std::ssize(names)) {
      const auto number = parse_integer(text, 0, std::ssize(names) - 1);
      if (!number)
        return fail(ErrorCode::invalid_argument, "{} is not one of {}, nor a number from 0 to {}",
                    text::quote_text(text), fmt::join(names, ", "), names.size() - 1);
      index = *number;
    }
    target = static_cast<DiffusionAlgorithm>(index);
    return {};
  };
  return Setter(set, std::string(kDiffusionAlgorithmNames[to_size(static_cast<int64_t>(target))]));
}

}  // namespace

void DiffusionArgs::add_to(FlagTable& table) {
  const size_t n_before = table.flags.size();
  table.rare("--diffusion-steps", "N", "diffusion models: steps in which a text is filled in",
             set_integer(options.n_steps, 1, kMaxDiffusionSteps), "one per token, but about 128 at most");
  table.rare("--diffusion-eps", "X", "timestep schedule, with this rest of noise before the last step",
             set_real(options.eps, 0, kMostEps), "0.001 for models with shifted logits");
  table.rare("--diffusion-block-length", "N", "block schedule: fill in blocks of N tokens from left to right",
             set_integer(options.block_length, 0, kMaxUbatch), "32 for models without shifted logits");
  table.rare("--diffusion-algorithm", "NAME",
             fmt::format("which masks a step replaces: {}; or 0 to 4", fmt::join(kDiffusionAlgorithmNames, ", ")),
             set_algorithm(options.algorithm));
  table.rare("--diffusion-alg-temp", "X", "temperature of that choice; 0: always the best",
             set_real(options.alg_temp, 0, kMostReal));
  table.rare("--diffusion-cfg-scale", "X", "guidance by a second text without the prompt; 0: none",
             set_real(options.cfg_scale, 0, kMostReal));
  table.rare("--diffusion-gumbel", "X", "choose tokens by Gumbel noise of this temperature; 0: off",
             set_real(options.gumbel, 0, kMostReal));
  table.rare("--diffusion-visual", "", "show the text after every step on stderr", set_switch(is_visual));
  for (size_t i = n_before; i < table.flags.size(); ++i) {
    Flag& flag = table.flags[i];
    flag.set = [this, name = flag.name, set = std::move(flag.set)](std::string_view text) -> Result<> {
      if (first_given.empty()) first_given = name;
      return set(text);
    };
  }
}

Result<> DiffusionArgs::check() const {
  if (options.eps > 0 && options.block_length > 0)
    return fail(ErrorCode::invalid_argument, "--diffusion-eps and --diffusion-block-length: give one of them");
  return {};
}

Result<> DiffusionArgs::require_absent(std::string_view architecture) const {
  if (first_given.empty()) return {};
  return fail(ErrorCode::unsupported,
              "{}: the model ({}) generates token by token, and this flag is for diffusion models", first_given,
              architecture);
}

}  // namespace tessera::cli
