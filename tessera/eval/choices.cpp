#include "tessera/eval/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/eval/log_likelihood.h"
#include "tessera/eval/measured.h"

namespace tessera::eval {

namespace {

int64_t size_of(const std::vector<int32_t>& tokens) { return static_cast<int64_t>(tokens.size()); }

// Tokenizes the whole texts of a task. They are not empty, because answers are not empty.
Result<std::vector<std::vector<int32_t>>> tokenize_texts(const text::Tokenizer& tokenizer, const ChoiceTask& task,
                                                         int64_t n_max_tokens) {
  std::vector<std::vector<int32_t>> texts;
  for (const ChoiceAnswer& answer : task.answers) {
    TESSERA_ASSIGN(auto tokens, tokenizer.tokenize(task.before + answer.text + task.after, {.add_special = true}));
    if (size_of(tokens) > n_max_tokens)
      return fail(ErrorCode::limit, "{} tokens with answer {}, want at most {} (option n_ctx sets it)", tokens.size(),
                  texts.size() + 1, n_max_tokens);
    if (tokens.empty()) return fail(ErrorCode::format, "no token with answer {}", texts.size() + 1);
    texts.push_back(std::move(tokens));
  }
  return texts;
}

// Returns the length of the common prefix of all texts. Each text keeps at least one token after it, even if the text
// is a prefix of another.
size_t count_shared(std::span<const std::vector<int32_t>> texts) {
  const std::vector<int32_t>& first = texts[0];
  size_t n_shared = first.size();
  for (const std::vector<int32_t>& tokens : texts) {
    const size_t n_most = std::min(n_shared, tokens.size() - 1);
    for (n_shared = 0; n_shared < n_most && tokens[n_shared] == first[n_shared];) ++n_shared;
  }
  return n_shared;
}

// Returns the first token after the option in each text. If one text has too few tokens, returns the end of the shared
// tokens for all texts.
Result<std::vector<int64_t>> ends_of_options(const text::Tokenizer& tokenizer, const ChoiceTask& task,
                                             const ChoiceTokens& made) {
  constexpr int64_t kFewTokens = 3;
  const int64_t n_shared = size_of(made.shared);
  const std::vector<int64_t> all_shared(made.tails.size(), n_shared);
  std::vector<int64_t> ends;
  for (size_t i = 0; i < made.tails.size(); ++i) {
    const int64_t n_own = size_of(made.tails[i].tokens);
    if (n_own <= kFewTokens) return all_shared;
    TESSERA_ASSIGN(const auto head, tokenizer.tokenize(task.before + task.answers[i].text, {.add_special = true}));
    if (size_of(head) >= n_shared + n_own) return all_shared;
    ends.push_back(size_of(head));
  }
  return ends;
}

Result<ChoiceTokens> tokenize_task(ChoiceForm form, const text::Tokenizer& tokenizer, const ChoiceTask& task,
                                   int64_t n_max_tokens) {
  TESSERA_ASSIGN(const auto texts, tokenize_texts(tokenizer, task, n_max_tokens));
  const auto n_shared = static_cast<ptrdiff_t>(count_shared(texts));
  ChoiceTokens made{.number = task.number, .shared = {texts[0].begin(), texts[0].begin() + n_shared}, .tails = {}};
  for (const auto& tokens : texts)
    made.tails.push_back({.tokens = {tokens.begin() + n_shared, tokens.end()}, .scored = {n_shared, size_of(tokens)}});
  if (form == ChoiceForm::winogrande) {
    TESSERA_ASSIGN(const auto ends, ends_of_options(tokenizer, task, made));
    for (size_t i = 0; i < ends.size(); ++i) made.tails[i].scored.begin = ends[i];
  }
  for (size_t i = 0; i < made.tails.size(); ++i) {
    Range& scored = made.tails[i].scored;
    scored.begin = std::max<int64_t>(scored.begin, 1);
    if (form == ChoiceForm::winogrande && scored.size() > 1) --scored.end;
    if (scored.empty()) return fail(ErrorCode::format, "no token before answer {} to predict it", i + 1);
  }
  return made;
}

// The number of tokens to decode for one task.
int64_t count_decoded(const ChoiceTokens& task) {
  int64_t n = size_of(task.shared);
  for (size_t i = 0; i < task.tails.size(); ++i) n += task.n_decoded(i) - size_of(task.shared);
  return n;
}

// The number of cache blocks that a task needs. Sequences share whole blocks of shared tokens.
int64_t count_blocks(const ChoiceTokens& task) {
  const int64_t n_shared_blocks = size_of(task.shared) / kKvBlockTokens;
  int64_t n = n_shared_blocks;
  for (size_t i = 0; i < task.tails.size(); ++i) n += div_ceil(task.n_decoded(i), kKvBlockTokens) - n_shared_blocks;
  return n;
}

class GroupScorer {
 public:
  GroupScorer(Session& session, ThreadPool& threads, std::span<const ChoiceTokens> group, const ChoiceRun& run,
              const CancelToken* cancel)
      : session_(session), threads_(threads), group_(group), run_(run), cancel_(cancel) {
    for (const ChoiceTokens& task : group) {
      first_sequences_.push_back(n_sequences_);
      n_sequences_ += static_cast<int32_t>(task.tails.size());
      sums_.emplace_back(task.tails.size(), 0.0);
    }
  }

