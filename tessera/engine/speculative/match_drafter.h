// A drafter that copies: where the last tokens of the text occurred before, the text may go on as it did there. It
// suits texts that repeat: edited code, quoted sources, tables, JSON.
#pragma once

#include <memory>
#include <vector>

#include "tessera/engine/speculative/drafter.h"
#include "tessera/engine/speculative/text_index.h"

namespace tessera {

enum class MatchKind : uint8_t {
  ngram,   // the last place in the same text, by the last kNgram tokens
  suffix,  // the places with the longest match, also in other texts; the majority decides
};

class MatchDrafter final : public Drafter {
 public:
  static constexpr int64_t kNgram = 3;

  /// others: texts before this one, which must outlive the drafter; null: none. Its last text may grow meanwhile.
  MatchDrafter(MatchKind kind, const TextIndex* others = nullptr);

  std::string_view name() const override { return kind_ == MatchKind::ngram ? "ngram" : "suffix"; }
  double prior(int32_t confidence) const override;
  void begin(std::span<const int32_t> text) override;
  void append(int32_t token) override;
  Result<> draft(const DraftRequest& request, FunctionRef<bool(const DraftToken&)> add,
                 const CancelToken* cancel) override;

 private:
  // A place that agrees with all guesses so far.
  struct Source {
    std::span<const int32_t> rest;  // what follows there
    int64_t length;                 // of the match
    int64_t place;                  // greater is nearer: later, and in the same text
  };

  void find_sources();
  void add_sources(const TextIndex& index, int64_t first_place);

  MatchKind kind_;
  const TextIndex* others_;
  TextIndex index_;
  std::vector<int32_t> end_;               // the last tokens of the text
  std::vector<TextIndex::Match> matches_;  // reused
  std::vector<Source> sources_;            // reused
};

}  // namespace tessera
