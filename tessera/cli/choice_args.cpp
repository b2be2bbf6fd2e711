#include "tessera/cli/choice_args.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/cli/console.h"
#include "tessera/cli/count_progress.h"
#include "tessera/text/json_quoted.h"

namespace tessera::cli {

namespace {

using eval::ChoiceForm;
using eval::ChoiceScore;
using eval::ChoiceTask;
using eval::ChoiceTokens;

// The model's answer to one task.
struct Choice {
  std::vector<double> mean_log_p;
  size_t chosen = 0;
};

struct Outcome {
  std::vector<Choice> choices;  // one per task
  ChoiceScore score;

  void add(ChoiceForm form, const ChoiceTask& task, std::vector<double> mean_log_p) {
    const size_t chosen = eval::choose(form, mean_log_p);
    const auto n_right = std::ranges::count(task.answers, true, &eval::ChoiceAnswer::is_right);
    score.add(task.answers[chosen].is_right, static_cast<double>(n_right) / static_cast<double>(task.answers.size()));
    choices.push_back({.mean_log_p = std::move(mean_log_p), .chosen = chosen});
  }
};

Result<std::vector<ChoiceTokens>> tokenize_all(ChoiceForm form, const Engine& engine, std::span<const ChoiceTask> tasks,
                                               int64_t n_max_tokens) {
  std::vector<ChoiceTokens> all;
  for (const ChoiceTask& task : tasks) {
    TESSERA_ASSIGN(ChoiceTokens tokens, eval::tokenize_choices(form, engine.tokenizer(), task, n_max_tokens));
    all.push_back(std::move(tokens));
  }
  return all;
}

Result<Outcome> measure(ChoiceForm form, std::span<const ChoiceTask> tasks, const ModelArgs& model,
                        ContextArgs& context, Context& process) {
  TESSERA_ASSIGN(LoadedModel opened, open_model(model, context));
  TESSERA_ASSIGN(const std::vector<ChoiceTokens> tokens,
                 tokenize_all(form, *opened.engine, tasks, context.session.n_ctx));
  // A decode call returns the logits of one micro-batch, so memory does not grow with the number of tasks.
  const eval::ChoiceRun run{.n_call = std::min(context.n_batch, context.session.n_ubatch),
                            .n_together = context.n_batch};
  run.set_up(context.session, tokens);
  TESSERA_ASSIGN(const auto threads, create_side_threads(context));
  TESSERA_TRY(load_session(opened, context, process));
  Outcome outcome;
  CountProgress progress("task", static_cast<int64_t>(tasks.size()), 0, process);
  for (size_t begin = 0, end = 0; begin < tasks.size(); begin = end) {
    end = run.end_of_group(tokens, begin);
    const auto group = std::span(tokens).subspan(begin, end - begin);
    TESSERA_ASSIGN(auto means, eval::score_choices(*opened.session, *threads, group, run, &process.interrupt));
    for (size_t i = 0; i < means.size(); ++i) outcome.add(form, tasks[begin + i], std::move(means[i]));
    progress.update(static_cast<int64_t>(end), fmt::format("score = {:.4f} %", 100 * outcome.score.share().share));
  }
  return outcome;
}

// Prints the same lines as llama.cpp, because scripts parse them.
std::string format_score(ChoiceForm form, const ChoiceScore& score) {
  const auto [share, error] = score.share();
  if (form == ChoiceForm::hellaswag) {
    const auto [low, high] = score.interval();
    return fmt::format("Final HellaSwag score ({} tasks): {:.4f} % [{:.4f} %, {:.4f} %]\n", score.n_tasks(),
                       100 * share, 100 * low, 100 * high);
  }
  if (form == ChoiceForm::winogrande)
    return fmt::format("Final Winogrande score({} tasks): {:.4f} +/- {:.4f}\n", score.n_tasks(), 100 * share,
                       100 * error);
  const auto [guess, guess_error] = score.guessing();
  return fmt::format("Final result: {:.4f} +/- {:.4f}\nRandom chance: {:.4f} +/- {:.4f}\n", 100 * share, 100 * error,
                     100 * guess, 100 * guess_error);
}

// Answers are counted from 0 and tasks from 1, as in other programs.
std::string task_json(const ChoiceTask& task, const Choice& choice) {
  std::vector<size_t> right;
  for (size_t i = 0; i < task.answers.size(); ++i)
    if (task.answers[i].is_right) right.push_back(i);
  return fmt::format("{{\"task\": {}, \"right\": [{}], \"chosen\": {}, \"mean_log_p\": [{}]}}", task.number,
                     fmt::join(right, ", "), choice.chosen, fmt::join(choice.mean_log_p, ", "));
}

Result<> print_json(const std::string& head, ChoiceForm form, std::span<const ChoiceTask> tasks,
                    const Outcome& outcome) {
  const ChoiceScore& score = outcome.score;
  const auto [share, error] = score.share();
  const auto [low, high] = score.interval();
  const auto [guess, guess_error] = score.guessing();
  Output out;
  TESSERA_TRY(out.append(fmt::format("{{{}, \"tasks\": {}, \"correct\": {}, \"score\": {}, ", head, score.n_tasks(),
                                     score.n_right(), 100 * share)));
  TESSERA_TRY(out.append(form == ChoiceForm::hellaswag ? fmt::format("\"interval\": [{}, {}], ", 100 * low, 100 * high)
                                                       : fmt::format("\"error\": {}, ", 100 * error)));
  TESSERA_TRY(out.append(
      fmt::format("\"random_score\": {}, \"random_error\": {}, \"results\": [", 100 * guess, 100 * guess_error)));
  for (size_t i = 0; i < tasks.size(); ++i)
    TESSERA_TRY(out.append((i == 0 ? "" : ", ") + task_json(tasks[i], outcome.choices[i])));
  TESSERA_TRY(out.append("]}\n"));
  return out.finish();
}

}  // namespace

void ChoiceArgs::add_to(FlagTable& table) {
  const auto add_mode = [&](std::string_view name, std::string help, bool& is_mode) {
    table.common(name, "", std::move(help), set_switch(is_mode));
  };
  const auto add_count = [&](std::string_view name, int64_t& n) {
    table.rare(name, "N", "number of tasks, chosen at random; 0: all", set_integer(n, 0, INT64_MAX));
  };
  add_mode("--hellaswag", "run HellaSwag instead: choose one of four endings (file: six lines per task)", is_hellaswag);
  add_count("--hellaswag-tasks", n_hellaswag_tasks);
  add_mode("--winogrande", "run WinoGrande instead: choose one of two names (file: CSV)", is_winogrande);
  add_count("--winogrande-tasks", n_winogrande_tasks);
  add_mode("--multiple-choice", "run multiple-choice tasks instead: choose one of several answers (file: binary)",
           is_multiple_choice);
  add_count("--multiple-choice-tasks", n_multiple_choice_tasks);
  table.rare("--binary-file -bf", "FILE", "file of the tasks, same as -f", set_string(binary_path));
}

std::string_view ChoiceArgs::mode_flag() const {
  if (is_hellaswag) return "--hellaswag";
  return is_winogrande ? "--winogrande" : "--multiple-choice";
}

Result<> ChoiceArgs::check() const {
  if (is_hellaswag + is_winogrande + is_multiple_choice > 1)
    return fail(ErrorCode::invalid_argument, "--hellaswag, --winogrande and --multiple-choice: give one of them");
  if (!binary_path.empty() && !is_wanted())
    return fail(ErrorCode::invalid_argument, "--binary-file: only with --multiple-choice, --hellaswag or --winogrande");
  return {};
}

ChoiceForm ChoiceArgs::form() const {
  if (is_hellaswag) return ChoiceForm::hellaswag;
  return is_winogrande ? ChoiceForm::winogrande : ChoiceForm::multiple_choice;
}

int64_t ChoiceArgs::n_wanted_tasks() const {
  if (is_hellaswag) return n_hellaswag_tasks;
  return is_winogrande ? n_winogrande_tasks : n_multiple_choice_tasks;
}

Result<std::string> ChoiceArgs::read(const TextArgs& text, const Context& process) const {
  if (binary_path.empty()) return text.read(process);
  if (text.text || !text.file.empty())
    return fail(ErrorCode::invalid_argument, "--binary-file and {}: give one of them",
                text.text ? "--prompt" : "--file");
  return read_text(binary_path, process);
}

Result<> ChoiceArgs::run(const ModelArgs& model, ContextArgs& context, const TextArgs& text, bool is_json,
                         Context& process) {
  const std::string& path = binary_path.empty() ? text.file : binary_path;
  TESSERA_ASSIGN(const std::string content, read(text, process));
  auto parsed = eval::parse_choice_tasks(form(), content);
  if (!parsed) return forward_error(parsed, path.empty() ? "tasks" : path);
  const std::vector<ChoiceTask> tasks = eval::sample_choice_tasks(form(), std::move(*parsed), n_wanted_tasks());
  TESSERA_ASSIGN(const Outcome outcome, measure(form(), tasks, model, context, process));
  if (!is_json) return print(format_score(form(), outcome.score));
  const std::string head =
      fmt::format("\"model\": {}, \"file\": {}, \"test\": {}", text::json_quoted(model.options.path),
                  text::json_quoted(path), text::json_quoted(mode_flag().substr(2)));
  return print_json(head, form(), tasks, outcome);
}

}  // namespace tessera::cli
