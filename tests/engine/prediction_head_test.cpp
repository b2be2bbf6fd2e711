// Prediction heads: their formula, the caches that follow the model's, and texts that stay the same.
#include "tessera/engine/speculative/prediction_head.h"

#include <gtest/gtest.h>

#include "tests/engine/head_support.h"
#include "tests/support/fake_device.h"
#include "tests/support/head_model.h"

namespace tessera {
namespace {

using namespace testing;

SpeculationOptions head_guesses() { return {.kinds = {DraftKind::head}, .n_most = 5, .adapts = false}; }

// A model with a head whose session is ready.
Result<LoadedModel> load_with_head(const std::string& path, int32_t n_sequences = 1, int64_t n_ctx = 128,
                                   const PlacementOptions& placement = {}, std::shared_ptr<Registry> registry = {}) {
  if (registry == nullptr) {
    TESSERA_ASSIGN(registry, create_registry(""));
  }
  TESSERA_ASSIGN(LoadedModel model,
                 open_model(std::move(registry),
                            {.path = path, .engine = {.placement = placement}, .speculation = head_guesses()}));
  SessionOptions session{.n_ctx = n_ctx, .n_ubatch = 16, .n_sequences = n_sequences};
  model.speculation.extend(session);
  TESSERA_TRY(load_session(model, session));
  return model;
}

// --- the formula

std::vector<double> normed(std::span<const float> x, std::span<const float> weight) {
  double sum = 0;
  for (const float v : x) sum += double{v} * double{v};
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + double{1e-5f});
  std::vector<double> y;
  for (size_t i = 0; i < x.size(); ++i) y.push_back(double{x[i]} * scale * double{weight[i]});
  return y;
}

// Makes a model whose only layer is a block of a head. The embedding of token t is the input of that block at position
// t, so the logits of tokens 0, 1, 2, ... are those of the block.
std::string block_alone(const std::string& path, int64_t index, const std::vector<std::vector<float>>& inputs) {
  FloatModel m(path);
  const std::string arch(m.file->metadata().get<std::string_view>("general.architecture").value());
  const std::string block = "blk." + std::to_string(index) + ".";
  const auto take = [&](const std::string& own, const std::string& of_model) {
    const FloatModel::Entry* entry = m.find(block + "nextn." + own + ".weight");
    return (entry != nullptr ? *entry : m.at(of_model)).values;
  };
  const auto norm = take("shared_head_norm", "output_norm.weight"), output = take("shared_head_head", "output.weight");
  m.at("output_norm.weight").values = norm;
  m.at("output.weight").values = output;
  std::erase_if(m.tensors, [&](const FloatModel::Entry& entry) {
    return entry.name.starts_with("blk.") &&
           (!entry.name.starts_with(block) || entry.name.find("nextn") != std::string::npos);
  });
  for (FloatModel::Entry& entry : m.tensors)
    if (entry.name.starts_with(block)) entry.name.replace(0, block.size(), "blk.0.");
  std::vector<float>& table = m.at("token_embd.weight").values;
  for (size_t t = 0; t < inputs.size(); ++t)
    std::ranges::copy(inputs[t], table.begin() + static_cast<ptrdiff_t>(t * inputs[t].size()));
  m.keys.set(arch + ".block_count", 1u);
  m.keys.set(arch + ".nextn_predict_layers", 0u);
  m.keys.set(arch + ".leading_dense_block_count", 0u);
  m.keys.set(arch + ".full_attention_interval", 1u);
  if (arch == "qwen35moe") m.keys.set_array(arch + ".attention.recurrent_layers", std::vector<int32_t>{0});
  // Heads of cohere2moe are rotated, which its layers are only with a window.
  if (m.file->metadata().find(arch + ".attention.sliding_window_pattern") != nullptr)
    m.keys.set_array(arch + ".attention.sliding_window_pattern", std::vector<int32_t>{arch == "cohere2moe" ? 1 : 0});
  return m.write(arch + "-block.gguf");
}

// The hidden states of step35 and mimo2 come before the final norm, those of the others after it.
void expect_logits_of_hidden(FloatModel& weights, const Session& trunk, std::span<const float> logits) {
  const std::string arch = trunk.engine().model().info().architecture;
  const auto width = static_cast<size_t>(trunk.engine().model().info().n_embd);
  const auto first = trunk.hidden().first(width);
  std::vector<double> x(first.begin(), first.end());
  if (arch == "step35" || arch == "mimo2") x = normed(first, weights.at("output_norm.weight").values);
  const std::vector<float>& output = weights.at("output.weight").values;
  const double scale = arch == "cohere2moe" ? 0.5 : 1.0;
  for (size_t i = 0; i < output.size() / width; ++i) {
    const double want =
        scale * std::inner_product(x.begin(), x.end(), output.begin() + static_cast<ptrdiff_t>(i * width), 0.0);
    EXPECT_NEAR(logits[i], want, 1e-4) << i;  // sums of f32 products of order 1
  }
}

void check_formula(const std::string& path, size_t index = 0) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path, {.head = HeadUse::needed}));
  FloatModel weights(path);
  const int64_t of_file = engine->model().info().n_layers + static_cast<int64_t>(index);
  const std::string block = "blk." + std::to_string(of_file) + ".nextn.";
  const auto values = [&](const std::string& name) { return weights.at(block + name + ".weight").values; };
  const std::vector<int32_t> tokens = token_ids(*engine, 12);
  const auto n = static_cast<int64_t>(tokens.size());
  ASSERT_OK_AND_ASSIGN(
      const auto trunk,
      Session::create(engine, {.n_ctx = 32, .n_ubatch = 16, .n_outputs = 16, .part = SessionPart::model_with_hidden}));
  ASSERT_OK_AND_ASSIGN(const auto plain, Session::create(engine, {.n_ctx = 32, .n_ubatch = 16, .n_outputs = 16}));
  ASSERT_OK_AND_ASSIGN(const auto want_logits, logits_of(*plain, tokens));
  ASSERT_OK_AND_ASSIGN(const auto same_logits, logits_of(*trunk, tokens));
  EXPECT_TRUE(same_bits(want_logits, same_logits));
  EXPECT_TRUE(plain->hidden().empty());
  const size_t width = trunk->hidden().size() / tokens.size();
  ASSERT_EQ(width, static_cast<size_t>(engine->model().info().n_embd));

  expect_logits_of_hidden(weights, *trunk, want_logits);

  // The hidden states of the tokens before, with zeros before the first one.
  std::vector<float> before(width, 0.0f);
  before.insert(before.end(), trunk->hidden().begin(), trunk->hidden().end() - static_cast<ptrdiff_t>(width));
  const FloatModel::Entry* own = weights.find(block + "embed_tokens.weight");
  const std::vector<float> table = own != nullptr ? own->values : weights.at("token_embd.weight").values;
  const auto join = values("eh_proj"), enorm = values("enorm"), hnorm = values("hnorm");
  std::vector<std::vector<float>> inputs;
  for (size_t t = 0; t < tokens.size(); ++t) {
    auto x = normed(std::span(table).subspan(static_cast<size_t>(tokens[t]) * width, width), enorm);
    const auto h = normed(std::span(before).subspan(t * width, width), hnorm);
    x.insert(x.end(), h.begin(), h.end());
    std::vector<float>& u = inputs.emplace_back();
    for (size_t o = 0; o < width; ++o) {
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i) sum += double{join[o * x.size() + i]} * x[i];
      u.push_back(static_cast<float>(sum));
    }
  }
  ASSERT_OK_AND_ASSIGN(const auto alone, load_engine(block_alone(path, of_file, inputs)));
  ASSERT_OK_AND_ASSIGN(const auto reference, Session::create(alone, {.n_ctx = 32, .n_ubatch = 16, .n_outputs = 16}));
  std::vector<int32_t> ids(tokens.size());
  std::iota(ids.begin(), ids.end(), 0);
  ASSERT_OK_AND_ASSIGN(const auto want, logits_of(*reference, ids));

  ASSERT_OK_AND_ASSIGN(
      const auto head,
      Session::create(engine,
                      {.n_ctx = 32, .n_ubatch = 16, .n_outputs = 16, .part = SessionPart::head, .head_block = index}));
  ASSERT_OK(head->decode_after(all_logits(tokens), before));
  const std::vector<float> got = all_rows(*head);
  ASSERT_EQ(got.size(), want.size());
  double error = 0, power = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - double{want[i]}, 2);
    power += double{want[i]} * double{want[i]};
  }
  EXPECT_LT(error / power, 1e-9);
  EXPECT_EQ(head->hidden().size(), tokens.size() * width);

  // Token by token the bits are the same, also those of the hidden states.
  const std::vector<float> hidden(head->hidden().begin(), head->hidden().end());
  ASSERT_OK(head->clear());
  for (int64_t t = 0; t < n; ++t) {
    const auto i = static_cast<size_t>(t);
    ASSERT_OK(head->decode_after(all_logits(std::span(tokens).subspan(i, 1), static_cast<int32_t>(t)),
                                 std::span(before).subspan(i * width, width)));
    EXPECT_TRUE(same_bits(head->logits(0),
                          std::span(got).subspan(i * got.size() / tokens.size()).first(got.size() / tokens.size())));
    EXPECT_TRUE(same_bits(head->hidden(), std::span(hidden).subspan(i * width, width)));
  }
}

