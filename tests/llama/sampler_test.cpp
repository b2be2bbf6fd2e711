// Samplers of llama.h.
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/llama/llama_support.h"

namespace tessera {
namespace {

using namespace testing;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// An array of candidates whose ids are their places.
struct CandidateArray {
  explicit CandidateArray(std::vector<float> logits) {
    for (size_t i = 0; i < logits.size(); ++i) data.push_back({static_cast<llama_token>(i), logits[i], 0});
    array = {data.data(), data.size(), -1, false};
  }
  std::vector<llama_token> ids() const {
    std::vector<llama_token> found;
    for (size_t i = 0; i < array.size; ++i) found.push_back(array.data[i].id);
    return found;
  }
  std::vector<llama_token> sorted_ids() const {
    auto found = ids();
    std::ranges::sort(found);
    return found;
  }
  float logit(llama_token id) const {
    for (size_t i = 0; i < array.size; ++i)
      if (array.data[i].id == id) return array.data[i].logit;
    return kMinusInfinity;
  }
  llama_token selected() const { return array.selected < 0 ? -1 : array.data[array.selected].id; }

  std::vector<llama_token_data> data;
  llama_token_data_array array;
};

using Ids = std::vector<llama_token>;

CandidateArray applied(llama_sampler* sampler, std::vector<float> logits) {
  CandidateArray candidates(std::move(logits));
  llama_sampler_apply(sampler, &candidates.array);
  EXPECT_EQ(candidates.array.data, candidates.data.data());  // the program's memory
  return candidates;
}

TEST(LlamaSampler, HasTheNamesOfTheOriginal) {
  const LogLines log;  // of a token that the grammar refuses
  const LlamaModel model = load_llama(story_model());
  const llama_vocab* vocab = llama_model_get_vocab(model.get());
  const llama_logit_bias bias{3, 1.0f};
  const char* breakers[] = {"\n"};
  const std::pair<llama_sampler*, const char*> samplers[] = {
      {llama_sampler_init_greedy(), "greedy"},
      {llama_sampler_init_dist(5), "dist"},
      {llama_sampler_init_top_k(40), "top-k"},
      {llama_sampler_init_top_k(0), "?top-k"},
      {llama_sampler_init_top_p(0.9f, 1), "top-p"},
      {llama_sampler_init_top_p(1, 1), "?top-p"},
      {llama_sampler_init_min_p(0.1f, 1), "min-p"},
      {llama_sampler_init_min_p(0, 1), "?min-p"},
      {llama_sampler_init_typical(0.9f, 1), "typical"},
      {llama_sampler_init_typical(1, 1), "?typical"},
      {llama_sampler_init_temp(0.8f), "temp"},
      {llama_sampler_init_temp(0), "temp"},
      {llama_sampler_init_temp(1), "?temp"},
      {llama_sampler_init_temp_ext(0.8f, 0.2f, 1), "temp-ext"},
      {llama_sampler_init_xtc(0.5f, 0.1f, 1, 7), "xtc"},
      {llama_sampler_init_xtc(0, 0.1f, 1, 7), "?xtc"},
      {llama_sampler_init_top_n_sigma(1), "top-n-sigma"},
      {llama_sampler_init_top_n_sigma(-1), "?top-n-sigma"},
      {llama_sampler_init_mirostat(512, 9, 5, 0.1f, 100), "mirostat"},
      {llama_sampler_init_mirostat_v2(11, 5, 0.1f), "mirostat-v2"},
      {llama_sampler_init_penalties(512, 64, 1.1f, 0, 0), "penalties"},
      {llama_sampler_init_penalties(512, 0, 1.1f, 0, 0), "?penalties"},
      {llama_sampler_init_penalties(512, -1, 1.1f, 0, 0), "?penalties"},
      {llama_sampler_init_dry(vocab, 0.8f, 1.75f, 2, -1, breakers, 1), "dry"},
      {llama_sampler_init_dry(vocab, 0, 1.75f, 2, -1, breakers, 1), "?dry"},
      {llama_sampler_init_dry(vocab, 0.8f, 0.5f, 2, -1, breakers, 1), "?dry"},
      {llama_sampler_init_adaptive_p(0.5f, 0.9f, 3), "adaptive-p"},
      {llama_sampler_init_logit_bias(512, 1, &bias), "logit-bias"},
      {llama_sampler_init_logit_bias(512, 0, nullptr), "?logit-bias"},
      {llama_sampler_init_infill(vocab), "infill"},
      {llama_sampler_init_grammar(vocab, "root ::= \"a\"", "root"), "grammar"},
      {llama_sampler_init_grammar(vocab, "", "root"), "grammar"},
      {llama_sampler_chain_init(llama_sampler_chain_default_params()), "chain"},
  };
  for (const auto& [sampler, name] : samplers) {
    const LlamaSampler owned = own(sampler);
    ASSERT_NE(sampler, nullptr) << name;
    EXPECT_STREQ(llama_sampler_name(sampler), name);
    EXPECT_STREQ(sampler->iface->name(sampler), name);
    const LlamaSampler copy = own(llama_sampler_clone(sampler));
    ASSERT_NE(copy, nullptr) << name;
    EXPECT_STREQ(llama_sampler_name(copy.get()), name);
    llama_sampler_accept(sampler, 5);
    llama_sampler_accept(sampler, -1);
    llama_sampler_reset(sampler);
    CandidateArray candidates({1, 2, 3});
    llama_sampler_apply(sampler, &candidates.array);
    for (const auto function : sampler->iface->experimental) EXPECT_EQ(function, nullptr);
  }
}

TEST(LlamaSampler, TellsItsSeed) {
  EXPECT_EQ(llama_sampler_get_seed(own(llama_sampler_init_dist(5)).get()), 5u);
  EXPECT_EQ(llama_sampler_get_seed(own(llama_sampler_init_mirostat(512, 9, 5, 0.1f, 100)).get()), 9u);
  EXPECT_EQ(llama_sampler_get_seed(own(llama_sampler_init_mirostat_v2(11, 5, 0.1f)).get()), 11u);
  EXPECT_EQ(llama_sampler_get_seed(own(llama_sampler_init_greedy()).get()), 0xffffffffu);
  EXPECT_EQ(llama_sampler_get_seed(nullptr), 0xffffffffu);
  const LlamaSampler random = own(llama_sampler_init_dist(0xffffffff)),
                     other = own(llama_sampler_init_dist(0xffffffff));
  EXPECT_NE(llama_sampler_get_seed(random.get()), llama_sampler_get_seed(other.get()));
  const LlamaSampler chain =
      chain_of({llama_sampler_init_dist(1), llama_sampler_init_dist(2), llama_sampler_init_greedy()});
  EXPECT_EQ(llama_sampler_get_seed(chain.get()), 2u);
}

TEST(LlamaSampler, ChangesCandidatesInPlace) {
  const auto with = [](llama_sampler* sampler, std::vector<float> logits) {
    return applied(own(sampler).get(), std::move(logits));
  };
  EXPECT_EQ(with(llama_sampler_init_top_k(2), {1, 5, 3, 4}).ids(), (Ids{1, 3}));
  EXPECT_EQ(with(llama_sampler_init_top_k(0), {1, 5, 3}).ids(), (Ids{0, 1, 2}));
  EXPECT_EQ(with(llama_sampler_init_top_p(0.5f, 1), {0, 3, 0}).ids(), (Ids{1}));
  EXPECT_EQ(with(llama_sampler_init_top_p(0.5f, 2), {0, 3, 1}).ids(), (Ids{1, 2}));
  EXPECT_EQ(with(llama_sampler_init_min_p(0.5f, 1), {1, 0, 0.9f}).sorted_ids(), (Ids{0, 2}));
  EXPECT_EQ(with(llama_sampler_init_min_p(0.9f, 2), {1, 0, 0.5f}).sorted_ids(), (Ids{0, 2}));
  EXPECT_EQ(with(llama_sampler_init_typical(0.1f, 1), {2, 1, 0}).array.size, 1u);
  EXPECT_EQ(with(llama_sampler_init_top_n_sigma(0.5f), {5, 0, 0, 0}).ids(), (Ids{0}));
  EXPECT_EQ(with(llama_sampler_init_temp(0.5f), {1, 2, 3}).logit(1), 4);
  EXPECT_EQ(with(llama_sampler_init_temp(0), {1, 2, 3}).ids(), (Ids{2}));
  EXPECT_EQ(with(llama_sampler_init_temp_ext(0.5f, 0, 1), {1, 2, 3}).logit(2), 6);
  EXPECT_EQ(with(llama_sampler_init_temp_ext(1, 0, 1), {1, 2, 3}).logit(2), 3);
  EXPECT_NE(with(llama_sampler_init_temp_ext(1, 0.5f, 1), {1, 2, 3}).logit(2), 3);
  EXPECT_EQ(with(llama_sampler_init_xtc(1, 0.1f, 1, 3), {3, 3, 0}).array.size, 2u);
  EXPECT_EQ(with(llama_sampler_init_greedy(), {1, 5, 3}).selected(), 1);
  EXPECT_EQ(with(llama_sampler_init_greedy(), {1, 5, 3}).array.size, 3u);
  const llama_logit_bias biases[] = {{0, 10}, {2, -1}, {9, 5}, {-1, 5}};
  const auto biased = with(llama_sampler_init_logit_bias(4, 4, biases), {1, 5, 3});
  EXPECT_EQ(biased.logit(0), 11);
  EXPECT_EQ(biased.logit(1), 5);
  EXPECT_EQ(biased.logit(2), 2);
}

TEST(LlamaSampler, ComputesProbabilities) {
  const auto candidates = applied(own(llama_sampler_init_top_p(0.99f, 1)).get(), {1, 2, 0.5f});
  double sum = 0;
  for (const llama_token_data& one : std::span(candidates.array.data, candidates.array.size))
    sum += static_cast<double>(one.p);
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_TRUE(candidates.array.sorted);
  EXPECT_EQ(candidates.ids(), (Ids{1, 0, 2}));
  EXPECT_EQ(candidates.array.selected, -1);
}

TEST(LlamaSampler, PenalizesAcceptedTokens) {
  const LlamaSampler penalties = own(llama_sampler_init_penalties(4, 2, 2, 0.5f, 0.25f));
  for (const llama_token token : {0, 1, 1}) llama_sampler_accept(penalties.get(), token);
  const auto candidates = applied(penalties.get(), {4, 4, -4, 4});
  EXPECT_EQ(candidates.logit(0), 4);  // before the window
  EXPECT_EQ(candidates.logit(1), 4 / 2.0f - 2 * 0.5f - 0.25f);
  llama_sampler_accept(penalties.get(), 700);  // an id above those of the candidates
  EXPECT_EQ(applied(penalties.get(), {4, 4}).logit(1), 4 / 2.0f - 0.5f - 0.25f);
  const LlamaSampler copy = own(llama_sampler_clone(penalties.get()));
  llama_sampler_reset(penalties.get());
  EXPECT_EQ(applied(penalties.get(), {4, 4}).logit(1), 4);
  EXPECT_NE(applied(copy.get(), {4, 4}).logit(1), 4);
  llama_sampler_copy(copy.get(), penalties.get());
  EXPECT_NE(applied(penalties.get(), {4, 4}).logit(1), 4);
}

TEST(LlamaSampler, PenalizesRepeatedTexts) {
  const LlamaModel model = load_llama(story_model());
  const llama_vocab* vocab = llama_model_get_vocab(model.get());
  const auto tokens = tokenize(model.get(), "the big cat saw the big", false);
  const char* breakers[] = {"", nullptr, "\n"};
  const LlamaSampler dry = own(llama_sampler_init_dry(vocab, 1, 2, 2, 64, breakers, 3));
  for (const llama_token token : tokens) llama_sampler_accept(dry.get(), token);
  const llama_token next = tokenize(model.get(), "the big cat", false)[tokenize(model.get(), "the big", false).size()];
  std::vector<float> logits(512, 1.0f);
  const auto candidates = applied(dry.get(), logits);
  EXPECT_LT(candidates.logit(next), 1);
  EXPECT_EQ(candidates.logit(2), 1);
  LogLines log;
  EXPECT_EQ(llama_sampler_init_dry(nullptr, 1, 2, 2, 64, breakers, 3), nullptr);
  EXPECT_EQ(llama_sampler_init_dry(vocab, 1, 2, 2, 64, nullptr, 3), nullptr);
  EXPECT_NE(log.take().find("seq_breakers: is NULL"), std::string::npos);
}

TEST(LlamaSampler, DrawsTheSameForASeed) {
  const std::vector<float> logits(40, 0.0f);
  const auto draw = [&](llama_sampler* sampler) {
    Ids drawn;
    for (int i = 0; i < 8; ++i) drawn.push_back(applied(sampler, logits).selected());
    return drawn;
  };
  using Make = llama_sampler* (*)(uint32_t);
  const Make makers[] = {llama_sampler_init_dist,
                         [](uint32_t seed) { return llama_sampler_init_mirostat_v2(seed, 5, 0.1f); },
                         [](uint32_t seed) { return llama_sampler_init_mirostat(40, seed, 5, 0.1f, 100); },
                         [](uint32_t seed) { return llama_sampler_init_adaptive_p(0.5f, 0.9f, seed); }};
  for (const Make make : makers) {
    const LlamaSampler first = own(make(7)), second = own(make(7)), other = own(make(8));
    const Ids drawn = draw(first.get());
    EXPECT_TRUE(std::ranges::none_of(drawn, [](llama_token id) { return id < 0; }));
    EXPECT_EQ(draw(second.get()), drawn);
    EXPECT_NE(draw(other.get()), drawn);
    llama_sampler_reset(first.get());
    EXPECT_EQ(draw(first.get()), drawn);
    const LlamaSampler copy = own(llama_sampler_clone(first.get()));
    EXPECT_EQ(draw(copy.get()), draw(first.get()));
  }
}

TEST(LlamaSampler, RefusesNumbersThatAreNone) {
  LogLines log;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(llama_sampler_init_top_p(nan, 1), nullptr);
  EXPECT_EQ(log.take(), "llama_sampler_init_top_p: top_p: is not a number\n");
  EXPECT_EQ(llama_sampler_init_xtc(nan, 0.1f, 1, 1), nullptr);
  const LlamaSampler large = own(llama_sampler_init_top_p(2, 1));
  EXPECT_STREQ(llama_sampler_name(large.get()), "?top-p");
  EXPECT_EQ(llama_sampler_init_logit_bias(5, 2, nullptr), nullptr);
}

// Any numbers make a sampler that can be used, or none.
TEST(LlamaSampler, SurvivesAnyNumbers) {
  const LogLines log;
  const LlamaModel model = load_llama(story_model());
  const llama_vocab* vocab = llama_model_get_vocab(model.get());
  const char* breakers[] = {"\n"};
  const auto use = [](llama_sampler* sampler) {
    const LlamaSampler owned = own(sampler);
    if (sampler == nullptr) return;
    for (const llama_token token : {INT32_MIN, -1, 0, 1, 511, 512, INT32_MAX}) llama_sampler_accept(sampler, token);
    applied(sampler, {1, 2, 3});
    applied(sampler, {});
    applied(sampler, {kMinusInfinity, std::numeric_limits<float>::infinity(), std::nanf("")});
    const LlamaSampler copy = own(llama_sampler_clone(sampler));
    llama_sampler_reset(sampler);
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float numbers[] = {std::nanf(""), kInfinity, -kInfinity, -1, 0, 1e-30f, 1, 1e30f};
  const int32_t integers[] = {INT32_MIN, -1, 0, 1, 1000, INT32_MAX};
  for (const float x : numbers)
    for (const int32_t n : integers) {
      const auto keep = static_cast<size_t>(n);
      use(llama_sampler_init_top_k(n));
      use(llama_sampler_init_top_p(x, keep));
      use(llama_sampler_init_min_p(x, keep));
      use(llama_sampler_init_typical(x, keep));
      use(llama_sampler_init_temp(x));
      use(llama_sampler_init_temp_ext(x, x, x));
      use(llama_sampler_init_temp_ext(1, x, 1));
      use(llama_sampler_init_xtc(x, 0.1f, keep, 1));
      use(llama_sampler_init_top_n_sigma(x));
      use(llama_sampler_init_mirostat(n, 1, x, x, n));
      use(llama_sampler_init_mirostat_v2(1, x, x));
      use(llama_sampler_init_adaptive_p(x, x, 1));
      use(llama_sampler_init_penalties(n, std::min(n, 1000), x, x, x));
      use(llama_sampler_init_dry(vocab, x, x, n, std::min(n, 1000), breakers, 1));
      const llama_logit_bias bias{n, x};
      use(llama_sampler_init_logit_bias(n, 1, &bias));
      use(llama_sampler_init_logit_bias(n, std::min(n, 0), nullptr));
    }
}

// --- chains

TEST(LlamaSamplerChain, OwnsItsSamplers) {
  LogLines log;
  const LlamaSampler chain = chain_of({llama_sampler_init_top_k(3), llama_sampler_init_greedy()});
  EXPECT_EQ(llama_sampler_chain_n(chain.get()), 2);
  EXPECT_STREQ(llama_sampler_name(llama_sampler_chain_get(chain.get(), 0)), "top-k");
  EXPECT_EQ(llama_sampler_chain_get(chain.get(), -1), chain.get());
  EXPECT_EQ(llama_sampler_chain_get(chain.get(), -2), nullptr);
  EXPECT_EQ(llama_sampler_chain_get(chain.get(), 2), nullptr);
  const LlamaSampler removed = own(llama_sampler_chain_remove(chain.get(), 0));
  EXPECT_STREQ(llama_sampler_name(removed.get()), "top-k");
  EXPECT_EQ(llama_sampler_chain_n(chain.get()), 1);
  EXPECT_EQ(llama_sampler_chain_remove(chain.get(), 1), nullptr);
  EXPECT_EQ(llama_sampler_chain_remove(chain.get(), -1), nullptr);
  EXPECT_EQ(log.take(), "");
  llama_sampler_chain_add(chain.get(), nullptr);
  llama_sampler_chain_add(chain.get(), chain.get());
  EXPECT_EQ(llama_sampler_chain_n(chain.get()), 1);
  EXPECT_EQ(llama_sampler_chain_n(removed.get()), 0);
  EXPECT_NE(log.take().find("llama_sampler_chain_n: chain: is no chain of samplers"), std::string::npos);
}

TEST(LlamaSamplerChain, AppliesItsSamplersInOrder) {
  const LlamaSampler chain =
      chain_of({llama_sampler_init_top_k(3), llama_sampler_init_temp(0.5f), llama_sampler_init_greedy()});
  const auto candidates = applied(chain.get(), {1, 5, 3, 4, 2});
  EXPECT_EQ(candidates.ids(), (Ids{1, 3, 2}));
  EXPECT_EQ(candidates.logit(3), 8);
  EXPECT_EQ(candidates.selected(), 1);
}

// A sampler of a program: it bans a token, and counts its calls.
struct OwnSampler {
  llama_token banned = 1;
  int n_accepted = 0, n_reset = 0, n_freed = 0;
  llama_sampler_i functions{};

  OwnSampler() {
    functions.name = [](const llama_sampler*) { return "mine"; };
    functions.accept = [](llama_sampler* self, llama_token) { ++of(self)->n_accepted; };
    functions.apply = [](llama_sampler* self, llama_token_data_array* array) {
      for (size_t i = 0; i < array->size; ++i)
        if (array->data[i].id == of(self)->banned) array->data[i].logit = kMinusInfinity;
      array->sorted = false;
    };
    functions.reset = [](llama_sampler* self) { ++of(self)->n_reset; };
    functions.clone = [](const llama_sampler* self) { return llama_sampler_init(self->iface, self->ctx); };
    functions.free = [](llama_sampler* self) { ++of(self)->n_freed; };
  }
  static OwnSampler* of(llama_sampler* sampler) { return static_cast<OwnSampler*>(sampler->ctx); }
};

TEST(LlamaSamplerChain, HasSamplersOfPrograms) {
  OwnSampler mine;
  {
    const LlamaSampler chain = chain_of(
        {llama_sampler_init_top_k(3), llama_sampler_init(&mine.functions, &mine), llama_sampler_init_greedy()});
    EXPECT_STREQ(llama_sampler_name(llama_sampler_chain_get(chain.get(), 1)), "mine");
    EXPECT_EQ(applied(chain.get(), {1, 5, 3, 4, 2}).selected(), 3);
    llama_sampler_accept(chain.get(), 3);
    llama_sampler_reset(chain.get());
    EXPECT_EQ(mine.n_accepted, 1);
    EXPECT_EQ(mine.n_reset, 1);
    const LlamaSampler copy = own(llama_sampler_clone(chain.get()));
    EXPECT_EQ(applied(copy.get(), {1, 5, 3, 4, 2}).selected(), 3);
    EXPECT_EQ(llama_sampler_get_seed(llama_sampler_chain_get(chain.get(), 1)), 0xffffffffu);
  }
  EXPECT_EQ(mine.n_freed, 2);
}

TEST(LlamaSamplerChain, SurvivesSamplersWithoutFunctions) {
  LogLines log;
  llama_sampler_i empty{};
  const LlamaSampler sampler = own(llama_sampler_init(&empty, nullptr));
  EXPECT_STREQ(llama_sampler_name(sampler.get()), "(null)");
  llama_sampler_accept(sampler.get(), 1);
  llama_sampler_reset(sampler.get());
  EXPECT_EQ(log.take(), "");
  CandidateArray candidates({1, 2});
  llama_sampler_apply(sampler.get(), &candidates.array);
  EXPECT_NE(log.take().find("smpl: has no function to apply it"), std::string::npos);
  EXPECT_NE(own(llama_sampler_clone(sampler.get())), nullptr);
  int context = 0;
  const LlamaSampler with_context = own(llama_sampler_init(&empty, &context));
  EXPECT_EQ(llama_sampler_clone(with_context.get()), nullptr);
  const LlamaSampler chain = chain_of({llama_sampler_init(&empty, &context)});
  EXPECT_EQ(llama_sampler_clone(chain.get()), nullptr);
  log.take();
  llama_sampler_apply(chain.get(), &candidates.array);
  EXPECT_NE(log.take(), "");
  llama_sampler_copy(sampler.get(), chain.get());
  EXPECT_NE(log.take().find("both must be samplers of this library"), std::string::npos);
  const LlamaSampler greedy = own(llama_sampler_init_greedy());
  llama_sampler_copy(greedy.get(), chain.get());
  EXPECT_NE(log.take().find("dst: is chain, src is greedy"), std::string::npos);
  EXPECT_EQ(llama_sampler_init(nullptr, nullptr), nullptr);
  llama_sampler_apply(greedy.get(), nullptr);
  EXPECT_NE(log.take().find("cur_p: is NULL"), std::string::npos);
}

TEST(LlamaSamplerChain, SamplesFromAContext) {
  LogLines log;
  const LlamaModel model = load_llama(story_model());
  const LlamaContext context = create_llama(model.get());
  ASSERT_EQ(decode_all(context.get(), tokenize(model.get(), "Once upon a")), 0);
  const auto row = row_of(context.get(), -1);
  const auto best = static_cast<llama_token>(std::ranges::max_element(row) - row.begin());
  const LlamaSampler greedy = chain_of({llama_sampler_init_greedy()});
  EXPECT_EQ(llama_sampler_sample(greedy.get(), context.get(), -1), best);
  EXPECT_EQ(llama_sampler_sample(llama_sampler_chain_get(greedy.get(), 0), context.get(), -1), best);
  OwnSampler mine;
  mine.banned = best;
  const LlamaSampler banning = chain_of({llama_sampler_init(&mine.functions, &mine), llama_sampler_init_greedy()});
  EXPECT_NE(llama_sampler_sample(banning.get(), context.get(), -1), best);
  EXPECT_EQ(mine.n_accepted, 1);
  const llama_logit_bias ban{best, kMinusInfinity};
  const LlamaSampler biased = chain_of({llama_sampler_init_logit_bias(512, 1, &ban),
                                        llama_sampler_init_penalties(512, 8, 1.5f, 0, 0), llama_sampler_init_greedy()});
  EXPECT_NE(llama_sampler_sample(biased.get(), context.get(), -1), best);
  EXPECT_EQ(log.take(), "");
  EXPECT_EQ(llama_sampler_sample(greedy.get(), context.get(), 0), -1);
  EXPECT_NE(log.take().find("token 0 has no output"), std::string::npos);
  const LlamaSampler undecided = chain_of({llama_sampler_init_top_k(5)});
  EXPECT_EQ(llama_sampler_sample(undecided.get(), context.get(), -1), -1);
  EXPECT_NE(log.take().find("smpl: chose no token"), std::string::npos);
  EXPECT_EQ(llama_sampler_sample(nullptr, context.get(), -1), -1);
  EXPECT_EQ(llama_sampler_sample(greedy.get(), nullptr, -1), -1);
  llama_set_embeddings(context.get(), true);
  EXPECT_EQ(llama_sampler_sample(greedy.get(), context.get(), -1), -1);
}

TEST(LlamaSamplerChain, MeasuresItsTime) {
  LogLines log;
  llama_sampler_chain_params params = llama_sampler_chain_default_params();
  for (const bool measures : {false, true}) {
    params.no_perf = !measures;
    const LlamaSampler chain = own(llama_sampler_chain_init(params));
    llama_sampler_chain_add(chain.get(), llama_sampler_init_greedy());
    applied(chain.get(), {1, 2});
    EXPECT_EQ(llama_perf_sampler(chain.get()).n_sample, measures ? 1 : 0);
    llama_perf_sampler_print(chain.get());
    EXPECT_NE(log.take().find("samples"), std::string::npos);
    llama_perf_sampler_reset(chain.get());
    EXPECT_EQ(llama_perf_sampler(chain.get()).n_sample, 0);
  }
  EXPECT_EQ(llama_perf_sampler(nullptr).n_sample, 0);
}

// --- grammars and text between others

class LlamaGrammar : public ::testing::Test {
 protected:
  // The bytes of the tokens that are allowed now.
  bool allows(llama_sampler* sampler, const std::string& text) const {
    const auto tokens = tokenize(model_.get(), text, false);
    return applied(sampler, std::vector<float>(512, 0.0f)).logit(tokens.front()) == 0;
  }
  llama_token byte(char c) const { return static_cast<llama_token>(static_cast<unsigned char>(c)) + 3; }
  bool allows_byte(llama_sampler* sampler, char c) const {
    return applied(sampler, std::vector<float>(512, 0.0f)).logit(byte(c)) == 0;
  }

  LlamaModel model_ = load_llama(story_model());
  const llama_vocab* vocab_ = llama_model_get_vocab(model_.get());
  LogLines log_;
};

TEST_F(LlamaGrammar, AllowsItsTokens) {
  const LlamaSampler grammar = own(llama_sampler_init_grammar(vocab_, "root ::= \"ab\" [0-9]", "root"));
  ASSERT_NE(grammar, nullptr);
  EXPECT_TRUE(allows_byte(grammar.get(), 'a'));
  EXPECT_FALSE(allows_byte(grammar.get(), 'b'));
  const auto candidates = applied(grammar.get(), std::vector<float>(512, 0.0f));
  EXPECT_EQ(candidates.array.size, 512u);  // they stay, at -infinity
  EXPECT_FALSE(candidates.array.sorted);
  const LlamaSampler copy = own(llama_sampler_clone(grammar.get()));
  for (const char c : {'a', 'b', '7'}) llama_sampler_accept(grammar.get(), byte(c));
  EXPECT_EQ(log_.take(), "");
  EXPECT_EQ(applied(grammar.get(), std::vector<float>(512, 0.0f)).logit(2), 0);  // the end
  EXPECT_FALSE(allows_byte(grammar.get(), 'a'));
  EXPECT_TRUE(allows_byte(copy.get(), 'a'));
  llama_sampler_accept(copy.get(), byte('x'));
  EXPECT_NE(log_.take().find("cannot follow the text"), std::string::npos);
  llama_sampler_reset(grammar.get());
  EXPECT_TRUE(allows_byte(grammar.get(), 'a'));
  llama_sampler_accept(grammar.get(), 700);
  EXPECT_EQ(log_.take(), "");
}

TEST_F(LlamaGrammar, NamesTokensByTheirTexts) {
  const LlamaSampler grammar = own(llama_sampler_init_grammar(vocab_, "root ::= <s> | <[5]>", "root"));
  ASSERT_NE(grammar, nullptr) << log_.take();
  const auto candidates = applied(grammar.get(), std::vector<float>(512, 0.0f));
  for (const llama_token token : {1, 5}) EXPECT_EQ(candidates.logit(token), 0) << token;
  EXPECT_NE(candidates.logit(2), 0);
}

TEST_F(LlamaGrammar, LeadsAChain) {
  const LlamaContext context = create_llama(model_.get());
  const LlamaSampler chain = chain_of({llama_sampler_init_grammar(vocab_, "root ::= \"no\" | \"yes\"", "root"),
                                       llama_sampler_init_top_k(1), llama_sampler_init_greedy()});
  ASSERT_EQ(decode_all(context.get(), tokenize(model_.get(), "Once")), 0);
  std::string text;
  while (text.size() < 10) {
    const llama_token token = llama_sampler_sample(chain.get(), context.get(), -1);
    if (llama_vocab_is_eog(vocab_, token)) break;
    char piece[20];
    text.append(piece, static_cast<size_t>(llama_token_to_piece(vocab_, token, piece, 20, 0, false)));
    ASSERT_EQ(decode_all(context.get(), {token}), 0);
  }
  EXPECT_TRUE(text == "no" || text == "yes") << text;
}

TEST_F(LlamaGrammar, HasARootOfAnyName) {
  const LlamaSampler grammar = own(llama_sampler_init_grammar(vocab_, "start ::= \"q\"", "start"));
  ASSERT_NE(grammar, nullptr);
  EXPECT_TRUE(allows_byte(grammar.get(), 'q'));
  const LlamaSampler unnamed = own(llama_sampler_init_grammar(vocab_, "root ::= \"q\"", nullptr));
  EXPECT_TRUE(allows_byte(unnamed.get(), 'q'));
}

TEST_F(LlamaGrammar, RefusesWhatIsNoGrammar) {
  EXPECT_EQ(llama_sampler_init_grammar(vocab_, "root ::= (", "root"), nullptr);
  EXPECT_NE(log_.take().find("llama_sampler_init_grammar: grammar: 1:11: "), std::string::npos);
  EXPECT_EQ(llama_sampler_init_grammar(vocab_, "root ::= \"a\"", "other"), nullptr);
  EXPECT_EQ(llama_sampler_init_grammar(nullptr, "root ::= \"a\"", "root"), nullptr);
  const char* words[] = {"x", ""};
  EXPECT_EQ(llama_sampler_init_grammar_lazy(vocab_, "root ::= \"a\"", "root", words, 2, nullptr, 0), nullptr);
  EXPECT_NE(log_.take().find("trigger: an empty word"), std::string::npos);
  EXPECT_EQ(llama_sampler_init_grammar_lazy(vocab_, "root ::= \"a\"", "root", nullptr, 0, nullptr, 0), nullptr);
  EXPECT_NE(log_.take().find("triggers: a lazy grammar needs one"), std::string::npos);
  const char* patterns[] = {"("};
  EXPECT_EQ(llama_sampler_init_grammar_lazy_patterns(vocab_, "root ::= \"a\"", "root", patterns, 1, nullptr, 0),
            nullptr);
  EXPECT_EQ(llama_sampler_init_grammar_lazy_patterns(vocab_, "root ::= \"a\"", "root", nullptr, 1, nullptr, 0),
            nullptr);
  const llama_token token = 5;
  EXPECT_EQ(llama_sampler_init_grammar_lazy_patterns(vocab_, "root ::= (", "root", nullptr, 0, &token, 1), nullptr);
}

TEST_F(LlamaGrammar, BeginsWithTheNamedRule) {
  for (const char* source : {"start ::= \"b\"", "root ::= \"a\"\nstart ::= \"b\"", "root ::= start\nstart ::= \"b\""}) {
    const LlamaSampler sampler = own(llama_sampler_init_grammar(vocab_, source, "start"));
    ASSERT_NE(sampler, nullptr) << log_.take();
    EXPECT_FALSE(allows_byte(sampler.get(), 'a'));
    EXPECT_TRUE(allows_byte(sampler.get(), 'b'));
  }
}

TEST_F(LlamaGrammar, WaitsForATrigger) {
  const auto accept = [&](llama_sampler* sampler, const std::string& text) {
    for (const char c : text) llama_sampler_accept(sampler, byte(c));
  };
  const char* words[] = {"<c>"};
  const char* groups[] = {"[a-z ]*(<c>)"};
  const char* whole[] = {"^[a-z ]*(<c>)$"};
  const char* plain[] = {"<c>"};
  const char* source = "root ::= \"<c>\" [0-9]+";
  const LlamaSampler samplers[] = {
      own(llama_sampler_init_grammar_lazy(vocab_, source, "root", words, 1, nullptr, 0)),
      own(llama_sampler_init_grammar_lazy_patterns(vocab_, source, "root", groups, 1, nullptr, 0)),
      own(llama_sampler_init_grammar_lazy_patterns(vocab_, source, "root", whole, 1, nullptr, 0)),
      own(llama_sampler_init_grammar_lazy_patterns(vocab_, source, "root", plain, 1, nullptr, 0))};
  for (const LlamaSampler& sampler : samplers) {
    ASSERT_NE(sampler, nullptr);
    accept(sampler.get(), "a text <c");
    EXPECT_TRUE(allows_byte(sampler.get(), 'x'));
    const LlamaSampler copy = own(llama_sampler_clone(sampler.get()));
    accept(sampler.get(), ">");
    EXPECT_EQ(log_.take(), "");
    EXPECT_FALSE(allows_byte(sampler.get(), 'x'));
    EXPECT_TRUE(allows_byte(sampler.get(), '7'));
    EXPECT_TRUE(allows_byte(copy.get(), 'x'));
    accept(copy.get(), ">");
    EXPECT_FALSE(allows_byte(copy.get(), 'x'));
    llama_sampler_reset(sampler.get());
    EXPECT_TRUE(allows_byte(sampler.get(), 'x'));
  }
  const llama_token token = byte('!');
  const LlamaSampler by_token =
      own(llama_sampler_init_grammar_lazy_patterns(vocab_, "root ::= \"!\" \"z\"", "root", nullptr, 0, &token, 1));
  accept(by_token.get(), "abc");
  EXPECT_TRUE(allows_byte(by_token.get(), 'x'));
  accept(by_token.get(), "!");
  EXPECT_FALSE(allows_byte(by_token.get(), 'x'));
  EXPECT_TRUE(allows_byte(by_token.get(), 'z'));
}

TEST_F(LlamaGrammar, ChoosesTextBetweenOthers) {
  const LlamaSampler infill = own(llama_sampler_init_infill(vocab_));
  const auto run = [&](const std::vector<std::pair<llama_token, float>>& tokens) {
    CandidateArray candidates(std::vector<float>(tokens.size(), 0.0f));
    for (size_t i = 0; i < tokens.size(); ++i) candidates.data[i] = {tokens[i].first, std::log(tokens[i].second), 0};
    llama_sampler_apply(infill.get(), &candidates.array);
    return candidates;
  };
  const llama_token a = byte('a'), b = byte('b'), end = 2;
  EXPECT_EQ(run({{a, 0.5f}, {b, 0.1f}, {end, 0.4f}}).sorted_ids(), (Ids{end}));  // the end is probable
  EXPECT_EQ(run({{a, 0.9f}, {b, 0.08f}, {end, 0.02f}}).sorted_ids(), (Ids{end, a}));
  const auto improbable = run({{a, 0.15f},
                               {b, 0.15f},
                               {byte('c'), 0.15f},
                               {byte('d'), 0.15f},
                               {byte('e'), 0.15f},
                               {byte('f'), 0.15f},
                               {byte('g'), 0.1f}});
  EXPECT_EQ(improbable.sorted_ids(), (Ids{end}));
  // " t" begins " the": their probabilities are joined.
  const llama_token t = tokenize(model_.get(), "the cat", false).front();
  char piece[20];
  const std::string text(piece, static_cast<size_t>(llama_token_to_piece(vocab_, t, piece, 20, 0, false)));
  ASSERT_EQ(text, " the");
  const llama_token space = 458;
  const auto joined = run({{t, 0.5f}, {space, 0.15f}, {a, 0.35f}});
  EXPECT_EQ(joined.ids(), (Ids{t, a}));
  EXPECT_NEAR(std::exp(joined.logit(t)), 0.5, 1e-3);
  EXPECT_EQ(run({{t, 0.15f}, {space, 0.16f}, {a, 0.1f}, {b, 0.1f}}).ids(), (Ids{space}));  // only together
  EXPECT_TRUE(joined.array.sorted);
  EXPECT_EQ(llama_sampler_init_infill(nullptr), nullptr);
}

}  // namespace
}  // namespace tessera
