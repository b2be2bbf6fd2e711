// Draft models in files of their own that take hidden states of the model for which they guess: their formula, the
// cache that follows the model's, texts that stay the same, and files that do not fit.
#include "tests/support/draft_file.h"

#include <gtest/gtest.h>

#include "tests/engine/head_support.h"
#include "tests/support/head_model.h"

namespace tessera {
namespace {

using namespace testing;
using tiny::Rows;
using tiny::TinyModel;
using tiny::Vec;

Result<LoadedModel> load_with_draft(const std::string& path, const std::string& draft, int32_t n_sequences = 1,
                                    int64_t n_ctx = 128) {
  TESSERA_ASSIGN(LoadedModel model,
                 open_model(create_registry("").value(),
                            {.path = path,
                             .engine = {},
                             .speculation = {.kinds = {DraftKind::model}, .n_most = 5, .adapts = false},
                             .draft_path = draft}));
  SessionOptions session{.n_ctx = n_ctx, .n_ubatch = 16, .n_sequences = n_sequences};
  model.speculation.extend(session);
  TESSERA_TRY(load_session(model, session));
  return model;
}

Vec doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

void expect_near(std::span<const float> got, const Vec& want) {
  ASSERT_EQ(got.size(), want.size());
  double error = 0, power = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - want[i], 2);
    power += want[i] * want[i];
  }
  EXPECT_LT(error / power, 1e-9);
}

// --- the states of the target

// The hidden states of `tokens` with a product that chooses one of the three layers.
std::vector<float> states_of(const std::string& path, const std::vector<int32_t>& layers, size_t chosen,
                             std::span<const int32_t> tokens) {
  const int64_t width = FloatModel(path).at("token_embd.weight").shape[0];
  const EagleFile file{.width = width, .layers = layers};
  TinyModel m = eagle_weights(path, file);
  std::vector<float>& join = m.weights.at("fc.weight");
  std::ranges::fill(join, 0.0f);
  for (int64_t i = 0; i < width; ++i)
    join[static_cast<size_t>((3 * i + static_cast<int64_t>(chosen)) * width + i)] = 1.0f;
  const auto model = load_with_draft(path, write_eagle(std::move(m), file, "choosing.gguf"));
  EXPECT_OK(model);
  EXPECT_OK(model->session->decode(Batch::prompt(tokens, 0, 0)));
  return {model->session->hidden().begin(), model->session->hidden().end()};
}

// The input of layer 0 is the embedding. The state after the last layer makes the logits. The one between the layers is
// that after the last layer of a model without the second one.
TEST(DraftFile, StatesAreTheInputsOfLayers) {
  const std::string path = arch_model("llama-dense");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  const auto tokens = token_ids(*engine, 8);
  FloatModel weights(path);
  const Shape table = weights.at("token_embd.weight").shape;
  const auto width = static_cast<size_t>(table[0]);

  const auto first = states_of(path, {0, 1, 2}, 0, tokens);
  ASSERT_EQ(first.size(), tokens.size() * width);
  for (size_t t = 0; t < tokens.size(); ++t)
    for (size_t i = 0; i < width; ++i)
      EXPECT_FLOAT_EQ(first[t * width + i],
                      weights.at("token_embd.weight").values[static_cast<size_t>(tokens[t]) * width + i]);

  const auto after_last = [&](const std::string& of, std::span<const float> states) {
    const auto plain = load_engine(of).value();
    const auto session = Session::create(plain, {.n_ctx = 32, .n_ubatch = 16, .n_outputs = 16}).value();
    const std::vector<float> logits = logits_of(*session, tokens).value();
    FloatModel m(of);
    double sum = 0;
    Vec x = doubles(states.first(width));
    for (const double v : x) sum += v * v;
    for (size_t i = 0; i < width; ++i)
      x[i] *= double{m.at("output_norm.weight").values[i]} / std::sqrt(sum / static_cast<double>(width) + 1e-5);
    const auto& output =
        (m.find("output.weight") != nullptr ? m.at("output.weight") : m.at("token_embd.weight")).values;
    Vec want(static_cast<size_t>(table[1]));
    for (size_t o = 0; o < want.size(); ++o)
      want[o] = std::inner_product(x.begin(), x.end(), output.begin() + static_cast<ptrdiff_t>(o * width), 0.0);
    expect_near(std::span(logits).first(want.size()), want);
  };
  after_last(path, states_of(path, {0, 1, 2}, 2, tokens));
  FloatModel shorter(path);
  std::erase_if(shorter.tensors, [](const FloatModel::Entry& entry) { return entry.name.starts_with("blk.1."); });
  shorter.keys.set("llama.block_count", 1u);
  const auto middle = states_of(path, {0, 1, 2}, 1, tokens);
  after_last(shorter.write("shorter.gguf"), middle);
  EXPECT_TRUE(same_bits(middle, states_of(path, {1, 2, 0}, 0, tokens)));
}