TEST(PredictionHead, ComputesItsFormulaInEveryArchitecture) {
  for (const char* name : kHeadModels)
    for (const HeadWeights weights : {HeadWeights::own, HeadWeights::of_model}) {
      SCOPED_TRACE(name);
      check_formula(head_model(name, weights));
    }
}

TEST(PredictionHead, EachBlockComputesItsFormula) {
  for (const char* name : kBlockModels)
    for (const HeadWeights weights : {HeadWeights::own, HeadWeights::of_model})
      for (const size_t index : {0u, 1u, 2u}) {
        SCOPED_TRACE(std::string(name) + std::to_string(index));
        check_formula(head_model(name, weights), index);
      }
}

// --- refusals

TEST(PredictionHead, MissingHeadsAreRefused) {
  EXPECT_ERROR(load_with_head(arch_model("glm4moe-moe")), "the file has no prediction head");
  EXPECT_ERROR(load_with_head(arch_model("llama-dense")), "prediction heads of the architecture llama");
  FloatModel trunk(head_model("glm4moe-moe"));
  trunk.drop("blk.2.nextn.eh_proj.weight");  // only the keys are left
  EXPECT_ERROR(load_with_head(trunk.write("trunk.gguf")), "the file has no prediction head");
  FloatModel broken(head_model("glm4moe-moe"));
  broken.drop("blk.2.nextn.hnorm.weight");
  EXPECT_ERROR(load_with_head(broken.write("broken.gguf")), "tensor blk.2.nextn.hnorm.weight");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(head_model("glm4moe-moe")));  // not asked for its head
  EXPECT_ERROR(Session::create(engine, {.n_ctx = 32, .part = SessionPart::head}), "no prediction head was loaded");
  EXPECT_ERROR(create_speculator(head_guesses(), 10, {}), "no prediction head");
}

