#include "tessera/llama/special_tokens.h"

#include <algorithm>
#include <array>
#include <span>

namespace tessera::llama {
namespace {

using text::SpecialToken;

struct KnownText {
  SpecialToken which;
  std::string_view text;
};

// For each role, the first text that is a token counts.
constexpr KnownText kKnownTexts[] = {
    {SpecialToken::eot, "<|eot_id|>"},
    {SpecialToken::eot, "<|im_end|>"},
    {SpecialToken::eot, "<|end|>"},
    {SpecialToken::eot, "<end_of_turn>"},
    {SpecialToken::eot, "<|endoftext|>"},
    {SpecialToken::eot, "<|end_of_text|>"},
    {SpecialToken::eot, "<EOT>"},
    {SpecialToken::eot, "_<EOT>"},
    {SpecialToken::eot, "<｜end▁of▁sentence｜>"},
    {SpecialToken::eot, "<end_of_utterance>"},
    {SpecialToken::fim_prefix, "<|fim_prefix|>"},
    {SpecialToken::fim_prefix, "<fim-prefix>"},
    {SpecialToken::fim_prefix, "<fim_prefix>"},
    {SpecialToken::fim_prefix, "<｜fim▁begin｜>"},
    {SpecialToken::fim_prefix, "<PRE>"},
    {SpecialToken::fim_prefix, "▁<PRE>"},
    {SpecialToken::fim_prefix, "<|code_prefix|>"},
    {SpecialToken::fim_suffix, "<|fim_suffix|>"},
    {SpecialToken::fim_suffix, "<fim-suffix>"},
    {SpecialToken::fim_suffix, "<fim_suffix>"},
    {SpecialToken::fim_suffix, "<｜fim▁hole｜>"},
    {SpecialToken::fim_suffix, "<SUF>"},
    {SpecialToken::fim_suffix, "▁<SUF>"},
    {SpecialToken::fim_suffix, "<|code_suffix|>"},
    {SpecialToken::fim_middle, "<|fim_middle|>"},
    {SpecialToken::fim_middle, "<fim-middle>"},
    {SpecialToken::fim_middle, "<fim_middle>"},
    {SpecialToken::fim_middle, "<｜fim▁end｜>"},
    {SpecialToken::fim_middle, "<MID>"},
    {SpecialToken::fim_middle, "▁<MID>"},
    {SpecialToken::fim_middle, "<|code_middle|>"},
    {SpecialToken::fim_pad, "<|fim_pad|>"},
    {SpecialToken::fim_pad, "<fim-pad>"},
    {SpecialToken::fim_pad, "<fim_pad>"},
    {SpecialToken::fim_pad, "<PAD>"},
    {SpecialToken::fim_pad, "[PAD]"},
    {SpecialToken::fim_repo, "<|fim_repo|>"},
    {SpecialToken::fim_repo, "<|repo_name|>"},
    {SpecialToken::fim_repo, "<fim-repo>"},
    {SpecialToken::fim_repo, "<REPO>"},
    {SpecialToken::fim_repo, "<reponame>"},
    {SpecialToken::fim_separator, "<|file_sep|>"},
};

constexpr std::array kEnds = {SpecialToken::fim_pad, SpecialToken::fim_repo, SpecialToken::fim_separator};

}  // namespace

std::optional<int32_t> find_special(const text::Vocab& vocab, SpecialToken which) {
  if (const auto named = vocab.special(which)) return named;
  if (!vocab.has_text()) return std::nullopt;
  for (const KnownText& known : kKnownTexts)
    if (known.which == which)
      if (const auto found = vocab.find(known.text)) return found;
  return std::nullopt;
}

bool ends_generation(const text::Vocab& vocab, int32_t token) {
  if (token < 0) return false;
  return vocab.is_eog(token) ||
         std::ranges::any_of(kEnds, [&](SpecialToken which) { return find_special(vocab, which) == token; });
}

}  // namespace tessera::llama
