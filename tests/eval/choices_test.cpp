// Scores of multiple-choice tasks: the scored tokens of each form, means compared with whole texts decoded alone, and
// equal bits for every grouping of tasks.
#include "tessera/eval/choices.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tessera/eval/log_likelihood.h"
#include "tests/eval/letters.h"
#include "tests/support/editable_model.h"
#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using namespace testing;
using eval::ChoiceForm;
using eval::ChoiceRun;
using eval::ChoiceScore;
using eval::ChoiceTask;
using eval::ChoiceTokens;
using eval::tokenize_choices;
using Ids = std::vector<int32_t>;
using Means = std::vector<std::vector<double>>;

ChoiceTask make_task(const std::string& before, const std::vector<std::string>& answers,
                     const std::string& after = "") {
  ChoiceTask task{.number = 7, .before = before, .after = after, .answers = {}};
  for (const std::string& answer : answers) task.answers.push_back({.text = answer});
  return task;
}

ChoiceTokens tokens_of(ChoiceForm form, const ChoiceTask& task, Bos bos = Bos::add) {
  const auto made = tokenize_choices(form, *letters(bos), task, 100);
  EXPECT_OK(made);
  return made ? *made : ChoiceTokens{};
}

void expect_tail(const ChoiceTokens& made, size_t i, const Ids& tokens, Range scored) {
  ASSERT_LT(i, made.tails.size());
  EXPECT_EQ(made.tails[i].tokens, tokens) << i;
  EXPECT_EQ(made.tails[i].scored.begin, scored.begin) << i;
  EXPECT_EQ(made.tails[i].scored.end, scored.end) << i;
}

TEST(TokenizeChoices, ScoresWhatFollowsTheSharedTokens) {
  for (const ChoiceForm form : {ChoiceForm::hellaswag, ChoiceForm::multiple_choice}) {
    const ChoiceTokens made = tokens_of(form, make_task("ab", {"ca", "cbd", "ccd"}));
    EXPECT_EQ(made.number, 7);
    EXPECT_EQ(made.shared, (Ids{1, 3, 4, 5}));  // includes c
    expect_tail(made, 0, {3}, {4, 5});
    expect_tail(made, 1, {4, 6}, {4, 6});
    expect_tail(made, 2, {7}, {4, 5});
    EXPECT_EQ(made.token(2, 3), 5);
    EXPECT_EQ(made.token(2, 4), 7);
  }
}

TEST(TokenizeChoices, ATextThatOthersBeginWithKeepsItsLastToken) {
  const ChoiceTokens made = tokens_of(ChoiceForm::hellaswag, make_task("a", {"bb", "b", "b"}));
  EXPECT_EQ(made.shared, (Ids{1, 3}));
  expect_tail(made, 0, {4, 4}, {2, 4});
  expect_tail(made, 1, {4}, {2, 3});
  expect_tail(made, 2, {4}, {2, 3});
}

TEST(TokenizeChoices, WithoutBosTheFirstTokenIsNotScored) {
  const ChoiceTokens made = tokens_of(ChoiceForm::multiple_choice, make_task("", {"ab", "bab"}), Bos::none);
  EXPECT_TRUE(made.shared.empty());
  expect_tail(made, 0, {3, 4}, {1, 2});
  expect_tail(made, 1, {4, 3, 4}, {1, 3});
  EXPECT_ERROR(tokenize_choices(ChoiceForm::hellaswag, *letters(Bos::none), make_task("", {"ab", "b"}), 100),
               "task 7: no token before answer 2 to predict it");
}

TEST(TokenizeChoices, WinoGrandeScoresWhatFollowsTheOption) {
  const ChoiceTokens made = tokens_of(ChoiceForm::winogrande, make_task("ab", {"a", "bb"}, "dadb"));
  EXPECT_EQ(made.shared, (Ids{1, 3, 4}));
  expect_tail(made, 0, {3, 6, 3, 6, 4}, {4, 7});     // d a d, without the last b
  expect_tail(made, 1, {4, 4, 6, 3, 6, 4}, {5, 8});  // the same
}

