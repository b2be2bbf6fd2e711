// Scores multiple-choice tasks (choice_tasks.h): the mean log p of the tokens of each answer, and the answer with the
// highest mean.
//
// The common prefix of a task's texts is decoded once, in one sequence, and copied to the others. Many tasks are
// decoded together. Scores have the same bits for any grouping of tasks and any number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/partition.h"
#include "tessera/base/thread_pool.h"
#include "tessera/engine/session.h"
#include "tessera/eval/choice_tasks.h"

namespace tessera::eval {

/// The texts of a task as tokens: `shared`, followed by one of the tails. No tail is empty.
struct ChoiceTokens {
  struct Tail {
    std::vector<int32_t> tokens;
    Range scored;  // positions in shared and tail together; not empty, begins at 1 or later
  };

  int64_t number = 1;  // of the task
  std::vector<int32_t> shared;
  std::vector<Tail> tails;

  /// Returns the token at a position of the text of tail i, including the shared tokens.
  int32_t token(size_t i, int64_t position) const;
  /// Number of tokens to decode for tail i, from the beginning of the text: all before the last scored token.
  int64_t n_decoded(size_t i) const { return tails[i].scored.end - 1; }
};

/// Tokenizes a task and determines the scored tokens, which are the tokens after the shared ones. The texts of
/// WinoGrande differ in the middle. Their scored tokens are those after the option, if more than 3 tokens follow the
/// shared ones in both texts, without the last token (the full stop) unless it is the only one. Errors: errors of the
/// tokenizer; limit (a text has more than n_max_tokens); format (a text has no token to score).
Result<ChoiceTokens> tokenize_choices(ChoiceForm form, const text::Tokenizer& tokenizer, const ChoiceTask& task,
                                      int64_t n_max_tokens);

/// Returns the answer with the highest mean. Ties go to the first answer, in WinoGrande to the last.
size_t choose(ChoiceForm form, std::span<const double> mean_log_p);

/// The grouping of tasks for decoding.
struct ChoiceRun {
  int64_t n_call = 512;       // maximum number of tokens per call of decode()
  int64_t n_together = 2048;  // maximum number of tokens of a group of tasks; a larger task forms its own group

  /// Returns the end of the group of tasks that begins at `begin`.
  size_t end_of_group(std::span<const ChoiceTokens> tasks, size_t begin) const;
  /// Sets the session options that all groups need. Other options are unchanged.
  void set_up(SessionOptions& options, std::span<const ChoiceTokens> tasks) const;
};

/// Returns the mean log p of each task's answers, for one group of tasks in a session with options from run.set_up().
/// Errors: errors of decode(); format (a log p is not finite).
Result<std::vector<std::vector<double>>> score_choices(Session& session, ThreadPool& threads,
                                                       std::span<const ChoiceTokens> group, const ChoiceRun& run,
                                                       const CancelToken* cancel);

/// Counts right choices.
class ChoiceScore {
 public:
  /// share_right: the share of the task's answers that are right.
  void add(bool is_right, double share_right);

  struct Share {
    double share = 0;
    double error = 0;  // standard error
  };

  int64_t n_tasks() const { return n_tasks_; }
  int64_t n_right() const { return n_right_; }
  /// The share of tasks with a right choice. The standard error uses n - 1 degrees of freedom; it is 0 for one task.
  Share share() const;
  /// The expected score of guessing: the mean share of right answers, and the standard deviation of that score.
  Share guessing() const;
  /// The 95 % confidence interval of the share (Wilson 1927, "Probable Inference, the Law of Succession, and
  /// Statistical Inference"). Requires at least one task.
  struct Interval {
    double low = 0, high = 0;
  };
  Interval interval() const;

 private:
  int64_t n_tasks_ = 0, n_right_ = 0;
  double sum_guess_ = 0, sum_guess_variance_ = 0;
};

}  // namespace tessera::eval