  Result<std::vector<std::vector<double>>> score() {
    TESSERA_TRY(session_.clear());
    TESSERA_TRY(decode_shared());
    TESSERA_TRY(copy_shared());
    TESSERA_TRY(decode_tails());
    for (size_t t = 0; t < group_.size(); ++t)
      for (size_t i = 0; i < sums_[t].size(); ++i) sums_[t][i] /= static_cast<double>(group_[t].tails[i].scored.size());
    return std::move(sums_);
  }

 private:
  // A token to score, with the logits of the previous position in the batch.
  struct Target {
    size_t task, answer;
    int64_t position;
    int64_t i_output;
  };

  Result<> decode_shared() {
    for (size_t t = 0; t < group_.size(); ++t)
      for (int64_t position = 0; position < size_of(group_[t].shared); ++position)
        TESSERA_TRY(add(t, {0, static_cast<int64_t>(group_[t].tails.size())}, position));
    return flush();
  }

  Result<> copy_shared() {
    for (size_t t = 0; t < group_.size(); ++t) {
      const auto n_shared = static_cast<int32_t>(group_[t].shared.size());
      for (size_t i = 1; i < group_[t].tails.size(); ++i)
        if (group_[t].n_decoded(i) > n_shared) TESSERA_TRY(session_.copy(sequence(t, 0), sequence(t, i), 0, n_shared));
    }
    return {};
  }

  Result<> decode_tails() {
    for (size_t t = 0; t < group_.size(); ++t)
      for (size_t i = 0; i < group_[t].tails.size(); ++i)
        for (int64_t position = size_of(group_[t].shared); position < group_[t].n_decoded(i); ++position)
          TESSERA_TRY(add(t, {static_cast<int64_t>(i), static_cast<int64_t>(i) + 1}, position));
    return flush();
  }

  int32_t sequence(size_t task, size_t answer) const { return first_sequences_[task] + static_cast<int32_t>(answer); }

  // Adds a token that these answers of a task have in common, to the sequence of the first of them.
  Result<> add(size_t t, Range answers, int64_t position) {
    const auto first = to_size(answers.begin);
    bool wants_logits = false;
    for (size_t i = first; i < to_size(answers.end); ++i) {
      if (position + 1 < group_[t].tails[i].scored.begin) continue;
      targets_.push_back({.task = t, .answer = i, .position = position + 1, .i_output = n_outputs_});
      wants_logits = true;
    }
    n_outputs_ += wants_logits ? 1 : 0;
    batch_.add({.token = group_[t].token(first, position),
                .position = static_cast<int32_t>(position),
                .sequence = sequence(t, first),
                .wants_logits = wants_logits});
    return batch_.size() < run_.n_call ? Result<>() : flush();
  }

  // Decodes the batch and adds the log-probabilities of its targets. Positions are in order, so the sums are too.
  Result<> flush() {
    if (batch_.size() == 0) return {};
    TESSERA_TRY(session_.decode(batch_, cancel_));
    rows_.clear();
    for (const Target& target : targets_)
      rows_.push_back({.logits = session_.logits(target.i_output),
                       .token = group_[target.task].token(target.answer, target.position)});
    losses_.resize(rows_.size());
    negative_log_likelihoods(threads_, rows_, losses_);
    for (size_t i = 0; i < targets_.size(); ++i) {
      const Target& target = targets_[i];
      if (!std::isfinite(losses_[i]))
        return fail(ErrorCode::format, "task {}, answer {}, position {}: log p of the token is {}",
                    group_[target.task].number, target.answer + 1, target.position, -losses_[i]);
      sums_[target.task][target.answer] -= losses_[i];
    }
    batch_.clear();
    targets_.clear();
    n_outputs_ = 0;
    return {};
  }

