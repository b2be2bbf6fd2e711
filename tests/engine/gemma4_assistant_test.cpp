// The draft model of Gemma 4, which attends to K and V of the model for which it guesses: its formula in double, texts
// that stay the same, its memory, and files that do not fit.
#include <gtest/gtest.h>

#include "tests/engine/head_support.h"
#include "tests/support/draft_file.h"
#include "tests/support/head_model.h"

namespace tessera {
namespace {

using namespace testing;
using tiny::Rows;
using tiny::TinyModel;
using tiny::Vec;

Result<LoadedModel> load_with_assistant(const std::string& path, const std::string& draft, int32_t n_sequences = 1,
                                        DType type = DType::f32) {
  TESSERA_ASSIGN(LoadedModel model,
                 open_model(create_registry("").value(),
                            {.path = path,
                             .engine = {},
                             .speculation = {.kinds = {DraftKind::model}, .n_most = 5, .adapts = false},
                             .draft_path = draft}));
  SessionOptions session{.n_ctx = 128,
                         .n_ubatch = 16,
                         .n_sequences = n_sequences,
                         .n_outputs = 16,
                         .type_k = type,
                         .type_v = type,
                         .attention = AttentionPrecision::float32};
  model.speculation.extend(session);
  TESSERA_TRY(load_session(model, session));
  return model;
}

// The input of a layer for each token.
Rows inputs_of_layer(const std::string& path, int32_t layer, std::span<const int32_t> tokens) {
  const EagleFile file{.layers = {layer, layer, layer}};
  TinyModel m = eagle_weights(path, file);
  std::vector<float>& join = m.weights.at("fc.weight");
  std::ranges::fill(join, 0.0f);
  for (int64_t i = 0; i < tiny::kWidth; ++i) join[static_cast<size_t>(3 * i * tiny::kWidth + i)] = 1.0f;
  const auto model = load_with_assistant(path, write_eagle(std::move(m), file, "choosing.gguf"));
  EXPECT_OK(model);
  Rows rows;
  model->session->follow_hidden([&](auto batch, auto hidden) {
    for (size_t t = 0; t < batch.size(); ++t) {
      const auto row = hidden.subspan(t * tiny::kWidth, tiny::kWidth);
      rows.emplace_back(row.begin(), row.end());
    }
  });
  EXPECT_OK(model->session->decode(Batch::prompt(tokens, 0, 0)));
  return rows;
}

// What a layer of the target stores, by token and head.
struct TargetCache {
  std::vector<Rows> k, v;
};
TargetCache cache_of(const TinyModel& m, int64_t il, const Rows& inputs) {
  const tiny::AttentionRules& rules = il % 2 == 0 ? kWindowHeads : kFullHeads;
  const std::string blk = tiny::block(il);
  TargetCache cache;
  for (size_t t = 0; t < inputs.size(); ++t) {
    const Vec x = tiny::rms(m, blk + "attn_norm.weight", inputs[t]);
    const Vec k = tiny::mul(m, blk + "attn_k.weight", x), v = tiny::mul(m, blk + "attn_v.weight", x);
    cache.k.emplace_back();
    cache.v.emplace_back();
    for (int64_t h = 0; h < rules.n_heads_kv; ++h) {
      Vec head = tiny::rms(m, blk + "attn_k_norm.weight", tiny::part(k, h * rules.dim, rules.dim));
      tiny::rotate(head.data(), static_cast<int64_t>(t), rules);
      cache.k.back().push_back(std::move(head));
      cache.v.back().push_back(tiny::rms(m, "", tiny::part(v, h * rules.dim, rules.dim)));
    }
  }
  return cache;
}

Vec attend_to(const TinyModel& m, int64_t il, const Vec& x, int64_t position, const TargetCache& cache) {
  const tiny::AttentionRules& rules = il % 2 == 0 ? kWindowHeads : kFullHeads;
  const std::string blk = tiny::block(il);
  const Vec q_all = tiny::mul(m, blk + "attn_q.weight", x);
  Vec out;
  for (int64_t h = 0; h < rules.n_heads; ++h) {
    Vec q = tiny::rms(m, blk + "attn_q_norm.weight", tiny::part(q_all, h * rules.dim, rules.dim));
    tiny::rotate(q.data(), position, rules);
    const auto kv = static_cast<size_t>(h / (rules.n_heads / rules.n_heads_kv));
    Vec head(static_cast<size_t>(rules.dim), 0.0);
    double sum = 0;
    for (int64_t t = il % 2 == 0 ? std::max<int64_t>(position + 1 - kDraftWindow, 0) : 0; t < position; ++t) {
      const Vec& k = cache.k[static_cast<size_t>(t)][kv];
      const double weight = std::exp(std::inner_product(q.begin(), q.end(), k.begin(), 0.0));
      sum += weight;
      head = tiny::plus(head, cache.v[static_cast<size_t>(t)][kv], weight);
    }
    for (const double value : head) out.push_back(value / sum);
  }
  return tiny::mul(m, blk + "attn_output.weight", out);
}

struct AssistantRow {
  Vec logits, state;
};
// caches: of the target's last layer with a window, and without one.
AssistantRow assistant_formula(const TinyModel& m, const TinyModel& target, int32_t token, const Vec& state,
                               int64_t position, const std::vector<TargetCache>& caches) {
  Vec x = tiny::part(tiny::vector_of(target, "token_embd.weight"), token * tiny::kWidth, tiny::kWidth);
  for (double& v : x) v *= std::sqrt(static_cast<double>(tiny::kWidth));
  x.insert(x.end(), state.begin(), state.end());
  x = tiny::mul(m, "nextn.pre_projection.weight", x);
  for (int64_t il = 0; il < 2; ++il) {
    const std::string blk = tiny::block(il);
    const Vec y =
        attend_to(m, il, tiny::rms(m, blk + "attn_norm.weight", x), position, caches[static_cast<size_t>(il)]);
    x = tiny::plus(x, tiny::rms(m, blk + "post_attention_norm.weight", y));
    const Vec n = tiny::rms(m, blk + "ffn_norm.weight", x);
    Vec gate = tiny::mul(m, blk + "ffn_gate.weight", n);
    for (double& v : gate) v = tiny::gelu(v);
    const Vec f = tiny::mul(m, blk + "ffn_down.weight", tiny::times(gate, tiny::mul(m, blk + "ffn_up.weight", n)));
    x = tiny::plus(x, tiny::rms(m, blk + "post_ffw_norm.weight", f));
    for (double& v : x) v *= m.at(blk + "layer_output_scale.weight", 0);
  }
  x = tiny::rms(m, "output_norm.weight", x);
  return {tiny::mul(m, "token_embd.weight", x), tiny::mul(m, "nextn.post_projection.weight", x)};
}

void expect_row(std::span<const float> got, const Vec& want) {
  ASSERT_EQ(got.size(), want.size());
  double error = 0, power = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - want[i], 2);
    power += want[i] * want[i];
  }
  EXPECT_LT(error / power, 1e-9);  // products in f32 of norms of a few elements
}

