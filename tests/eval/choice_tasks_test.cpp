// Files of multiple-choice benchmarks: each form, each kind of error, and the selection of samples.
#include "tessera/eval/choice_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/choice_files.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using eval::ChoiceForm;
using eval::ChoiceTask;
using eval::parse_hellaswag;
using eval::parse_multiple_choice;
using eval::parse_winogrande;
using testing::binary_tasks;
using testing::BinaryTask;
using testing::u32;

const std::string kHellaSwag =
    "Cooking: A man\n2\nsings.\nruns.\ncooks.\nsleeps.\n"
    "Sport: A girl\n0\nplays.\neats.\nreads.\nrests.\n";

std::vector<std::string> answers_of(const ChoiceTask& task) {
  std::vector<std::string> texts;
  for (const auto& answer : task.answers) texts.push_back(answer.text);
  return texts;
}

std::vector<size_t> right_of(const ChoiceTask& task) {
  std::vector<size_t> right;
  for (size_t i = 0; i < task.answers.size(); ++i)
    if (task.answers[i].is_right) right.push_back(i);
  return right;
}

using Texts = std::vector<std::string>;
using Places = std::vector<size_t>;

TEST(HellaSwagFile, IsSixLinesATask) {
  ASSERT_OK_AND_ASSIGN(const auto tasks, parse_hellaswag(kHellaSwag));
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].number, 1);
  EXPECT_EQ(tasks[0].before, "Cooking: A man ");
  EXPECT_EQ(tasks[0].after, "");
  EXPECT_EQ(answers_of(tasks[0]), (Texts{"sings.", "runs.", "cooks.", "sleeps."}));
  EXPECT_EQ(right_of(tasks[0]), Places{2});
  EXPECT_EQ(tasks[1].number, 2);
  EXPECT_EQ(right_of(tasks[1]), Places{0});
}

TEST(HellaSwagFile, NeedsNoLastNewlineAndTakesCarriageReturns) {
  ASSERT_OK_AND_ASSIGN(const auto tasks, parse_hellaswag("c\r\n3\r\na\r\nb\r\nc\r\nd"));
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(tasks[0].before, "c ");
  EXPECT_EQ(answers_of(tasks[0]), (Texts{"a", "b", "c", "d"}));
}

TEST(HellaSwagFile, FaultsNameTheirLine) {
  EXPECT_ERROR(parse_hellaswag(kHellaSwag + "Sport: A boy\n7\n"), "line 14: right ending '7', want 0 to 3");
  EXPECT_ERROR(parse_hellaswag("c\n\na\nb\nc\nd\n"), "line 2: right ending '', want 0 to 3");
  EXPECT_ERROR(parse_hellaswag("c\n10\na\nb\nc\nd\n"), "line 2: right ending '10'");
  EXPECT_ERROR(parse_hellaswag("c\n1\na\n\nc\nd\n"), "line 4: an empty ending");
  EXPECT_ERROR(parse_hellaswag(kHellaSwag + "Sport: A boy\n1\nruns.\n"),
               "line 15: the file ends after 3 of a task's 6 lines");
  EXPECT_ERROR(parse_hellaswag(kHellaSwag + "Sport"), "line 13: the file ends after 1 of");
  EXPECT_ERROR(parse_hellaswag(""), "the file is empty");
}

TEST(WinoGrandeFile, IsALineATask) {
  ASSERT_OK_AND_ASSIGN(
      const auto tasks,
      parse_winogrande("q1,Tom saw Ann and _ waved.,Tom,Ann,2\r\n"
                       "\n"
                       "\"q,2\",\"The cat, said \"\"he\"\", ate the _, twice.\",fish,\"old, rice\",1"));
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].before, "Tom saw Ann and ");
  EXPECT_EQ(tasks[0].after, " waved.");
  EXPECT_EQ(answers_of(tasks[0]), (Texts{"Tom", "Ann"}));
  EXPECT_EQ(right_of(tasks[0]), Places{1});
  EXPECT_EQ(tasks[1].number, 2);
  EXPECT_EQ(tasks[1].before, "The cat, said \"he\", ate the ");
  EXPECT_EQ(tasks[1].after, ", twice.");
  EXPECT_EQ(answers_of(tasks[1]), (Texts{"fish", "old, rice"}));
  EXPECT_EQ(right_of(tasks[1]), Places{0});
}

TEST(WinoGrandeFile, FaultsNameTheirLine) {
  const std::string good = "1,A _ b.,c,d,1\n";
  EXPECT_ERROR(parse_winogrande(good + "2,A b.,c,d,1\n"), "line 2: a sentence with 0 places '_', want 1");
  EXPECT_ERROR(parse_winogrande(good + "2,A _ _ b.,c,d,1\n"), "line 2: a sentence with 2 places");
  EXPECT_ERROR(parse_winogrande(good + "2,A _ b.,c,d,3\n"), "line 2: right option '3', want 1 to 2");
  EXPECT_ERROR(parse_winogrande(good + "2,A _ b.,c,d,\n"), "line 2: right option ''");
  EXPECT_ERROR(parse_winogrande(good + "2,A _ b.,c,,2\n"), "line 2: option 2 is empty");
  EXPECT_ERROR(parse_winogrande(good + "2,A _ b.,c,d\n"), "line 2: fewer than 5 fields");
  EXPECT_ERROR(parse_winogrande(good + "2,A _ b.,c,d,1,\n"), "line 2: more than 5 fields");
  EXPECT_ERROR(parse_winogrande(good + "2,\"A _ b.,c,d,1\n"), "line 2: a quoted field does not end");
  EXPECT_ERROR(parse_winogrande(good + "2,\"A _\" b.,c,d,1\n"), "line 2: ' b.,c,d,1' after a quoted field");
  EXPECT_ERROR(parse_winogrande("\n\n"), "the file is empty");
}

