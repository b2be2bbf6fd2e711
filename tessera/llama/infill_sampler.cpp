// llama.h: the sampler for text between two others. It follows samplers that leave few candidates.
//
// 1. If the tokens that end the text have more probability than the others have on average, only they stay.
// 2. A token whose text begins another candidate's text gets the probability of that candidate.
// 3. Of the rest, improbable tokens go. If none stays, the text ends.
#include <algorithm>
#include <cmath>
#include <map>
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
    if (candidates.items().empty()) return {};
    std::map<int32_t, double> kept = chosen(candidates.items());
    if (kept.empty()) kept[end_token()] = 1;
    std::vector<sample::Candidate> list;
    for (const auto& [id, probability] : kept)
      list.push_back({.id = id, .logit = static_cast<float>(std::log(probability)), .prob = 0});
    candidates.assign_list(list);
    return {};
  }

 private:
  bool ends_text(int32_t id) const { return ends_generation(model_->vocab.vocab(), id); }

  int32_t end_token() const {
    const text::Vocab& vocab = model_->vocab.vocab();
    return find_special(vocab, text::SpecialToken::eot).value_or(vocab.special(text::SpecialToken::eos).value_or(0));
  }

  // The tokens that stay, with the probabilities that they have then.
  std::map<int32_t, double> chosen(std::span<const sample::Candidate> items) const {
    std::map<int32_t, double> ends;
    double p_ends = 0, p_others = 0;
    for (const sample::Candidate& one : items) {
      if (ends_text(one.id)) ends[one.id] = one.prob;
      (ends_text(one.id) ? p_ends : p_others) += one.prob;
    }
    if (p_ends * static_cast<double>(items.size()) > p_others) return ends;
    std::map<int32_t, double> kept = std::move(ends);
    bool has_text = false;
    for (const auto& [id, probability] : joined_by_prefix(items)) {
      if (probability < kLeastProbability) continue;
      kept[id] = probability;
      has_text = true;
    }
    return has_text ? kept : std::map<int32_t, double>();
  }

  // In the order of texts, a prefix comes directly before the texts that it begins.
  std::vector<std::pair<int32_t, double>> joined_by_prefix(std::span<const sample::Candidate> items) const {
    struct Piece {
      std::string text;
      int32_t id;
      double probability;
    };
    std::vector<Piece> pieces;
    for (const sample::Candidate& one : items) {
      if (ends_text(one.id)) continue;
      Piece& piece = pieces.emplace_back(Piece{"", one.id, one.prob});
      if (model_->vocab.has(one.id)) model_->vocab.tokenizer->append_piece(one.id, piece.text);
    }
    std::ranges::sort(pieces, {},
                      [](const Piece& piece) { return std::pair<const std::string&, int32_t>(piece.text, piece.id); });
    std::vector<std::pair<int32_t, double>> joined;
    const Piece* prefix = nullptr;
    for (const Piece& piece : pieces) {
      if (prefix != nullptr && !prefix->text.empty() && piece.text.starts_with(prefix->text)) {
        joined.back().second += piece.probability;
      } else {
        joined.emplace_back(piece.id, piece.probability);
        prefix = &piece;
      }
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