TEST(PredictionHead, IsLoadedOnlyIfItIsWanted) {
  const auto head_of = [](const std::string& path, bool tries_head, const SpeculationOptions& speculation) {
    const auto model =
        open_model(create_registry("").value(), {.path = path, .speculation = speculation, .tries_head = tries_head});
    EXPECT_OK(model);
    return model && model->engine->model().head() != nullptr;
  };
  const std::string with = head_model("qwen35"), without = headless_model("qwen35");
  EXPECT_FALSE(head_of(with, false, {}));
  EXPECT_FALSE(head_of(with, false, {.kinds = {DraftKind::suffix}}));
  EXPECT_TRUE(head_of(with, false, head_guesses()));
  EXPECT_TRUE(head_of(with, true, {}));
  EXPECT_TRUE(head_of(with, true, head_guesses()));
  EXPECT_FALSE(head_of(without, true, {}));
  EXPECT_FALSE(head_of(arch_model("llama-dense"), true, {}));
  EXPECT_ERROR(
      open_model(create_registry("").value(), {.path = without, .speculation = head_guesses(), .tries_head = true}),
      "the file has no prediction head");
}

TEST(PredictionHead, HiddenStatesMustFitTheBatch) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(head_model("glm4moe-moe"), {.head = HeadUse::needed}));
  ASSERT_OK_AND_ASSIGN(const auto head,
                       Session::create(engine, {.n_ctx = 32, .n_ubatch = 4, .part = SessionPart::head}));
  const std::vector<float> hidden(size_t{6} * 128);
  const auto batch = [&](size_t n) { return Batch::prompt(std::vector<int32_t>(n, 1), 0, 0); };
  EXPECT_ERROR(head->decode_after(batch(2), std::span(hidden).first(128)), "hidden states of 128 elements");
  EXPECT_ERROR(head->decode_after(batch(6), hidden), "hidden states of");  // more than a micro-batch
  ASSERT_OK(head->decode_after(batch(4), std::span(hidden).first(512)));
  ASSERT_OK_AND_ASSIGN(const auto plain, Session::create(engine, {.n_ctx = 32, .n_ubatch = 4}));
  EXPECT_ERROR(plain->decode_after(batch(4), std::span(hidden).first(512)), "hidden states of");
}