TEST(TokenizeChoices, WinoGrandeScoresTheOptionWhereFewTokensFollow) {
  ChoiceTokens made = tokens_of(ChoiceForm::winogrande, make_task("ab", {"a", "bb"}, "db"));  // 3 and 4 of their own
  expect_tail(made, 0, {3, 6, 4}, {3, 5});
  expect_tail(made, 1, {4, 4, 6, 4}, {3, 6});
  made = tokens_of(ChoiceForm::winogrande, make_task("ab", {"a", "b"}, "d"));
  expect_tail(made, 0, {3, 6}, {3, 4});
  made = tokens_of(ChoiceForm::winogrande, make_task("ab", {"a", "b"}));  // one token, which is scored
  expect_tail(made, 0, {3}, {3, 4});
  expect_tail(made, 1, {4}, {3, 4});
}

TEST(TokenizeChoices, WinoGrandeScoresTheOptionWhereNothingFollowsIt) {
  const ChoiceTokens made = tokens_of(ChoiceForm::winogrande, make_task("b", {"aaaaa", "bbbb"}));
  expect_tail(made, 0, {3, 3, 3, 3, 3}, {2, 6});
  expect_tail(made, 1, {4, 4, 4, 4}, {2, 5});
}

// Without the text after it, the option is split into tokens in another way.
TEST(TokenizeChoices, WinoGrandeCountsTheTokensOfTheOptionAlone) {
  const ChoiceTokens made = tokens_of(ChoiceForm::winogrande, make_task("b", {"ac", "bc"}, "dabab"));
  expect_tail(made, 0, {3, 7, 3, 4, 3, 4}, {4, 7});  // b a c | d a b a b: cd is one
}

TEST(TokenizeChoices, WinoGrandeScoresSharedTokensAfterTheOption) {
  const ChoiceTokens made = tokens_of(ChoiceForm::winogrande, make_task("b", {"a", "ab"}, "bdadb"));
  EXPECT_EQ(made.shared, (Ids{1, 4, 3, 4}));
  expect_tail(made, 0, {6, 3, 6, 4}, {3, 7});
  expect_tail(made, 1, {4, 6, 3, 6, 4}, {4, 8});
}

TEST(TokenizeChoices, RefusesATextLongerThanTheContext) {
  const ChoiceTask task = make_task("ab", {"a", "bbb"});
  EXPECT_OK(tokenize_choices(ChoiceForm::hellaswag, *letters(Bos::add), task, 6));
  EXPECT_ERROR(tokenize_choices(ChoiceForm::hellaswag, *letters(Bos::add), task, 5),
               "task 7: 6 tokens with answer 2, want at most 5");
}

TEST(Choose, TheFirstOfTheGreatestButTheLastInWinoGrande) {
  EXPECT_EQ(eval::choose(ChoiceForm::hellaswag, std::vector{-3.0, -1.0, -2.0, -1.0}), 1u);
  EXPECT_EQ(eval::choose(ChoiceForm::multiple_choice, std::vector{-1.0, -1.0}), 0u);
  EXPECT_EQ(eval::choose(ChoiceForm::winogrande, std::vector{-1.0, -1.0}), 1u);
  EXPECT_EQ(eval::choose(ChoiceForm::winogrande, std::vector{-1.0, -1.5}), 0u);
}