// --- the formula

// Logits [n_vocab, n] and hidden states [width, n] in double, of tokens and the states g before them.
struct EagleRows {
  Rows logits, hidden;
};
EagleRows eagle_formula(const TinyModel& m, const EagleFile& file, const Rows& embeddings, const Rows& g) {
  const std::string blk = tiny::block(0);
  Rows inputs, normed;
  for (size_t t = 0; t < g.size(); ++t) {
    Vec x = tiny::rms(m, blk + "attn_norm.weight", embeddings[t]);
    normed.push_back(tiny::rms(m, blk + "attn_norm_2.weight", g[t]));
    x.insert(x.end(), normed.back().begin(), normed.back().end());
    inputs.push_back(std::move(x));
  }
  const Rows attended = tiny::attention(m, blk, inputs, kEagleRules);
  EagleRows rows;
  for (size_t t = 0; t < g.size(); ++t) {
    Vec x = tiny::plus(file.adds_normed ? normed[t] : g[t], attended[t]);
    x = tiny::plus(x, tiny::ffn(m, blk + "ffn_{}.weight", tiny::rms(m, blk + "ffn_norm.weight", x)));
    rows.hidden.push_back(x);
    rows.logits.push_back(tiny::mul(m, "output.weight", tiny::rms(m, "output_norm.weight", x)));
  }
  return rows;
}

void check_eagle(const std::string& path, const EagleFile& file) {
  TinyModel weights = eagle_weights(path, file);
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_draft(path, write_eagle(weights, file, "formula.gguf")));
  const auto tokens = token_ids(*model.engine, 12);
  ASSERT_OK(model.session->decode(Batch::prompt(tokens, 0, 0)));
  const auto width = static_cast<size_t>(file.width);
  const std::vector<float> hidden(model.session->hidden().begin(), model.session->hidden().end());
  ASSERT_EQ(hidden.size(), tokens.size() * width);

  // The joined states.
  Rows parts;
  for (const size_t chosen : {0u, 1u, 2u}) {
    const auto states = states_of(path, file.layers, chosen, tokens);
    parts.push_back(doubles(states));
  }
  const size_t n_target = parts[0].size() / tokens.size();
  for (size_t t = 0; t < tokens.size(); ++t) {
    Vec joined;
    for (const Vec& part : parts)
      joined.insert(joined.end(), part.begin() + static_cast<ptrdiff_t>(t * n_target),
                    part.begin() + static_cast<ptrdiff_t>((t + 1) * n_target));
    if (file.norms_states) joined = tiny::rms(weights, "enc.output_norm.weight", joined);
    expect_near(std::span(hidden).subspan(t * width, width), tiny::mul(weights, "fc.weight", joined));
  }

  // Token t + 1 goes with the state of token t.
  FloatModel target(path);
  const auto take = [&](const char* name) { return target.find(name) != nullptr ? name : "token_embd.weight"; };
  if (!file.has_tables)
    for (const char* name : {"token_embd.weight", "output.weight"}) {
      weights.weights[name] = target.at(take(name)).values;
      weights.shapes[name] = target.at(take(name)).shape;
    }
  Rows embeddings, g;
  for (size_t t = 0; t + 1 < tokens.size(); ++t) {
    const Vec table = tiny::vector_of(weights, "token_embd.weight");
    embeddings.push_back(tiny::part(table, tokens[t + 1] * file.width, file.width));
    g.push_back(doubles(std::span(hidden).subspan(t * width, width)));
  }
  const EagleRows want = eagle_formula(weights, file, embeddings, g);
  ASSERT_OK_AND_ASSIGN(const auto draft, Session::create(model.draft_engine, {.n_ctx = 32,
                                                                              .n_ubatch = 16,
                                                                              .n_outputs = 16,
                                                                              .part = SessionPart::head,
                                                                              .type_k = DType::f32,
                                                                              .type_v = DType::f32}));
  expect_documented(*draft);
  const size_t n = tokens.size() - 1;
  ASSERT_OK(draft->decode_after(all_logits(std::span(tokens).subspan(1)), std::span(hidden).first(n * width)));
  for (size_t t = 0; t < n; ++t) {
    expect_near(draft->logits(static_cast<int64_t>(t)), want.logits[t]);
    expect_near(draft->hidden().subspan(t * width, width), want.hidden[t]);
  }

  // The guess is the most probable token, of those that the draft has.
  ASSERT_OK_AND_ASSIGN(const auto guesses, fresh_guesses(model, tokens, 2));
  const Vec& last = want.logits.back();
  const auto best = static_cast<size_t>(std::ranges::max_element(last) - last.begin());
  EXPECT_EQ(guesses.size(), 2u);
  EXPECT_EQ(guesses[0], file.tokens.empty() ? static_cast<int32_t>(best) : static_cast<int32_t>(file.tokens[best]));
}

