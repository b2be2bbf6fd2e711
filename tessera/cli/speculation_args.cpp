#include "tessera/cli/speculation_args.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

// "suffix,draft", or "none".
Result<std::vector<DraftKind>> parse_kinds(std::string_view text) {
  std::vector<DraftKind> kinds;
  if (text == "none") return kinds;
  for (size_t begin = 0; begin <= text.size();) {
    const std::string_view name = text.substr(begin, text.find(',', begin) - begin);
    const auto kind = draft_kind_from_name(name);
    if (!kind)
      return fail(ErrorCode::invalid_argument, "{} is not one of none, ngram, suffix, draft, mtp",
                  text::quote_text(name));
    if (std::ranges::find(kinds, *kind) == kinds.end()) kinds.push_back(*kind);
    begin += name.size() + 1;
  }
  return kinds;
}

}  // namespace

void SpeculationArgs::add_to(FlagTable& table) {
  table.common(
      "--spec-type", "TYPES",
      "guess tokens and verify several in a step, which changes no token: ngram (copy what followed the last "
      "tokens before), suffix (the longest such match), draft (by a draft model), mtp (by the model's own prediction "
      "head); several with commas",
      [this](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(options.kinds, parse_kinds(text));
        is_given = true;
        return {};
      },
      "none");
  table.common("--spec-draft-model -md --model-draft", "FILE", "a small GGUF model with the same tokens, for guesses",
               set_string(draft_path), "");
  table.rare("--spec-draft-n-max --draft-max --draft-n -draft", "N", "most guesses that a step verifies",
             set_integer(options.n_most, 1, SpeculationOptions::kMostGuesses));
}

Result<> SpeculationArgs::apply(ModelOptions& model) const {
  model.speculation = options;
  model.draft_path = draft_path;
  if (options.uses(DraftKind::model) && draft_path.empty())
    return fail(ErrorCode::invalid_argument, "--spec-type draft: no draft model: give one with -md FILE");
  if (!draft_path.empty() && !options.uses(DraftKind::model)) model.speculation.kinds.push_back(DraftKind::model);
  return {};
}

std::string describe(const Speculator* speculator) {
  if (speculator == nullptr) return "";
  const SpeculationCounts& counts = speculator->counts();
  return fmt::format("; {} of {} guesses right", counts.n_accepted, counts.n_drafted);
}

}  // namespace tessera::cli