TEST(ChoiceRun, TakesTasksWhileTheyFit) {
  // 3 shared tokens and 1 + 2 - 2 after them, since the last token of a text is not decoded.
  const ChoiceTokens small = tokens_of(ChoiceForm::hellaswag, make_task("ab", {"a", "bb"}));
  const std::vector<ChoiceTokens> tasks(5, small);
  EXPECT_EQ((ChoiceRun{.n_together = 8}).end_of_group(tasks, 0), 2u);
  EXPECT_EQ((ChoiceRun{.n_together = 12}).end_of_group(tasks, 1), 4u);
  EXPECT_EQ((ChoiceRun{.n_together = 8}).end_of_group(tasks, 4), 5u);
  EXPECT_EQ((ChoiceRun{.n_together = 1}).end_of_group(tasks, 2), 3u);
  const std::vector<ChoiceTokens> many(600, small);
  EXPECT_EQ((ChoiceRun{.n_together = 100000}).end_of_group(many, 0), size_t{kMaxSequences / 2});
}

TEST(ChoiceRun, SetsUpTheSessionForTheLargestGroup) {
  const std::vector<ChoiceTokens> tasks(5, tokens_of(ChoiceForm::hellaswag, make_task("ab", {"a", "bb", "cda"})));
  SessionOptions options{.n_ubatch = 2048};
  ChoiceRun{.n_call = 128, .n_together = 10}.set_up(options, tasks);  // 5 tokens a task
  EXPECT_EQ(options.n_sequences, 6);
  EXPECT_EQ(options.n_ubatch, 128);
  EXPECT_EQ(options.n_outputs, 10);  // a; b b; cd a, for two tasks
  EXPECT_EQ(options.n_ctx, 64);      // a cache for 6 sequences adds five blocks itself
  ChoiceRun{.n_call = 4, .n_together = 10}.set_up(options, tasks);
  EXPECT_EQ(options.n_outputs, 4);
  // A long text alone needs fewer blocks than several short ones, but more positions.
  const std::vector<ChoiceTokens> mixed = {
      tasks[0], tasks[1], tokens_of(ChoiceForm::hellaswag, make_task(std::string(90, 'a'), {"b", "d"}))};
  ChoiceRun{.n_call = 128, .n_together = 10}.set_up(options, mixed);
  EXPECT_EQ(options.n_ctx, 91);
}

class ChoicesOfAModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = story_model();
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(path));
  }

  std::vector<ChoiceTokens> tokenize(ChoiceForm form, const std::vector<ChoiceTask>& tasks) const {
    std::vector<ChoiceTokens> made;
    for (const ChoiceTask& task : tasks) {
      auto tokens = tokenize_choices(form, engine_->tokenizer(), task, 512);
      EXPECT_OK(tokens);
      if (tokens) made.push_back(std::move(*tokens));
    }
    return made;
  }

  Means score(std::span<const ChoiceTokens> tasks, const ChoiceRun& run, SessionOptions options = {}) const {
    run.set_up(options, tasks);
    const auto session = Session::create(engine_, options);
    EXPECT_OK(session);
    const auto threads = ThreadPool::create(options.threads);
    EXPECT_OK(threads);
    Means all;
    for (size_t begin = 0, end = 0; begin < tasks.size(); begin = end) {
      end = run.end_of_group(tasks, begin);
      auto means = eval::score_choices(**session, **threads, tasks.subspan(begin, end - begin), run, nullptr);
      EXPECT_OK(means);
      if (!means) break;
      all.insert(all.end(), means->begin(), means->end());
    }
    return all;
  }

  // Returns the mean log p of tokens [begin, end) of a text decoded alone, with the whole softmax in double.
  double mean_alone(const std::string& text, size_t begin, size_t end) const {
    const auto tokens = engine_->tokenizer().tokenize(text, {.add_special = true});
    EXPECT_OK(tokens);
    const auto session = Session::create(engine_, {.n_ctx = 512, .n_outputs = 512});
    EXPECT_OK(session);
    const auto logits = logits_of(**session, *tokens);
    EXPECT_OK(logits);
    double sum = 0;
    for (size_t i = begin; i < end; ++i) {
      const auto row = std::span(*logits).subspan((i - 1) * 512, 512);  // 512 is also the vocabulary's size
      double sum_exp = 0;
      for (const float x : row) sum_exp += std::exp(static_cast<double>(x));
      sum += static_cast<double>(row[static_cast<size_t>((*tokens)[i])]) - std::log(sum_exp);
    }
    return sum / static_cast<double>(end - begin);
  }

  size_t count_tokens(const std::string& text) const {
    return engine_->tokenizer().tokenize(text, {.add_special = true})->size();
  }

  std::shared_ptr<Engine> engine_;
};

