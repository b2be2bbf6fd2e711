#include "tessera/engine/speculative/match_drafter.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "tessera/base/index.h"

namespace tessera {

namespace {

constexpr int64_t kMostTokens = 1 << 20;  // of the text
constexpr size_t kMostSources = 16;

// Classes of lengths: longer matches are right more often. Two confidences belong to each: with and without places that
// disagree.
constexpr std::array<int64_t, 5> kLengthSteps = {3, 4, 6, 9, 16};
constexpr std::array<double, 2 * (kLengthSteps.size() + 1)> kPriors = {0.15, 0.25, 0.2, 0.35, 0.3, 0.5,
                                                                       0.4,  0.6,  0.5, 0.7,  0.6, 0.8};
static_assert(kPriors.size() == kConfidences);

int32_t confidence_of(int64_t length, bool is_unanimous) {
  const auto step = std::ranges::upper_bound(kLengthSteps, length) - kLengthSteps.begin();
  return static_cast<int32_t>(2 * step + (is_unanimous ? 1 : 0));
}

}  // namespace

MatchDrafter::MatchDrafter(MatchKind kind, const TextIndex* others)
    : kind_(kind), others_(others), index_(kMostTokens) {}

double MatchDrafter::prior(int32_t confidence) const { return kPriors[to_size(confidence)]; }

void MatchDrafter::begin(std::span<const int32_t> text) {
  index_.clear();
  end_.clear();
  for (const int32_t token : text) append(token);
}

void MatchDrafter::append(int32_t token) {
  index_.append(token);
  if (std::ssize(end_) == TextIndex::kMostMatch) end_.erase(end_.begin());
  end_.push_back(token);
}

void MatchDrafter::add_sources(const TextIndex& index, int64_t first_place) {
  matches_.clear();
  index.find(end_, matches_);
  for (const TextIndex::Match& match : matches_)
    sources_.push_back(
        {.rest = index.tokens().subspan(to_size(match.end)), .length = match.length, .place = first_place + match.end});
}

// The longest matches first, and of the same length the nearest.
void MatchDrafter::find_sources() {
  sources_.clear();
  add_sources(index_, int64_t{1} << 32);
  if (kind_ == MatchKind::ngram) {
    std::erase_if(sources_, [](const Source& source) { return source.length < kNgram; });
    for (Source& source : sources_) source.length = kNgram;
  } else if (others_ != nullptr) {
    add_sources(*others_, 0);
  }
  const auto key = [](const Source& source) { return std::pair(source.length, source.place); };
  std::ranges::sort(sources_, std::ranges::greater(), key);
  const auto repeated = std::ranges::unique(sources_, {}, key);
  sources_.erase(repeated.begin(), repeated.end());
  if (sources_.empty()) return;
  if (kind_ == MatchKind::ngram) sources_.resize(1);
  // Much shorter matches say little beside the longest one.
  std::erase_if(sources_, [n = sources_.front().length](const Source& source) { return 2 * source.length <= n; });
  if (sources_.size() > kMostSources) sources_.resize(kMostSources);
}

// In each round the places vote, each with the length of its match. Those that disagree with the result drop out.
Result<> MatchDrafter::draft(const DraftRequest& request, FunctionRef<bool(const DraftToken&)> add,
                             const CancelToken*) {
  find_sources();
  for (int64_t n = 0; n < request.n_most; ++n) {
    std::erase_if(sources_, [n](const Source& source) {
      return n >= std::ssize(source.rest) || source.rest[to_size(n)] == TextIndex::kEnd;
    });
    if (sources_.empty()) return {};
    const auto next = [n](const Source& source) { return source.rest[to_size(n)]; };
    int32_t best = -1;
    int64_t most = 0, all = 0;
    for (const Source& source : sources_) {
      all += source.length;
      int64_t votes = 0;
      for (const Source& other : sources_) votes += next(other) == next(source) ? other.length : 0;
      if (votes > most) {
        best = next(source);
        most = votes;
      }
    }
    std::erase_if(sources_, [&](const Source& source) { return next(source) != best; });
    if (!add({.token = best, .confidence = confidence_of(sources_.front().length + n, most == all)})) return {};
  }
  return {};
}

}  // namespace tessera