const BinaryTask kBoy = {.question = "A boy", .answers = {"eats", "sits", "runs"}, .labels = {0, 1, 0}};
const BinaryTask kGirl = {.question = "A girl", .answers = {"reads", "sings"}, .labels = {1, 0}};

TEST(MultipleChoiceFile, HasATaskAtEachOffset) {
  std::string file = binary_tasks({kBoy, kGirl});
  std::swap_ranges(file.begin() + 4, file.begin() + 8, file.begin() + 8);  // tasks have the order of the offsets
  ASSERT_OK_AND_ASSIGN(const auto tasks, parse_multiple_choice(file));
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].number, 1);
  EXPECT_EQ(tasks[0].before, "A girl ");
  EXPECT_EQ(answers_of(tasks[0]), (Texts{"reads", "sings"}));
  EXPECT_EQ(right_of(tasks[0]), Places{0});
  EXPECT_EQ(tasks[1].before, "A boy ");
  EXPECT_EQ(answers_of(tasks[1]), (Texts{"eats", "sits", "runs"}));
  EXPECT_EQ(right_of(tasks[1]), Places{1});
}

TEST(MultipleChoiceFile, FaultsNameTheirTask) {
  const auto parse = [](BinaryTask task) { return parse_multiple_choice(binary_tasks({kBoy, task})); };
  BinaryTask bad = kGirl;
  bad.answers[1] = "";
  EXPECT_ERROR(parse(bad), "task 2: answer 2 is empty");
  bad = kGirl;
  bad.labels[0] = 0;
  EXPECT_ERROR(parse(bad), "task 2: no answer is labelled right");
  bad.labels[0] = 2;
  EXPECT_ERROR(parse(bad), "task 2: answer 1 is labelled 2, want 0 or 1");
  EXPECT_ERROR(parse({.question = "x", .answers = {"y"}, .labels = {1}}), "task 2: 1 answers, want at least 2");
  const BinaryTask many{.question = "x", .answers = Texts(101, "y"), .labels = std::vector<int32_t>(101, 1)};
  EXPECT_ERROR(parse(many), "task 2: 101 answers, limit 100");
}

TEST(MultipleChoiceFile, NoCountOrOffsetIsTrusted) {
  EXPECT_ERROR(parse_multiple_choice(""), "number of tasks: truncated");
  EXPECT_ERROR(parse_multiple_choice(u32(0)), "the file is empty");
  EXPECT_ERROR(parse_multiple_choice(u32(0xffffffff) + u32(8)), "offsets of 4294967295 tasks: truncated");
  std::string file = binary_tasks({kBoy, kGirl});
  const auto with_offset = [&](uint32_t offset) { return std::string(file).replace(8, 4, u32(offset)); };
  EXPECT_ERROR(parse_multiple_choice(with_offset(11)), "task 2: at byte 11, want 12 to");
  EXPECT_ERROR(parse_multiple_choice(with_offset(0xffffffff)), "task 2: at byte 4294967295, want 12 to");
  EXPECT_ERROR(parse_multiple_choice(with_offset(12)), "task 2: overlaps another, at byte 12");
  // Every truncated file is an error.
  for (size_t n = 0; n < file.size(); ++n)
    EXPECT_FALSE(parse_multiple_choice(std::string_view(file).substr(0, n)).has_value()) << n;
  for (size_t at = 12; at + 4 <= file.size(); ++at)
    (void)parse_multiple_choice(std::string(file).replace(at, 4, u32(0xfffffff0)));
}

std::vector<ChoiceTask> numbered(int64_t n) {
  std::vector<ChoiceTask> tasks(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) tasks[static_cast<size_t>(i)].number = i + 1;
  return tasks;
}

std::vector<int64_t> sample(ChoiceForm form, int64_t n, int64_t n_wanted) {
  std::vector<int64_t> numbers;
  for (const ChoiceTask& task : sample_choice_tasks(form, numbered(n), n_wanted)) numbers.push_back(task.number);
  return numbers;
}

using Numbers = std::vector<int64_t>;

// std::mt19937(1) returns 1791095845, 4282876139, 3093770124, 4005303368: 0.417, 0.997, 0.720, 0.933 of 2^32. So the
// indices 4, 8, 5, 6 are drawn from the 10, 9, 8 and 7 remaining tasks.
TEST(SampleChoiceTasks, HellaSwagKeepsTheOrderOfTheRest) {
  EXPECT_EQ(sample(ChoiceForm::hellaswag, 10, 4), (Numbers{5, 10, 7, 9}));
}

TEST(SampleChoiceTasks, OthersPutTheLastInTheGap) {
  EXPECT_EQ(sample(ChoiceForm::winogrande, 10, 4), (Numbers{5, 9, 6, 7}));
  EXPECT_EQ(sample(ChoiceForm::multiple_choice, 10, 4), (Numbers{5, 9, 6, 7}));
}

TEST(SampleChoiceTasks, AllTasksStayInOrder) {
  Numbers all(10);
  std::iota(all.begin(), all.end(), 1);
  for (const int64_t n_wanted : {0, 10, 11}) EXPECT_EQ(sample(ChoiceForm::hellaswag, 10, n_wanted), all);
}

TEST(SampleChoiceTasks, NoTaskComesTwice) {
  for (const ChoiceForm form : {ChoiceForm::hellaswag, ChoiceForm::winogrande}) {
    Numbers numbers = sample(form, 1000, 999);
    std::ranges::sort(numbers);
    EXPECT_EQ(std::ranges::adjacent_find(numbers), numbers.end());
    EXPECT_EQ(numbers.size(), 999u);
  }
}

}  // namespace
}  // namespace tessera