// exp4() in the softmax has an error of at most 2 ULP of f32, so the error of log p is at most 1e-6.
constexpr double kLogError = 1e-6;

TEST_F(ChoicesOfAModel, MeansAreThoseOfTheWholeTextAlone) {
  const std::string before = "Once upon a time, there was a little ";
  const std::vector<std::string> answers = {"girl named Lily.", "boy.", "quantum", "girl"};
  const Means means = score(tokenize(ChoiceForm::hellaswag, {make_task(before, answers)}), {});
  ASSERT_EQ(means.size(), 1u);
  // The space before an answer is part of its first token, so the texts share the tokens of `before` without that
  // space.
  const size_t n_shared = count_tokens("Once upon a time, there was a little");
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::string text = before + answers[i];
    EXPECT_NEAR(means[0][i], mean_alone(text, n_shared, count_tokens(text)), kLogError) << answers[i];
  }
}

TEST_F(ChoicesOfAModel, ChoosesWhatStoriesSay) {
  const auto chosen = [&](ChoiceForm form, const ChoiceTask& task) {
    return eval::choose(form, score(tokenize(form, {task}), {}).at(0));
  };
  EXPECT_EQ(chosen(ChoiceForm::hellaswag, make_task("Once upon a time, there was a little ",
                                                    {"quantum field.", "girl named Lily.", "bank of it.", "zzz."})),
            1u);
  EXPECT_EQ(chosen(ChoiceForm::multiple_choice, make_task("Lily was sad. She started to ", {"xylophone", "cry"})), 1u);
  EXPECT_EQ(chosen(ChoiceForm::winogrande, make_task("Tom and his ", {"mom", "qxv"}, " went to the park to play.")),
            0u);
}

// The texts of the second pair also share tokens after the first option.
TEST_F(ChoicesOfAModel, WinoGrandeScoresTheTextAfterTheOption) {
  const std::string before = "Lily had a big ", after = " and she liked to play with it in the park.";
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"ball", "dog"}, std::vector<std::string>{"ball", "ball and"}}) {
    const Means means = score(tokenize(ChoiceForm::winogrande, {make_task(before, options, after)}), {});
    ASSERT_EQ(means.size(), 1u);
    for (size_t i = 0; i < 2; ++i) {
      const std::string head = before + options[i], text = head + after;
      EXPECT_NEAR(means[0][i], mean_alone(text, count_tokens(head), count_tokens(text) - 1), kLogError) << options[i];
    }
  }
}

std::vector<ChoiceTask> many_tasks() {
  const std::string story =
      "Once upon a time there was a girl who had a dog. The dog liked to run in the park with a ball. One day ";
  std::vector<ChoiceTask> tasks;
  for (size_t i = 0; i < testing::all_or_few<size_t>(24, 4); ++i) {
    const std::string before = story.substr(i, 20 + 37 * i % 160);  // crosses the cache's blocks of 64 tokens
    tasks.push_back(
        make_task(before, {"the dog", "the dog ran home to her mom and dad", "a", "it was sunny. " + story}));
    if (i % 3 == 0) tasks.back().answers.push_back(tasks.back().answers[0]);
    tasks.back().number = static_cast<int64_t>(i) + 1;
  }
  return tasks;
}