TEST(DraftFile, EagleComputesItsFormula) {
  const std::string path = arch_model("llama-dense");
  const int64_t width = FloatModel(path).at("token_embd.weight").shape[0];
  check_eagle(path, {});
  check_eagle(path, {.layers = {2, 0, 1}, .norms_states = true, .adds_normed = true});
  check_eagle(path, {.width = width, .has_tables = false});
  check_eagle(path, {.tokens = {7, 200, 3, 11, 255, 0, 90}});
}

// --- texts

TEST(DraftFile, TextsAreTheSame) {
  for (const char* name : {"llama-dense", "step35", "qwen35", "gemma3-dense", "deepseek2-moe", "mamba-dense"}) {
    SCOPED_TRACE(name);
    const std::string path = headless_model(name);
    ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_draft(path, eagle_file(path)));
    ASSERT_OK_AND_ASSIGN(const auto plain, Session::create(model.engine, {.n_ctx = 128, .n_ubatch = 16}));
    ASSERT_OK_AND_ASSIGN(const auto speculator, model.create_speculator());
    for (uint32_t i = 0; i < 8; ++i) {
      const auto prompt = token_ids(*model.engine, 1 + i % 30, i + 1);
      const sample::SamplerParams params{.seed = i, .temp = i % 4 == 0 ? 0.0f : 0.25f * static_cast<float>(i % 4)};
      const GenerateOptions options{.n_predict = 10 + i % 30, .ignore_end = i % 2 == 0};
      ASSERT_OK_AND_ASSIGN(const HeadText want, write_text(*plain, model.engine, params, options, prompt, nullptr));
      ASSERT_OK_AND_ASSIGN(const HeadText got,
                           write_text(*model.session, model.engine, params, options, prompt, speculator.get()));
      ASSERT_EQ(got.tokens, want.tokens) << i;
    }
    EXPECT_GT(speculator->counts().n_drafted, 100);
  }
}

