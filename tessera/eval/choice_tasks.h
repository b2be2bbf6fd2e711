// Parses published multiple-choice benchmarks: HellaSwag, WinoGrande and files of multiple choices. A task is a text
// with a gap for one of several answers. The model's choice is the answer that makes the text most probable.
//
// The files are untrusted. Tasks need memory in proportion to the size of the file, and every error names the line or
// task.
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
  int64_t number = 1;  // index in the file, from 1
  std::string before, after;
  std::vector<ChoiceAnswer> answers;
};

inline constexpr uint32_t kMaxChoiceAnswers = 100;

/// Parses six lines per task: the context, the number of the right ending (0 to 3), four endings. Errors: format.
Result<std::vector<ChoiceTask>> parse_hellaswag(std::string_view file);

/// Parses one line per task with comma-separated fields: a name, a sentence with one '_', two options, the number of
/// the right option (1 or 2). A field in double quotes may contain commas, and "" for a quote. Empty lines are ignored.
/// Errors: format.
Result<std::vector<ChoiceTask>> parse_winogrande(std::string_view file);

/// Parses a binary file, little-endian: u32 n_tasks, u32 offset of each task in the file, the tasks. A task is a
/// question and two lists of answers, of which the second is not used. A string is u32 n, n bytes. A list is u32 n, n
/// strings, i32 label of each (1: right, 0: wrong). Errors: format; limit (kMaxChoiceAnswers).
Result<std::vector<ChoiceTask>> parse_multiple_choice(std::string_view file);

Result<std::vector<ChoiceTask>> parse_choice_tasks(ChoiceForm form, std::string_view file);

/// Selects n_wanted of the tasks (0: all), the same tasks as llama.cpp built with GCC, so that scores are comparable.
/// If there are not so many tasks, returns all of them in the order of the file.
std::vector<ChoiceTask> sample_choice_tasks(ChoiceForm form, std::vector<ChoiceTask> tasks, int64_t n_wanted);

}  // namespace tessera::eval
