// Tests of choices, as they are published: HellaSwag, WinoGrande and files of multiple choices. A task is a text in
// which one of several answers is to be filled in; the model's choice is the answer that makes the text most probable.
//
// The files come from outside: tasks take memory in proportion to their bytes, and every fault names its line or task.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::eval {

enum class ChoiceForm : uint8_t { hellaswag, winogrande, multiple_choice };

struct ChoiceAnswer {
  std::string text;
  bool is_right = false;
};

/// The text of a choice is before + answer + after.
struct ChoiceTask {
  int64_t number = 1;  // its place in the file, from 1
  std::string before, after;
  std::vector<ChoiceAnswer> answers;
};

inline constexpr uint32_t kMaxChoiceAnswers = 100;

/// Six lines a task: the context, the number of the right ending (0 to 3), four endings. Errors: format.
Result<std::vector<ChoiceTask>> parse_hellaswag(std::string_view file);

/// A line a task, of fields between commas: a name, a sentence with one '_', two options, the right one's number (1,
/// 2). A field in double quotes may hold commas, and "" for a quote. Empty lines count for nothing. Errors: format.
Result<std::vector<ChoiceTask>> parse_winogrande(std::string_view file);

/// Binary, little-endian: u32 n_tasks, u32 offset of each task in the file, the tasks. A task is a question and two
/// lists of answers, the second of which is not used: strings are u32 n, n bytes; lists are u32 n, n strings,
/// i32 label of each (1: right, 0: wrong). Errors: format; limit (kMaxChoiceAnswers).
Result<std::vector<ChoiceTask>> parse_multiple_choice(std::string_view file);

Result<std::vector<ChoiceTask>> parse_choice_tasks(ChoiceForm form, std::string_view file);

/// n_wanted of the tasks (0: all), the same that llama.cpp built with GCC takes, so that scores compare. Without as
/// many tasks: all, in the file's order.
std::vector<ChoiceTask> sample_choice_tasks(ChoiceForm form, std::vector<ChoiceTask> tasks, int64_t n_wanted);

}  // namespace tessera::eval