TEST_F(ChoicesOfAModel, AreTheSameBitsHoweverTheyAreDecoded) {
  for (const ChoiceForm form : {ChoiceForm::hellaswag, ChoiceForm::winogrande}) {
    std::vector<ChoiceTask> tasks = many_tasks();
    if (form == ChoiceForm::winogrande)
      for (ChoiceTask& task : tasks) task.after = " and then they went home.";
    const std::vector<ChoiceTokens> tokens = tokenize(form, tasks);
    const Means want = score(tokens, {.n_call = 512, .n_together = 1});
    ASSERT_EQ(want.size(), tasks.size());
    EXPECT_EQ(score(tokens, {}), want);
    EXPECT_EQ(score(tokens, {.n_call = 7, .n_together = 400}), want);
    EXPECT_EQ(score(tokens, {.n_call = 1, .n_together = 400}), want);
    EXPECT_EQ(score(tokens, {.n_call = 512, .n_together = 1000000}), want);
    EXPECT_EQ(score(tokens, {.n_call = 300}, {.n_ubatch = 33, .threads = {.n_threads = 2}}), want);
    EXPECT_EQ(score(tokens, {}, {.threads = {.n_threads = 3}}), want);
    for (size_t i = 0; i < tasks.size(); i += 3) EXPECT_EQ(want[i][0], want[i][4]) << i;  // equal answers
  }
}

TEST_F(ChoicesOfAModel, RefusesALikelihoodThatIsNotFinite) {
  const std::string path = story_model();
  const auto tokens = tokenize(ChoiceForm::hellaswag, {make_task("Once upon a ", {"time", "day"})});
  ASSERT_EQ(tokens.size(), 1u);
  EditableModel model(path);
  std::ranges::fill(model.tensor("output_norm.weight"), std::byte{0xff});
  ASSERT_OK_AND_ASSIGN(engine_, load_engine(model.write("nan.gguf")));
  SessionOptions options;
  const ChoiceRun run;
  run.set_up(options, tokens);
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine_, options));
  ASSERT_OK_AND_ASSIGN(const auto threads, ThreadPool::create({}));
  EXPECT_ERROR(eval::score_choices(*session, *threads, tokens, run, nullptr), "task 7, answer 1, position");
}

TEST(ChoiceScore, ShareAndItsErrorByHand) {
  ChoiceScore score;
  EXPECT_EQ(score.share().share, 0.0);
  score.add(true, 0.25);
  EXPECT_EQ(score.share().share, 1.0);
  EXPECT_EQ(score.share().error, 0.0);
  for (int i = 0; i < 4; ++i) score.add(i == 0, 0.5);
  EXPECT_EQ(score.n_tasks(), 5);
  EXPECT_EQ(score.n_right(), 2);
  EXPECT_NEAR(score.share().share, 0.4, 1e-15);
  EXPECT_NEAR(score.share().error, std::sqrt(0.4 * 0.6 / 4), 1e-15);
  EXPECT_NEAR(score.guessing().share, (0.25 + 4 * 0.5) / 5, 1e-15);
  EXPECT_NEAR(score.guessing().error, std::sqrt(0.25 * 0.75 + 4 * 0.25) / 5, 1e-15);
}

// n = 10, 8 right: published tables give the interval 49.02 % to 94.33 %.
TEST(ChoiceScore, WilsonIntervalByTable) {
  ChoiceScore score;
  for (int i = 0; i < 10; ++i) score.add(i < 8, 0.25);
  EXPECT_NEAR(score.interval().low, 0.4902, 5e-5);
  EXPECT_NEAR(score.interval().high, 0.9433, 5e-5);
}

TEST(ChoiceScore, TheIntervalStaysWithinAllAndNothing) {
  ChoiceScore none, all;
  for (int i = 0; i < 1000; ++i) {
    none.add(false, 0.25);
    all.add(true, 0.25);
    EXPECT_GE(none.interval().low, 0.0) << i;
    EXPECT_LE(all.interval().high, 1.0) << i;
  }
}

}  // namespace
}  // namespace tessera
