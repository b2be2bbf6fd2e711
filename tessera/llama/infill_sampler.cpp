// llama.h: the sampler for text between two others. It follows samplers that leave few candidates.
//
// 1. If the tokens that end the text have more probability than the others have on average, only they stay.
// 2. Of tokens whose texts begin with the same token, the most probable one stands for all.
// 3. Of the rest, improbable tokens go. If none stays, the text ends.
#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "tessera/llama/objects.h"
#include "tessera/llama/sampler.h"
#include "tessera/llama/special_tokens.h"

namespace tessera::llama {
namespace {

constexpr double kLeastProbability = 0.2;

class InfillSampler final : public SamplerObject {
 public:
  explicit InfillSampler(std::shared_ptr<const llama_model> model) : model_(std::move(model)) {}

  const char* name() const override { return "infill"; }
  Result<> accept(llama_token) override { return {}; }
  void reset() override {}
  Result<std::unique_ptr<SamplerObject>> clone() const override { return std::make_unique<InfillSampler>(model_); }

  Result<> apply(CandidateView& view) override {
    sample::Candidates& candidates = view.candidates();
    candidates.softmax();
    const size_t n = candidates.items().size();
    if (n == 0) return {};
    const auto items = candidates.sort_first(n);
    const std::set<int32_t> kept = chosen(items);
    std::vector<sample::Candidate> list;
    std::ranges::copy_if(items, std::back_inserter(list), [&](const auto& one) { return kept.contains(one.id); });
    if (list.empty()) list.push_back({.id = end_token(), .logit = 0, .prob = 0});
    candidates.assign_list(list);
    return {};
  }

 private:
  bool ends_text(int32_t id) const { return ends_generation(model_->vocab.vocab(), id); }

  int32_t end_token() const {
    const text::Vocab& vocab = model_->vocab.vocab();
    return find_special(vocab, text::SpecialToken::eot).value_or(vocab.special(text::SpecialToken::eos).value_or(0));
  }

  // The tokens that stay.
  std::set<int32_t> chosen(std::span<const sample::Candidate> items) const {
    std::set<int32_t> kept;
    double p_ends = 0, p_others = 0;
    for (const sample::Candidate& one : items) {
      if (ends_text(one.id)) kept.insert(one.id);
      (ends_text(one.id) ? p_ends : p_others) += one.prob;
    }
    if (p_ends * static_cast<double>(items.size()) > p_others) return kept;
    const size_t n_ends = kept.size();
    for (const Piece& piece : joined_by_prefix(items))
      if (piece.sum >= kLeastProbability) kept.insert(piece.id);
    return kept.size() > n_ends ? kept : std::set<int32_t>();
  }

  struct Piece {
    std::string text{};
    int32_t id = 0;
    double probability = 0;
    double sum = 0;  // with the texts that it stands for
  };

  // In the order of texts, a prefix comes directly before the texts that it begins.
  std::vector<Piece> joined_by_prefix(std::span<const sample::Candidate> items) const {
    std::vector<Piece> pieces;
    for (const sample::Candidate& one : items) {
      if (ends_text(one.id)) continue;
      Piece& piece = pieces.emplace_back(Piece{.id = one.id, .probability = one.prob, .sum = one.prob});
      if (model_->vocab.has(one.id)) model_->vocab.tokenizer->append_piece(one.id, piece.text);
    }
    std::ranges::sort(pieces, {}, &Piece::text);
    std::vector<Piece> joined;
    std::string prefix;
    for (const Piece& piece : pieces) {
      if (prefix.empty() || !piece.text.starts_with(prefix)) {
        joined.push_back(piece);
        prefix = piece.text;
        continue;
      }
      Piece& group = joined.back();
      if (piece.probability > group.probability) group.id = piece.id, group.probability = piece.probability;
      group.sum += piece.probability;
    }
    return joined;
  }

  std::shared_ptr<const llama_model> model_;
};

}  // namespace
}  // namespace tessera::llama

using namespace tessera;
using namespace tessera::llama;

llama_sampler* tessera_llama_sampler_init_infill(const llama_vocab* vocab) {
  return guarded<llama_sampler*>("llama_sampler_init_infill", nullptr, [&]() -> Result<llama_sampler*> {
    TESSERA_TRY(require(vocab, "vocab"));
    return to_handle(std::make_unique<InfillSampler>(vocab->model->shared_from_this()));
  });
}