int32_t best_of(const Vec& logits) { return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()); }

TEST(Gemma4Assistant, ComputesItsFormula) {
  TinyModel target = gemma4_weights(), assistant = assistant_weights();
  const std::string path = target.write("gemma4-target.gguf"), draft = assistant.write("gemma4-assistant.gguf");
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_assistant(path, draft));
  const auto text = token_ids(*model.engine, 25);
  const auto read = std::span(text).first(24);
  const std::vector<TargetCache> caches = {cache_of(target, 2, inputs_of_layer(path, 2, read)),
                                           cache_of(target, 3, inputs_of_layer(path, 3, read))};
  ASSERT_OK(model.session->decode(Batch::prompt(read.first(16), 0, 0)));
  ASSERT_OK(model.session->decode(Batch::prompt(read.subspan(16), 16, 0)));
  const auto kept = model.session->hidden().last(tiny::kWidth);
  std::vector<float> state(kept.begin(), kept.end());
  ASSERT_OK_AND_ASSIGN(
      const auto session,
      Session::create(model.draft_engine,
                      {.n_ctx = 64, .n_ubatch = 4, .part = SessionPart::head, .attention = AttentionPrecision::float32},
                      model.session.get()));
  expect_documented(*session);
  Batch batch;
  int32_t token = text[24];
  std::vector<int32_t> want;
  for (int i = 0; i < 3; ++i) {
    const AssistantRow row = assistant_formula(assistant, target, token, Vec(state.begin(), state.end()), 24, caches);
    batch.clear();
    batch.add({.token = token, .position = 24, .wants_logits = true});
    ASSERT_OK(session->decode_after(batch, state));
    expect_row(session->logits(0), row.logits);
    expect_row(session->hidden(), row.state);
    state.assign(session->hidden().begin(), session->hidden().end());
    token = best_of(row.logits);
    want.push_back(token);
    ASSERT_OK(session->remove(0, 24, 25));
  }
  // The drafter does the same.
  ASSERT_OK(model.session->clear());
  ASSERT_OK_AND_ASSIGN(const auto guesses, fresh_guesses(model, text, 3));
  EXPECT_EQ(guesses, want);
}

