#include "tessera/engine/speculative/speculation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tessera/engine/speculative/match_drafter.h"
#include "tessera/engine/speculative/model_drafter.h"
#include "tessera/engine/speculative/prediction_head.h"

namespace tessera {

namespace {

constexpr std::array<std::pair<std::string_view, DraftKind>, 4> kNames = {{{"ngram", DraftKind::ngram},
                                                                           {"suffix", DraftKind::suffix},
                                                                           {"draft", DraftKind::model},
                                                                           {"mtp", DraftKind::head}}};

}  // namespace

std::string_view name_of(DraftKind kind) { return kNames[static_cast<size_t>(kind)].first; }

std::optional<DraftKind> draft_kind_from_name(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name, [](const auto& entry) { return entry.first; });
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

std::string names_of(std::span<const DraftKind> kinds) {
  std::string names;
  for (const DraftKind kind : kinds) {
    if (!names.empty()) names += ',';
    names += name_of(kind);
  }
  return names;
}

bool SpeculationOptions::uses(DraftKind kind) const { return std::ranges::find(kinds, kind) != kinds.end(); }

void SpeculationOptions::extend(SessionOptions& session) const {
  if (!is_on()) return;
  session.n_outputs += n_most;
  session.n_checkpoints += session.n_sequences;
  session.follower = follower;
  if (uses(DraftKind::head) || follower != nullptr) session.part = SessionPart::model_with_hidden;
}

Result<std::unique_ptr<Speculator>> create_speculator(const SpeculationOptions& options, int64_t n_vocab,
                                                      DraftPlace draft, const TextIndex* others) {
  if (!options.is_on()) return nullptr;
  std::vector<std::unique_ptr<Drafter>> drafters;
  for (const DraftKind kind : options.kinds) {
    if (kind == DraftKind::model) {
      if (draft.session == nullptr && (draft.head == nullptr || options.follower == nullptr))
        return fail(ErrorCode::invalid_argument, "speculation: no draft model");
      if (draft.session != nullptr)
        drafters.push_back(std::make_unique<ModelDrafter>(*draft.session, draft.sequence, n_vocab));
      else
        drafters.push_back(std::make_unique<HeadDrafter>(*draft.head, draft.sequence, name_of(kind)));
    } else if (kind == DraftKind::head) {
      if (draft.head == nullptr) return fail(ErrorCode::invalid_argument, "speculation: no prediction head");
      drafters.push_back(std::make_unique<HeadDrafter>(*draft.head, draft.sequence));
    } else {
      drafters.push_back(
          std::make_unique<MatchDrafter>(kind == DraftKind::ngram ? MatchKind::ngram : MatchKind::suffix, others));
    }
  }
  // Copies come first: a model is asked only where they promise nothing.
  std::ranges::stable_sort(drafters, {}, [](const auto& drafter) { return drafter->takes_time(); });
  return std::make_unique<Speculator>(std::move(drafters), options.adapts);
}

}  // namespace tessera