  Session& session_;
  ThreadPool& threads_;
  std::span<const ChoiceTokens> group_;
  const ChoiceRun& run_;
  const CancelToken* cancel_;
  std::vector<int32_t> first_sequences_;  // by task; each answer has a sequence
  int32_t n_sequences_ = 0;
  std::vector<std::vector<double>> sums_;  // of log p, by task and answer
  Batch batch_;
  int64_t n_outputs_ = 0;  // in the batch
  std::vector<Target> targets_;
  std::vector<TokenRow> rows_;
  std::vector<double> losses_;
};

}  // namespace

int32_t ChoiceTokens::token(size_t i, int64_t position) const {
  const int64_t n_shared = size_of(shared);
  return position < n_shared ? shared[to_size(position)] : tails[i].tokens[to_size(position - n_shared)];
}

Result<ChoiceTokens> tokenize_choices(ChoiceForm form, const text::Tokenizer& tokenizer, const ChoiceTask& task,
                                      int64_t n_max_tokens) {
  auto made = tokenize_task(form, tokenizer, task, n_max_tokens);
  if (!made) return forward_error(made, fmt::format("task {}", task.number));
  return made;
}

size_t choose(ChoiceForm form, std::span<const double> mean_log_p) {
  size_t best = 0;
  for (size_t i = 1; i < mean_log_p.size(); ++i) {
    const bool is_tie_won = form == ChoiceForm::winogrande && mean_log_p[i] == mean_log_p[best];
    if (mean_log_p[i] > mean_log_p[best] || is_tie_won) best = i;
  }
  return best;
}

size_t ChoiceRun::end_of_group(std::span<const ChoiceTokens> tasks, size_t begin) const {
  size_t end = begin, n_sequences = 0;
  for (int64_t n_tokens = 0; end < tasks.size(); ++end) {
    n_tokens += count_decoded(tasks[end]);
    n_sequences += tasks[end].tails.size();
    if (end > begin && (n_tokens > n_together || n_sequences > kMaxSequences)) break;
  }
  return end;
}

void ChoiceRun::set_up(SessionOptions& options, std::span<const ChoiceTokens> tasks) const {
  int64_t n_sequences = 1, n_blocks = 1, n_outputs = 1, n_longest = 1;
  for (size_t begin = 0, end = 0; begin < tasks.size(); begin = end) {
    end = end_of_group(tasks, begin);
    int64_t n_group_sequences = 0, n_group_blocks = 0, n_group_outputs = 0;
    for (const ChoiceTokens& task : tasks.subspan(begin, end - begin)) {
      n_group_sequences += static_cast<int64_t>(task.tails.size());
      n_group_blocks += count_blocks(task);
      for (size_t i = 0; i < task.tails.size(); ++i) {
        n_group_outputs += task.tails[i].scored.size();
        n_longest = std::max(n_longest, task.n_decoded(i));
      }
    }
    n_sequences = std::max(n_sequences, n_group_sequences);
    n_blocks = std::max(n_blocks, n_group_blocks);
    n_outputs = std::max(n_outputs, n_group_outputs);
  }
  // A cache reserves one block more than its tokens fill for each sequence but one.
  options.n_ctx = std::max((n_blocks - n_sequences + 1) * kKvBlockTokens, n_longest);
  options.n_sequences = static_cast<int32_t>(n_sequences);
  options.n_ubatch = std::min(options.n_ubatch, n_call);
  options.n_outputs = std::min(n_call, n_outputs);
}

Result<std::vector<std::vector<double>>> score_choices(Session& session, ThreadPool& threads,
                                                       std::span<const ChoiceTokens> group, const ChoiceRun& run,
                                                       const CancelToken* cancel) {
  return GroupScorer(session, threads, group, run, cancel).score();
}

void ChoiceScore::add(bool is_right, double share_right) {
  ++n_tasks_;
  n_right_ += is_right ? 1 : 0;
  sum_guess_ += share_right;
  sum_guess_variance_ += share_right * (1 - share_right);
}

ChoiceScore::Share ChoiceScore::share() const {
  if (n_tasks_ == 0) return {};
  const double share = static_cast<double>(n_right_) / static_cast<double>(n_tasks_);
  return {.share = share, .error = share_error(share, n_tasks_)};
}

ChoiceScore::Share ChoiceScore::guessing() const {
  if (n_tasks_ == 0) return {};
  const auto n = static_cast<double>(n_tasks_);
  return {.share = sum_guess_ / n, .error = std::sqrt(sum_guess_variance_) / n};
}

ChoiceScore::Interval ChoiceScore::interval() const {
  constexpr double z = 1.959963984540054;  // 95 % of the normal distribution are within +/- z
  const double n = static_cast<double>(n_tasks_), p = share().share;
  const double center = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double reach = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  // Rounding errors could exceed 0 or 1 if the interval touches them.
  return {.low = std::max(center - reach, 0.0), .high = std::min(center + reach, 1.0)};
}

}  // namespace tessera::eval
