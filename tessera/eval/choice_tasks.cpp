#include "tessera/eval/choice_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "tessera/base/bytes.h"
#include "tessera/base/index.h"

namespace tessera::eval {

namespace {

// Iterates over the lines of a text, numbered from 1, without a carriage return at their end.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  std::optional<std::string_view> next() {
    if (rest_.empty()) return std::nullopt;
    ++number_;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  int64_t number() const { return number_; }  // of the last line

 private:
  std::string_view rest_;
  int64_t number_ = 0;
};

// Returns the beginning of a field, for messages.
std::string_view shown(std::string_view text) { return text.substr(0, 20); }

Result<size_t> parse_digit(std::string_view text, char first, char last, std::string_view what) {
  if (text.size() != 1 || text[0] < first || text[0] > last)
    return fail(ErrorCode::format, "{} '{}', want {} to {}", what, shown(text), first, last);
  return to_size(text[0] - first);
}

Result<> require_tasks(const std::vector<ChoiceTask>& tasks) {
  if (tasks.empty()) return fail(ErrorCode::format, "the file is empty: want a task at least");
  return {};
}

// Removes the first field from a line of a CSV file. The line becomes empty (nullopt) after its last field.
Result<std::string> take_field(std::optional<std::string_view>& line) {
  if (!line) return fail(ErrorCode::format, "fewer than 5 fields");
  std::string field;
  size_t end = 0;
  if (line->starts_with('"')) {
    for (end = 1;; ++end) {
      if (end >= line->size()) return fail(ErrorCode::format, "a quoted field does not end");
      if ((*line)[end] == '"' && !line->substr(end + 1).starts_with('"')) break;
      if ((*line)[end] == '"') ++end;
      field += (*line)[end];
    }
    ++end;
    if (end < line->size() && (*line)[end] != ',')
      return fail(ErrorCode::format, "'{}' after a quoted field, want a comma", shown(line->substr(end)));
  } else {
    end = std::min(line->find(','), line->size());
    field = line->substr(0, end);
  }
  line = end < line->size() ? std::optional(line->substr(end + 1)) : std::nullopt;
  return field;
}

Result<ChoiceTask> parse_winogrande_line(std::string_view line) {
  std::optional<std::string_view> rest = line;
  TESSERA_TRY(take_field(rest));  // the task's name
  TESSERA_ASSIGN(const std::string sentence, take_field(rest));
  ChoiceTask task;
  for (int i = 0; i < 2; ++i) {
    TESSERA_ASSIGN(std::string option, take_field(rest));
    if (option.empty()) return fail(ErrorCode::format, "option {} is empty", i + 1);
    task.answers.push_back({.text = std::move(option)});
  }
  TESSERA_ASSIGN(const std::string answer, take_field(rest));
  if (rest) return fail(ErrorCode::format, "more than 5 fields");
  TESSERA_ASSIGN(const size_t right, parse_digit(answer, '1', '2', "right option"));
  task.answers[right].is_right = true;
  const auto n_places = std::ranges::count(sentence, '_');
  if (n_places != 1) return fail(ErrorCode::format, "a sentence with {} places '_', want 1", n_places);
  const size_t place = sentence.find('_');
  task.before = sentence.substr(0, place);
  task.after = sentence.substr(place + 1);
  return task;
}

Result<std::string> read_string(ByteReader& in) {
  TESSERA_ASSIGN(const uint32_t n_bytes, in.read<uint32_t>());
  TESSERA_ASSIGN(const auto bytes, in.take(n_bytes));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<std::vector<ChoiceAnswer>> read_answers(ByteReader& in) {
  TESSERA_ASSIGN(const uint32_t n_answers, in.read<uint32_t>());
  if (n_answers > kMaxChoiceAnswers)
    return fail(ErrorCode::limit, "{} answers, limit {}, at byte {}", n_answers, kMaxChoiceAnswers,
                in.offset() - sizeof n_answers);
  std::vector<ChoiceAnswer> answers(n_answers);
  for (ChoiceAnswer& answer : answers) {
    TESSERA_ASSIGN(answer.text, read_string(in));
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    TESSERA_ASSIGN(const int32_t label, in.read<int32_t>());
    if (label != 0 && label != 1)
      return fail(ErrorCode::format, "answer {} is labelled {}, want 0 or 1, at byte {}", i + 1, label,
                  in.offset() - sizeof label);
    answers[i].is_right = label == 1;
  }
  return answers;
}

Result<ChoiceTask> read_task(ByteReader& in) {
  ChoiceTask task;
  TESSERA_ASSIGN(task.before, read_string(in));
  task.before += ' ';
  TESSERA_ASSIGN(task.answers, read_answers(in));
  TESSERA_TRY(read_answers(in));
  if (task.answers.size() < 2)
    return fail(ErrorCode::format, "{} answers, want at least 2 to choose from", task.answers.size());
  for (size_t i = 0; i < task.answers.size(); ++i)
    if (task.answers[i].text.empty()) return fail(ErrorCode::format, "answer {} is empty", i + 1);
  if (std::ranges::none_of(task.answers, &ChoiceAnswer::is_right))
    return fail(ErrorCode::format, "no answer is labelled right");
  return task;
}

}  // namespace

Result<std::vector<ChoiceTask>> parse_hellaswag(std::string_view file) {
  constexpr size_t kLines = 6;
  std::vector<ChoiceTask> tasks;
  Lines lines(file);
  for (auto line = lines.next(); line; line = lines.next()) {
    std::vector<std::string_view> fields = {*line};
    while (fields.size() < kLines && (line = lines.next())) fields.push_back(*line);
    // Checks the second line first: it reveals a file of another kind, or a missing line before.
    const int64_t first_line = lines.number() - static_cast<int64_t>(fields.size()) + 1;
    Result<size_t> right = 0;
    if (fields.size() > 1) right = parse_digit(fields[1], '0', '3', "right ending");
    if (!right) return forward_error(right, fmt::format("line {}", first_line + 1));
    if (fields.size() < kLines)
      return fail(ErrorCode::format, "line {}: the file ends after {} of a task's {} lines", lines.number(),
                  fields.size(), kLines);
    ChoiceTask task{.number = static_cast<int64_t>(tasks.size()) + 1,
                    .before = std::string(fields[0]) + ' ',
                    .after = {},
                    .answers = {}};
    for (size_t i = 2; i < kLines; ++i) {
      if (fields[i].empty())
        return fail(ErrorCode::format, "line {}: an empty ending", first_line + static_cast<int64_t>(i));
      task.answers.push_back({.text = std::string(fields[i]), .is_right = i - 2 == *right});
    }
    tasks.push_back(std::move(task));
  }
  TESSERA_TRY(require_tasks(tasks));
  return tasks;
}

Result<std::vector<ChoiceTask>> parse_winogrande(std::string_view file) {
  std::vector<ChoiceTask> tasks;
  Lines lines(file);
  while (const auto line = lines.next()) {
    if (line->empty()) continue;
    auto task = parse_winogrande_line(*line);
    if (!task) return forward_error(task, fmt::format("line {}", lines.number()));
    task->number = static_cast<int64_t>(tasks.size()) + 1;
    tasks.push_back(std::move(*task));
  }
  TESSERA_TRY(require_tasks(tasks));
  return tasks;
}

Result<std::vector<ChoiceTask>> parse_multiple_choice(std::string_view file) {
  const auto bytes = std::as_bytes(std::span(file));
  ByteReader header(bytes);
  auto n_tasks = header.read<uint32_t>();
  if (!n_tasks) return forward_error(n_tasks, "number of tasks");
  auto offsets = header.take(uint64_t{*n_tasks} * sizeof(uint32_t));
  if (!offsets) return forward_error(offsets, fmt::format("offsets of {} tasks", *n_tasks));
  ByteReader offset_reader(*offsets);
  std::vector<ChoiceTask> tasks;
  // Tasks do not overlap, so together they cannot have more bytes than the file.
  size_t n_left = header.remaining();
  for (int64_t number = 1; number <= int64_t{*n_tasks}; ++number) {
    const std::string where = fmt::format("task {}", number);
    TESSERA_ASSIGN(const uint32_t offset, offset_reader.read<uint32_t>());
    if (offset < header.offset() || offset >= bytes.size())
      return fail(ErrorCode::format, "{}: at byte {}, want {} to {}", where, offset, header.offset(), bytes.size() - 1);
    // Reads from the beginning of the file, so that messages contain the offset in the file.
    ByteReader in(bytes);
    TESSERA_TRY(in.take(offset));
    auto task = read_task(in);
    if (!task) return forward_error(task, where);
    const size_t n_bytes = in.offset() - offset;
    if (n_bytes > n_left) return fail(ErrorCode::format, "{}: overlaps another, at byte {}", where, offset);
    n_left -= n_bytes;
    task->number = number;
    tasks.push_back(std::move(*task));
  }
  TESSERA_TRY(require_tasks(tasks));
  return tasks;
}

Result<std::vector<ChoiceTask>> parse_choice_tasks(ChoiceForm form, std::string_view file) {
  switch (form) {
    case ChoiceForm::hellaswag:
      return parse_hellaswag(file);
    case ChoiceForm::winogrande:
      return parse_winogrande(file);
    case ChoiceForm::multiple_choice:
      return parse_multiple_choice(file);
  }
  return fail(ErrorCode::internal, "no such form of tasks");
}

}  // namespace tessera::eval
