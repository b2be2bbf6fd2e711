// The table of samplers and the two notations of an order. A step may appear in an order only once, which also bounds
// the length of a chain.
#include "tessera/sample/order.h"

#include <algorithm>
#include <string>

namespace tessera::sample {
namespace {

constexpr SamplerInfo kSamplers[] = {
#define TESSERA_SAMPLER(enumerator, name, letter, description) {SamplerKind::enumerator, name, letter, description},
#include "tessera/sample/samplers.def"
};

// Samplers of llama.cpp that tessera does not implement. An order that names one gets an error of its own.
struct UnbuiltSampler {
  std::string_view name;
  char letter;
  std::string_view what;
};
constexpr UnbuiltSampler kUnbuilt[] = {
    {"infill", 'i', "the sampler for fill-in-the-middle models"},
    {"grammar", '\0', "the constraint by a grammar"},
};

std::string known_steps() {
  std::string known;
  for (const SamplerInfo& info : kSamplers) {
    if (info.letter != '\0') known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", info.name, info.letter);
  }
  return known;
}

/// Appends the step that matches(row). `text` is its spelling in the order.
template <class Matches>
Result<> append_step(std::vector<SamplerKind>& order, std::string_view text, const Matches& matches) {
  // An untrusted spelling is printed escaped and truncated.
  const std::string_view shown = text.substr(0, 40);
  if (const auto* row = std::ranges::find_if(kSamplers, matches); row != std::end(kSamplers)) {
    if (row->letter == '\0')
      return fail(ErrorCode::invalid_argument, "samplers: {:?} is not a step to arrange: it {}; steps: {}", shown,
                  row->description, known_steps());
    if (std::ranges::find(order, row->kind) != order.end())
      return fail(ErrorCode::invalid_argument, "samplers: {:?} appears twice in the order, limit 1", shown);
    order.push_back(row->kind);
    return {};
  }
  if (const auto* row = std::ranges::find_if(kUnbuilt, matches); row != std::end(kUnbuilt))
    return fail(ErrorCode::unsupported, "samplers: {:?} is {}, which is not supported; steps: {}", shown, row->what,
                known_steps());
  return fail(ErrorCode::invalid_argument, "samplers: {:?} is unknown; steps: {}", shown, known_steps());
}

}  // namespace

std::span<const SamplerInfo> sampler_table() { return kSamplers; }

std::vector<SamplerKind> default_order() {
  std::vector<SamplerKind> order;
  for (const SamplerInfo& info : kSamplers) {
    if (info.letter != '\0' && info.kind != SamplerKind::adaptive_p) order.push_back(info.kind);
  }
  return order;
}

Result<std::vector<SamplerKind>> parse_sampler_names(std::string_view text) {
  std::vector<SamplerKind> order;
  if (text.empty()) return order;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(';', begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    TESSERA_TRY(append_step(order, name, [&](const auto& row) { return row.name == name; }));
    begin = end + 1;
  }
  return order;
}

Result<std::vector<SamplerKind>> parse_sampler_letters(std::string_view text) {
  std::vector<SamplerKind> order;
  for (size_t i = 0; i < text.size(); ++i) {
    // Rows without a letter contain '\0', which the text may contain too.
    const auto matches = [&](const auto& row) { return row.letter != '\0' && row.letter == text[i]; };
    TESSERA_TRY(append_step(order, text.substr(i, 1), matches));
  }
  return order;
}

}  // namespace tessera::sample
