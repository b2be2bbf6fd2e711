// What a model chooses: for each task of choice_tasks.h, the mean log p of every answer's tokens, and the answer with
// the greatest.
//
// Tokens that all of a task's texts begin with are decoded once, in one sequence, and copied to the others; many tasks
// are decoded together. No score depends on that, nor on the number of threads: not in a bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/partition.h"
#include "tessera/base/thread_pool.h"
#include "tessera/engine/session.h"
#include "tessera/eval/choice_tasks.h"

namespace tessera::eval {

/// A task's texts as tokens: `shared`, then one of the tails, none of which is empty.
struct ChoiceTokens {
  struct Tail {
    std::vector<int32_t> tokens;
    Range scored;  // of shared and tail together; not empty, and begins at 1 or later
  };

  int64_t number = 1;  // the task's
  std::vector<int32_t> shared;
  std::vector<Tail> tails;

  /// The token at a position of shared and tail i.
  int32_t token(size_t i, int64_t position) const;
  /// Tokens to decode for tail i, from the text's beginning: all before the last that is scored.
  int64_t n_decoded(size_t i) const { return tails[i].scored.end - 1; }
};

/// What is scored: the tokens after the shared ones. But of WinoGrande, where the texts differ in the middle: the
/// tokens after the option if in both texts more than 3 follow the shared ones, and no last token (the full stop) if it
/// is not the only one. Errors: those of the tokenizer; limit (a text of more than n_max_tokens); format (a text
/// without a token to score).
Result<ChoiceTokens> tokenize_choices(ChoiceForm form, const text::Tokenizer& tokenizer, const ChoiceTask& task,
                                      int64_t n_max_tokens);

/// The answer with the greatest mean: the first of those; the last of them in WinoGrande.
size_t choose(ChoiceForm form, std::span<const double> mean_log_p);

/// How tasks are decoded.
struct ChoiceRun {
  int64_t n_call = 512;       // the most tokens of a call
  int64_t n_together = 2048;  // the most tokens of tasks that are decoded together; a task of more is alone

  /// The end of the tasks from `begin` on that are decoded together.
  size_t end_of_group(std::span<const ChoiceTokens> tasks, size_t begin) const;
  /// What a session needs for all groups, set in its options; the rest of them stays.
  void set_up(SessionOptions& options, std::span<const ChoiceTokens> tasks) const;
};

/// The mean log p of each task's answers, for one group of tasks in a session that run.set_up prepared. Errors: those
/// of decode(); format (a log p that is not finite).
Result<std::vector<std::vector<double>>> score_choices(Session& session, ThreadPool& threads,
                                                       std::span<const ChoiceTokens> group, const ChoiceRun& run,
                                                       const CancelToken* cancel);

/// How often a model was right.
class ChoiceScore {
 public:
  /// share_right: of the task's answers, those that are right.
  void add(bool is_right, double share_right);

  struct Share {
    double share = 0;
    double error = 0;  // standard error
  };

  int64_t n_tasks() const { return n_tasks_; }
  int64_t n_right() const { return n_right_; }
  /// Of the tasks those that were right. The error is that of n - 1 degrees of freedom; 0 for one task.
  Share share() const;
  /// What guessing would score: the mean share of right answers, and the deviation of such a score.
  Share guessing() const;
  /// The interval in which the share lies with 95 % probability (Wilson 1927, "Probable Inference, the Law of
  /// Succession, and Statistical Inference"). At least one task.
  struct Interval {
    double low = 0, high = 0;
  };
  Interval interval() const;

 private:
  int64_t n_tasks_ = 0, n_right_ = 0;
  double sum_guess_ = 0, sum_guess_variance_ = 0;
};

}  // namespace tessera::eval
