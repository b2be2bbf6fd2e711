#include "tessera/engine/diffusion_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/base/index.h"

namespace tessera {

namespace {

constexpr float kNoLogit = -std::numeric_limits<float>::infinity();

double negative_entropy(std::span<const sample::Candidate> items) {
  double sum = 0;
  for (const sample::Candidate& item : items)
    if (item.prob > 0) sum += item.prob * std::log(item.prob);
  return sum;
}

const sample::Candidate& draw(std::span<const sample::Candidate> items, sample::SeededRng& rng) {
  double rest = rng.next_double();
  for (const sample::Candidate& item : items) {
    rest -= item.prob;
    if (rest < 0) return item;
  }
  // Probabilities may sum to a little less than 1.
  return *std::ranges::max_element(items, {}, &sample::Candidate::prob);
}

}  // namespace

double gumbel_noise(sample::SeededRng& rng) {
  const double u = std::max(rng.next_double(), std::numeric_limits<double>::min());
  return -std::log(-std::log(u));
}

void guide(std::span<const float> c, std::span<const float> u, double scale, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const double from = u[i], to = c[i];
    out[i] = static_cast<float>(from + (scale + 1.0) * (to - from));
  }
}

MaskFiller::MaskFiller(const DiffusionOptions& options, int32_t mask_token)
    : algorithm_(options.algorithm),
      gumbel_(options.gumbel),
      is_greedy_(options.sampling.temp < sample::kMinTemperature),
      mask_(mask_token) {
  sample::SamplerParams params;
  params.top_k = options.sampling.top_k;
  params.top_p = options.sampling.top_p;
  params.temp = options.sampling.temp;
  const sample::SamplerContext context{params, nullptr, 0};
  for (const auto filter : {&sample::make_top_k, &sample::make_top_p})
    if (auto made = filter(context)) filters_.push_back(std::move(made));
  temperature_ = sample::make_temperature(context);
}

Result<MaskChoice> MaskFiller::choose(std::span<const float> logits, sample::SeededRng& rng) {
  candidates_.assign(logits);
  candidates_.adjust(std::span(&mask_, 1), [](size_t, float) { return kNoLogit; });
  for (const auto& filter : filters_) filter->apply(candidates_, history_, rng);
  if (candidates_.items().empty())
    return fail(ErrorCode::invalid_argument, "no token to choose, all {} logits are NaN or -inf", logits.size());
  const int32_t noisy = gumbel_ > 0 ? add_noise(rng) : -1;
  if (temperature_) temperature_->apply(candidates_, history_, rng);
  candidates_.softmax();
  // Sorting the two best puts the most probable token first, in a list whose order depends on the logits alone.
  const auto items = candidates_.sort_first(std::min<size_t>(2, candidates_.items().size()));
  const sample::Candidate* chosen = &items.front();
  if (gumbel_ > 0) {
    chosen = &*std::ranges::find(items, noisy, &sample::Candidate::id);
  } else if (!is_greedy_) {
    chosen = &draw(items, rng);
  }
  return MaskChoice{chosen->id, confidence_of(*chosen, rng)};
}

// The token of the greatest logit + temperature * noise. It is that of LLaDA's exp(logit) / (-ln U)^temperature, whose
// logarithm this is.
int32_t MaskFiller::add_noise(sample::SeededRng& rng) {
  double best = -std::numeric_limits<double>::infinity();
  const auto items = candidates_.items();
  int32_t token = items.front().id;
  for (const sample::Candidate& item : items) {
    const double noisy = static_cast<double>(item.logit) + gumbel_ * gumbel_noise(rng);
    if (noisy <= best) continue;
    best = noisy;
    token = item.id;
  }
  return token;
}

double MaskFiller::confidence_of(const sample::Candidate& chosen, sample::SeededRng& rng) {
  const auto items = candidates_.items();
  switch (algorithm_) {
    case DiffusionAlgorithm::entropy:
      return negative_entropy(items);
    case DiffusionAlgorithm::margin:
      return items[0].prob - (items.size() > 1 ? items[1].prob : 0.0);
    case DiffusionAlgorithm::random:
      return rng.next_double();
    case DiffusionAlgorithm::origin:
    case DiffusionAlgorithm::confidence:
      break;
  }
  return chosen.prob;
}

// The greatest sums of confidence / alg_temp and Gumbel noise are draws without replacement (Kool et al. 2019, arXiv
// 1903.06059). So a step reveals as many masks as planned. llama.cpp draws with replacement and may reveal fewer.
std::vector<size_t> choose_masks(std::span<const double> confidence, int64_t n, double alg_temp,
                                 sample::SeededRng& rng) {
  std::vector<size_t> chosen(confidence.size());
  std::iota(chosen.begin(), chosen.end(), size_t{0});
  if (n >= std::ssize(confidence)) return chosen;
  std::vector<double> rank(confidence.begin(), confidence.end());
  if (alg_temp > 0)
    for (double& value : rank) value = value / alg_temp + gumbel_noise(rng);
  std::ranges::stable_sort(chosen, [&](size_t a, size_t b) { return rank[a] > rank[b]; });
  chosen.resize(to_size(n));
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace tessera