// --- texts

TEST(PredictionHead, AThousandTextsAreTheSame) {
  int64_t n_accepted = 0;
  const uint32_t n_texts = runs_all_cases() ? 200 : 8;  // of each architecture
  std::vector<const char*> names(std::begin(kHeadModels), std::end(kHeadModels));
  names.insert(names.end(), std::begin(kBlockModels), std::end(kBlockModels));
  for (const char* name : names) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_head(head_model(name)));
    ASSERT_OK_AND_ASSIGN(const auto plain, Session::create(model.engine, {.n_ctx = 128, .n_ubatch = 16}));
    ASSERT_OK_AND_ASSIGN(const auto speculator, model.create_speculator());
    for (uint32_t i = 0; i < n_texts; ++i) {
      const auto prompt = token_ids(*model.engine, 1 + i % 30, i + 1);
      const sample::SamplerParams params{.seed = i, .temp = i % 4 == 0 ? 0.0f : 0.25f * static_cast<float>(i % 4)};
      const GenerateOptions options{.n_predict = 10 + i % 30, .ignore_end = i % 2 == 0};
      ASSERT_OK_AND_ASSIGN(const HeadText want, write_text(*plain, model.engine, params, options, prompt, nullptr));
      ASSERT_OK_AND_ASSIGN(const HeadText got,
                           write_text(*model.session, model.engine, params, options, prompt, speculator.get()));
      ASSERT_EQ(got.tokens, want.tokens) << i;
    }
    EXPECT_GT(speculator->counts().n_drafted, 20 * n_texts);
    EXPECT_LT(speculator->counts().n_accepted, speculator->counts().n_drafted);
    n_accepted += speculator->counts().n_accepted;
  }
  EXPECT_GT(n_accepted, 0);
}

TEST(PredictionHead, AHeadThatComputesTheModelIsAlwaysRight) {
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_head(copying_head_model()));
  ASSERT_OK_AND_ASSIGN(const auto speculator, model.create_speculator());
  const GenerateOptions options{.n_predict = 60, .ignore_end = true};
  ASSERT_OK_AND_ASSIGN(const HeadText text, write_text(*model.session, model.engine, {.seed = 1, .temp = 0}, options,
                                                       token_ids(*model.engine, 7), speculator.get()));
  EXPECT_EQ(text.tokens.size(), 60u);
  EXPECT_EQ(text.counts.n_accepted, text.counts.n_drafted);
  EXPECT_GE(text.counts.n_drafted, 48);  // 5 of 6 tokens
}

// Each block makes one guess of a step, so a wrong one makes the guesses from there on wrong.
TEST(PredictionHead, EachBlockMakesOneGuess) {
  const auto count = [](const std::string& path) {
    const auto model = load_with_head(path);
    EXPECT_OK(model);
    const auto speculator = model->create_speculator().value();
    const GenerateOptions options{.n_predict = 60, .ignore_end = true};
    const auto text = write_text(*model->session, model->engine, {.seed = 1, .temp = 0}, options,
                                 token_ids(*model->engine, 7), speculator.get());
    EXPECT_OK(text);
    EXPECT_EQ(text->tokens.size(), 60u);
    return text->counts;
  };
  const SpeculationCounts right = count(copying_head_model(3));
  EXPECT_EQ(right.n_accepted, right.n_drafted);
  EXPECT_GE(right.n_drafted, 40);                  // 3 of 4 tokens
  EXPECT_LE(right.n_drafted, 3 * right.n_drafts);  // not more than there are blocks
  const SpeculationCounts second = count(copying_head_model(3, 1)), first = count(copying_head_model(3, 0));
  EXPECT_GE(second.n_accepted, second.n_drafts - 1);  // those of the first block
  EXPECT_LT(second.n_accepted, 3 * second.n_drafts / 2);
  EXPECT_LT(first.n_accepted, first.n_drafts / 2);
}