TEST(Gemma4Assistant, TextsAreTheSame) {
  const std::string path = gemma4_weights().write("gemma4-target.gguf"),
                    draft = assistant_weights().write("gemma4-assistant.gguf");
  for (const DType type : {DType::f16, DType::f32}) {
    ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_assistant(path, draft, 2, type));
    ASSERT_OK_AND_ASSIGN(const auto plain,
                         Session::create(model.engine, {.n_ctx = 128, .n_ubatch = 16, .type_k = type, .type_v = type}));
    ASSERT_OK_AND_ASSIGN(const auto speculator, model.create_speculator());
    for (uint32_t i = 0; i < 12; ++i) {
      const auto prompt = token_ids(*model.engine, 1 + i % 30, i + 1);
      const sample::SamplerParams params{.seed = i, .temp = 0.25f * static_cast<float>(i % 4)};
      const GenerateOptions options{.n_predict = 10 + i % 30, .ignore_end = i % 2 == 0};
      ASSERT_OK_AND_ASSIGN(const HeadText want, write_text(*plain, model.engine, params, options, prompt, nullptr));
      ASSERT_OK_AND_ASSIGN(const HeadText got,
                           write_text(*model.session, model.engine, params, options, prompt, speculator.get()));
      ASSERT_EQ(got.tokens, want.tokens) << i;
    }
    EXPECT_GT(speculator->counts().n_drafted, 150);
  }
}

TEST(Gemma4Assistant, ItGuessesTheSameAfterWrongGuesses) {
  const std::string path = gemma4_weights().write("gemma4-target.gguf"),
                    draft = assistant_weights().write("gemma4-assistant.gguf");
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_assistant(path, draft, 2));
  ASSERT_OK_AND_ASSIGN(const LoadedModel fresh, load_with_assistant(path, draft));
  const auto text = token_ids(*model.engine, 80), wrong = token_ids(*model.engine, 80, 9);
  HeadDrafter drafter(*model.head, 1, "draft");
  drafter.begin(std::span(text).first(10));
  ASSERT_OK(model.session->decode(Batch::prompt(std::span(text).first(9), 0, 1)));
  for (size_t n = 10; n + 4 < text.size(); n += 3) {
    const auto at = static_cast<int32_t>(n) - 1;
    ASSERT_OK_AND_ASSIGN(const auto got, guesses_after(drafter, 4, at));
    ASSERT_OK_AND_ASSIGN(const auto want, fresh_guesses(fresh, std::span(text).first(n), 4));
    EXPECT_EQ(got, want) << n;
    EXPECT_EQ(got.size(), 4u);
    Batch batch = Batch::prompt(std::span(text).subspan(n - 1, 3), at, 1);
    for (int32_t i = 0; i < 2; ++i) batch.add({.token = wrong[n], .position = at + 3 + i, .sequence = 1});
    batch.add({.token = wrong[n], .position = at / 3 - 3, .sequence = 0});
    ASSERT_OK(model.session->decode(batch));
    ASSERT_OK(model.session->remove(1, at + 3, at + 5));
    for (size_t i = n; i < n + 3; ++i) drafter.append(text[i]);
  }
}

TEST(Gemma4Assistant, PlannedBytesAreTaken) {
  const std::string path = gemma4_weights().write("gemma4-target.gguf"),
                    draft = assistant_weights().write("gemma4-assistant.gguf");
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_assistant(path, draft, 3));
  SessionOptions session = model.session->options();
  ASSERT_OK_AND_ASSIGN(const MemoryReport plan, plan_sessions(*model.engine, session, {}));
  EXPECT_EQ(plan.total(), model.allocated_memory().total());
  session.part = SessionPart::model;
  session.follower = nullptr;
  ASSERT_OK_AND_ASSIGN(const MemoryReport without, plan_sessions(*model.engine, session, {}));
  EXPECT_LT(without.bytes(MemoryPart::Kind::weights), plan.bytes(MemoryPart::Kind::weights));
  // It stores no K and V, only which positions it has.
  EXPECT_LT(plan.bytes(MemoryPart::Kind::cache), without.bytes(MemoryPart::Kind::cache) + 1000);
}

TEST(Gemma4Assistant, FilesThatDoNotFitAreRefused) {
  const std::string path = gemma4_weights().write("gemma4-target.gguf");
  EXPECT_ERROR(load_with_assistant(path, assistant_weights(11).write("other-window.gguf")),
               "layer 0 has 4 heads of 8 and a window of 11, which fit none of its layers");
  EXPECT_ERROR(load_with_assistant(path, assistant_weights(kDraftWindow, 20).write("other-width.gguf")),
               "key 'gemma4-assistant.embedding_length_out' is 20, and its states have 24 elements");
  EXPECT_ERROR(load_with_assistant(headless_model("step35"), assistant_weights().write("gemma4-assistant.gguf")),
               "which fit none of its layers");
  EXPECT_ERROR(load_engine(assistant_weights().write("gemma4-assistant.gguf")), "a draft model (gemma4-assistant)");
}

}  // namespace
}  // namespace tessera