TEST(DraftFile, ItGuessesTheSameAfterWrongGuesses) {
  for (const char* name : {"llama-dense", "qwen35"}) {
    SCOPED_TRACE(name);
    const std::string path = headless_model(name), draft = eagle_file(path);
    ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_draft(path, draft, 2));
    ASSERT_OK_AND_ASSIGN(const LoadedModel fresh, load_with_draft(path, draft));
    const auto text = token_ids(*model.engine, 100), wrong = token_ids(*model.engine, 100, 9);
    HeadDrafter drafter(*model.head, 1, "draft");
    drafter.begin(std::span(text).first(10));
    ASSERT_OK(model.session->decode(Batch::prompt(std::span(text).first(9), 0, 1)));
    for (size_t n = 10; n + 4 < text.size(); n += 3) {
      ASSERT_OK_AND_ASSIGN(const auto got, guesses_after(drafter, 4, static_cast<int64_t>(n) - 1));
      ASSERT_OK_AND_ASSIGN(const auto want, fresh_guesses(fresh, std::span(text).first(n), 4));
      EXPECT_EQ(got, want) << n;
      EXPECT_EQ(got.size(), 4u);
      const auto at = static_cast<int32_t>(n) - 1;
      ASSERT_OK(model.session->checkpoint(1));
      Batch batch = Batch::prompt(std::span(text).subspan(n - 1, 3), at, 1);
      for (int32_t i = 0; i < 2; ++i) batch.add({.token = wrong[n], .position = at + 3 + i, .sequence = 1});
      ASSERT_OK(model.session->decode(batch));
      if (model.session->is_recurrent()) {
        ASSERT_OK(model.session->remove(1, at, at + 5));
        ASSERT_OK(model.session->decode(Batch::prompt(std::span(text).subspan(n - 1, 3), at, 1)));
      } else {
        ASSERT_OK(model.session->remove(1, at + 3, at + 5));
      }
      ASSERT_OK(model.session->drop_checkpoints(1));
      for (size_t i = n; i < n + 3; ++i) drafter.append(text[i]);
    }
  }
}

TEST(DraftFile, PlannedBytesAreTaken) {
  const std::string path = arch_model("llama-dense");
  for (const auto& file : {EagleFile{}, EagleFile{.width = 128, .has_tables = false}}) {
    ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_draft(path, eagle_file(path, file), 3, 200));
    SessionOptions session = model.session->options();
    ASSERT_OK_AND_ASSIGN(const MemoryReport plan, plan_sessions(*model.engine, session, {}));
    EXPECT_EQ(plan.total(), model.allocated_memory().total());
    session.part = SessionPart::model;
    session.follower = nullptr;
    ASSERT_OK_AND_ASSIGN(const MemoryReport without, plan_sessions(*model.engine, session, {}));
    EXPECT_LT(without.bytes(MemoryPart::Kind::weights), plan.bytes(MemoryPart::Kind::weights));
    EXPECT_LT(without.bytes(MemoryPart::Kind::cache), plan.bytes(MemoryPart::Kind::cache));
  }
}

// --- refusals

TEST(DraftFile, FilesThatDoNotFitAreRefused) {
  const std::string path = arch_model("llama-dense");
  EXPECT_ERROR(load_with_draft(path, eagle_file(path, {.target_width = 96})),
               "eagle3.gguf: not a draft model for " + path +
                   ": key 'eagle3.target_hidden_size' is 96, and its states "
                   "have 128 elements");
  EXPECT_ERROR(load_with_draft(path, eagle_file(path, {.layers = {0, 1, 3}})),
               "key 'eagle3.target_layers' has layer 3, and it has 2 layers");
  EXPECT_ERROR(load_with_draft(path, eagle_file(path, {.layers = {0, 1}})), "eagle3.target_layers");
  const std::string without_texts = headless_model("step35");
  EXPECT_ERROR(load_with_draft(without_texts, eagle_file(without_texts, {.n_vocab = 30})),
               "its vocabulary has 30 tokens, want 40");
  EXPECT_ERROR(load_with_draft(path, eagle_file(path, {.tokens = {1, 300}})), "tensor d2t: token 300 at 1");
  EXPECT_ERROR(load_with_draft(path, eagle_file(path, {.tokens = {1, -1}})), "tensor d2t: token -1 at 1");
  EXPECT_ERROR(load_with_draft(path, eagle_file(path, {.has_tables = false})), "tensor token_embd.weight is missing");
  EXPECT_ERROR(load_engine(eagle_file(path)), "a draft model (eagle3), which runs beside the model");
  EXPECT_ERROR(open_model(create_registry("").value(), {.path = head_model("glm4moe-moe"),
                                                        .speculation = {.kinds = {DraftKind::head, DraftKind::model}},
                                                        .draft_path = eagle_file(head_model("glm4moe-moe"))}),
               "takes the place of the prediction head");
}

}  // namespace
}  // namespace tessera