TEST(PredictionHead, ItGuessesTheSameOnOtherDevices) {
  for (const std::string& path : {copying_head_model(), head_model("qwen35"), head_model("mimo2:3")}) {
    std::vector<HeadText> texts;
    const auto registry = [] { return fake_registry({{}, {.name = "fake:1"}}); };
    for (const PlacementOptions& placement :
         {PlacementOptions{}, PlacementOptions{.devices = {"fake:0"}},
          PlacementOptions{.devices = {"fake:0", "fake:1"}}, PlacementOptions{.devices = {"fake:0"}, .n_gpu_layers = 1},
          PlacementOptions{.devices = {"fake:0", "fake:1"}, .n_gpu_layers = 2, .offload_caches = false}}) {
      ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_head(path, 1, 128, placement, registry()));
      ASSERT_OK_AND_ASSIGN(const auto speculator, model.create_speculator());
      const GenerateOptions options{.n_predict = 30, .ignore_end = true};
      ASSERT_OK_AND_ASSIGN(texts.emplace_back(), write_text(*model.session, model.engine, {.seed = 1, .temp = 0},
                                                            options, token_ids(*model.engine, 50), speculator.get()));
      EXPECT_EQ(texts.back().tokens, texts.front().tokens);
      EXPECT_EQ(texts.back().counts.n_drafted, texts.front().counts.n_drafted);
      EXPECT_EQ(texts.back().counts.n_accepted, texts.front().counts.n_accepted);
      ASSERT_OK_AND_ASSIGN(const MemoryReport plan, plan_sessions(*model.engine, model.session->options(), {}));
      EXPECT_EQ(plan.total(), model.allocated_memory().total());
    }
  }
}

// --- the cache that follows

// Block i computes the text's last token and the guesses before its own, each with the state of the block that made it.
TEST(PredictionHead, LaterBlocksTakeTheStatesOfEarlierOnes) {
  constexpr size_t kRead = 10;
  for (const char* name : kBlockModels) {
    SCOPED_TRACE(name);
    const std::string path = head_model(name);
    ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_head(path));
    const auto text = token_ids(*model.engine, kRead + 1);
    ASSERT_OK_AND_ASSIGN(const auto got, fresh_guesses(model, text, 5));
    const auto width = static_cast<size_t>(model.engine->model().info().n_embd);
    std::vector<float> before(width, 0.0f);
    before.insert(before.end(), model.session->hidden().begin(), model.session->hidden().end());
    std::vector<int32_t> tokens(text.end() - 1, text.end());
    std::vector<float> states(before.end() - static_cast<ptrdiff_t>(width), before.end());
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_OK_AND_ASSIGN(
          const auto block,
          Session::create(model.engine, {.n_ctx = 32, .n_ubatch = 16, .part = SessionPart::head, .head_block = i}));
      ASSERT_OK(block->decode_after(Batch::prompt(std::span(text).first(kRead), 0, 0),
                                    std::span(before).first(kRead * width)));
      ASSERT_OK(block->decode_after(Batch::prompt(tokens, kRead, 0), states));
      tokens.push_back(static_cast<int32_t>(std::ranges::max_element(block->logits(0)) - block->logits(0).begin()));
      states.insert(states.end(), block->hidden().begin(), block->hidden().end());
    }
    EXPECT_EQ(got, std::vector<int32_t>(tokens.begin() + 1, tokens.end()));
  }
}

class FollowingHead : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = head_model(GetParam());
    ASSERT_OK_AND_ASSIGN(model_, load_with_head(path, 2));
    ASSERT_OK_AND_ASSIGN(fresh_, load_with_head(path));
    text_ = token_ids(*model_.engine, 60);
  }

  LoadedModel model_, fresh_;
  std::vector<int32_t> text_;
};

TEST_P(FollowingHead, ItGuessesTheSameAfterWrongGuesses) {
  HeadDrafter drafter(*model_.head, 1);
  drafter.begin(std::span(text_).first(10));
  const auto wrong = token_ids(*model_.engine, 60, 9);
  ASSERT_OK(model_.session->decode(Batch::prompt(std::span(text_).first(9), 0, 1)));
  int32_t n_others = 0;
  for (size_t n = 10; n + 4 < text_.size(); n += 3) {
    ASSERT_OK_AND_ASSIGN(const auto got, guesses_after(drafter, 3, static_cast<int64_t>(n) - 1));
    ASSERT_OK_AND_ASSIGN(const auto want, fresh_guesses(fresh_, std::span(text_).first(n), 3));
    EXPECT_EQ(got, want) << n;
    // The step verifies three tokens of the text and two others. Another sequence is in it too.
    ASSERT_OK(model_.session->checkpoint(1));
    Batch batch = Batch::prompt(std::span(text_).subspan(n - 1, 3), static_cast<int32_t>(n) - 1, 1);
    for (int32_t i = 0; i < 2; ++i)
      batch.add({.token = wrong[n], .position = static_cast<int32_t>(n) + 2 + i, .sequence = 1});
    batch.add({.token = wrong[n], .position = n_others++, .sequence = 0});
    ASSERT_OK(model_.session->decode(batch));
    if (model_.session->is_recurrent()) {
      const auto at = static_cast<int32_t>(n) - 1;
      ASSERT_OK(model_.session->remove(1, at, at + 5));
      ASSERT_OK(model_.session->decode(Batch::prompt(std::span(text_).subspan(n - 1, 3), at, 1)));
    } else {
      ASSERT_OK(model_.session->remove(1, static_cast<int32_t>(n) + 2, static_cast<int32_t>(n) + 4));
    }
    ASSERT_OK(model_.session->drop_checkpoints(1));
    for (size_t i = n; i < n + 3; ++i) drafter.append(text_[i]);
  }
}

TEST_P(FollowingHead, ATextThatBeginsTheSameIsKept) {
  HeadDrafter drafter(*model_.head, 0);
  ASSERT_OK(model_.session->decode(Batch::prompt(std::span(text_).first(40), 0, 0)));
  auto other = text_;
  for (size_t i = 30; i < other.size(); ++i) other[i] = text_[i] ^ 1;
  if (model_.session->is_recurrent()) {
    ASSERT_OK(model_.session->remove(0, 0, 40));
    ASSERT_OK(model_.session->decode(Batch::prompt(std::span(other).first(30), 0, 0)));
  } else {
    ASSERT_OK(model_.session->remove(0, 30, 40));
  }
  drafter.begin(std::span(other).first(36));
  ASSERT_OK(model_.session->decode(Batch::prompt(std::span(other).subspan(30, 5), 30, 0)));
  ASSERT_OK_AND_ASSIGN(const auto got, guesses_after(drafter, 4, 35));
  ASSERT_OK_AND_ASSIGN(const auto want, fresh_guesses(fresh_, std::span(other).first(36), 4));
  EXPECT_EQ(got, want);
}

TEST_P(FollowingHead, AHeadWithoutTheTokenBeforeMakesNoGuess) {
  HeadDrafter drafter(*model_.head, 0);
  drafter.begin(text_);
  ASSERT_OK_AND_ASSIGN(const auto none, guesses_after(drafter, 4, 59));
  EXPECT_TRUE(none.empty());
  ASSERT_OK(model_.session->decode(Batch::prompt(std::span(text_).first(20), 0, 0)));
  ASSERT_OK_AND_ASSIGN(const auto ahead, guesses_after(drafter, 4, 21));
  EXPECT_TRUE(ahead.empty());
  ASSERT_OK_AND_ASSIGN(const auto guesses, guesses_after(drafter, 4, 20));
  EXPECT_EQ(guesses.size(), std::string(GetParam()).ends_with(":3") ? 3u : 4u);
  EXPECT_GT(drafter.ms_per_token(), 0);
}

std::string parameter_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (c == '-' || c == ':') c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Heads, FollowingHead, ::testing::ValuesIn(kHeadModels), parameter_name);
INSTANTIATE_TEST_SUITE_P(HeadsOfBlocks, FollowingHead, ::testing::ValuesIn(kBlockModels), parameter_name);

// The hidden states of the last 64 tokens are kept, so the head goes back as far without a loss.
TEST(PredictionHead, ItGoesBackAsFarAsTheModel) {
  const std::string path = head_model("glm4moe-moe");
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_head(path));
  ASSERT_OK_AND_ASSIGN(const LoadedModel fresh, load_with_head(path));
  const auto text = token_ids(*model.engine, 100);
  for (const int32_t n_back : {1, 2, 15, 31, 32, 33, 34, 62, 63, 64, 65, 90}) {
    SCOPED_TRACE(n_back);
    ASSERT_OK(model.session->clear());
    HeadDrafter drafter(*model.head, 0);
    drafter.begin(text);
    ASSERT_OK(model.session->decode(Batch::prompt(text, 0, 0)));
    const int32_t begin = 100 - n_back;
    std::vector<int32_t> other(text.begin(), text.begin() + begin);
    for (int32_t i = 0; i < 4; ++i) other.push_back(text[static_cast<size_t>(begin) - 1] ^ (i + 1));
    ASSERT_OK(model.session->remove(0, begin, 100));
    drafter.begin(other);
    ASSERT_OK(model.session->decode(Batch::prompt(std::span(other).subspan(static_cast<size_t>(begin), 3), begin, 0)));
    ASSERT_OK_AND_ASSIGN(const auto got, guesses_after(drafter, 5, begin + 3));
    ASSERT_OK_AND_ASSIGN(const auto want, fresh_guesses(fresh, other, 5));
    EXPECT_EQ(got.size(), 5u);
    if (n_back < 64) {
      EXPECT_EQ(got, want);
    }
  }
}

TEST(PredictionHead, ItFollowsOnlyWhileItIsUsed) {
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_head(head_model("glm4moe-moe")));
  const auto text = token_ids(*model.engine, 20);
  ASSERT_OK(model.session->decode(Batch::prompt(text, 0, 0)));
  HeadDrafter drafter(*model.head, 0);
  drafter.begin(text);
  ASSERT_OK_AND_ASSIGN(const auto unread, guesses_after(drafter, 2, 20));
  EXPECT_TRUE(unread.empty());
  // It goes on from where it is: the text before is unknown to it.
  ASSERT_OK(model.session->decode(Batch::prompt(std::span(text).first(3), 20, 0)));
  ASSERT_OK_AND_ASSIGN(const auto guesses, guesses_after(drafter, 2, 23));
  EXPECT_EQ(guesses.size(), 2u);
}

// A sequence that is no longer used may fill the head's cache. It is then forgotten.
TEST(PredictionHead, AFullCacheIsEmptied) {
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_head(head_model("glm4moe-moe"), 2, 64));
  HeadDrafter first(*model.head, 0), second(*model.head, 1);
  const auto text = token_ids(*model.engine, 60);
  for (int round = 0; round < 4; ++round)
    for (const int32_t sequence : {0, 1}) {
      ASSERT_OK(model.session->clear());
      ASSERT_OK(model.session->decode(Batch::prompt(std::span(text).first(59), 0, sequence)));
      HeadDrafter& drafter = sequence == 0 ? first : second;
      drafter.begin(text);
      ASSERT_OK_AND_ASSIGN(const auto guesses, guesses_after(drafter, 2, 59));
      EXPECT_EQ(guesses.size(), 2u);
    }
}

TEST(PredictionHead, PlannedBytesAreTaken) {
  for (const auto& [name, n_ctx] : {std::pair("qwen35", 64), {"qwen35", 1000}, {"step35:3", 1000}}) {
    ASSERT_OK_AND_ASSIGN(const LoadedModel model, load_with_head(head_model(name), 3, n_ctx));
    SessionOptions session = model.session->options();
    ASSERT_OK_AND_ASSIGN(const MemoryReport plan, plan_sessions(*model.engine, session, {}));
    const MemoryReport taken = model.allocated_memory();
    EXPECT_EQ(plan.total(), taken.total());
    session.part = SessionPart::model;
    ASSERT_OK_AND_ASSIGN(const MemoryReport without, plan_sessions(*model.engine, session, {}));
    EXPECT_LT(without.bytes(MemoryPart::Kind::cache), plan.bytes(MemoryPart::Kind::cache));
    EXPECT_EQ(without.bytes(MemoryPart::Kind::weights), plan.bytes(MemoryPart::Kind::weights));
  }
}

}  // namespace
}  // namespace tessera
