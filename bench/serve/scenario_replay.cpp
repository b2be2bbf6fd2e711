// Replay of a coding assistant: a conversation of growing prompts that forks into branches, which then take turns. A
// server that computes each prefix once computes only the tokens that no earlier request contained.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "bench/serve/scenario.h"

namespace tessera::load {
namespace {

/// A conversation as the server has seen it: prompts and answers, in tokens.
struct Conversation {
  std::vector<int32_t> ids;
  int64_t n_uncomputed = 0;  // tokens at the end of ids that no request has computed
  int64_t n_turns = 0;
};

struct Turn {
  bool ok = false;
  int64_t n_prompt = 0, n_new = 0;
  double n_computed = 0;
  double ttft_ms = 0;
};

/// Adds the ids of an event ("tokens": [...]) to `ids`. Events without ids add nothing.
void append_ids(std::string_view event, std::vector<int32_t>& ids) {
  const auto object = nlohmann::json::parse(event, nullptr, false);
  if (!object.is_object() || !object.contains("tokens") || !object["tokens"].is_array()) return;
  for (const auto& id : object["tokens"]) {
    if (id.is_number_integer()) ids.push_back(id.get<int32_t>());
  }
}

class Replay {
 public:
  explicit Replay(Context& context) : context_(context) {}

  /// Extends a conversation to the length of its next turn, sends it, and adds the answer.
  Turn take_turn(Conversation& conversation) {
    const int64_t n_target = length_at(std::min(conversation.n_turns, n_turns() - 1));
    return extend(conversation, n_target - static_cast<int64_t>(conversation.ids.size()));
  }

  /// Sends a conversation with n more tokens, at least one, and adds the answer.
  Turn extend(Conversation& conversation, int64_t n) {
    const std::vector<int32_t> words = context_.random_ids(std::max<int64_t>(n, 1));
    conversation.ids.insert(conversation.ids.end(), words.begin(), words.end());
    conversation.n_uncomputed += static_cast<int64_t>(words.size());
    ++conversation.n_turns;
    return send(conversation);
  }

  int64_t n_turns() const { return std::max<int64_t>(context_.count("turns"), 2); }
  /// Tokens of a prompt after so many turns.
  int64_t length_at(int64_t turn) const {
    const int64_t first = context_.count("first-tokens"), last = context_.count("last-tokens");
    return first + (last - first) * turn / (n_turns() - 1);
  }

 private:
  Turn send(Conversation& conversation) {
    Completion completion;
    completion.ids = conversation.ids;
    completion.n_tokens = context_.count("tokens");
    completion.more = R"("return_tokens":true)";
    Tally tally;
    StreamMeter meter(context_.client.now_ms(), &tally);
    std::vector<int32_t> answer_ids;
    Turn turn = {.n_prompt = static_cast<int64_t>(completion.ids.size()), .n_new = conversation.n_uncomputed};
    bool is_done = false;
    Handlers handlers;
    handlers.on_event = [&](std::string_view event, double now_ms) {
      meter.take(event, now_ms);
      if (meter.final_event().empty()) append_ids(event, answer_ids);
    };
    handlers.on_end = [&](const Answer& answer) {
      is_done = true;
      turn.ok = meter.end(answer);
    };
    const CallId call = context_.client.send(context_.as_self(completion), std::move(handlers));
    context_.client.run_until([&] { return is_done; }, context_.real("limit"));
    context_.client.drop(call);
    turn.n_computed = find_number(meter.final_event(), "prompt_n", std::numeric_limits<double>::quiet_NaN());
    turn.ttft_ms = tally.ttft_ms.percentile(50);
    conversation.ids.insert(conversation.ids.end(), answer_ids.begin(), answer_ids.end());
    // The answer's last token was sampled, but never decoded.
    conversation.n_uncomputed = answer_ids.empty() ? 0 : 1;
    return turn;
  }

  Context& context_;
};

/// Sums over turns, and a row for each.
class Turns {
 public:
  void add(int64_t branch, const Conversation& conversation, const Turn& turn) {
    series_.rows.push_back({conversation.n_turns, branch, turn.n_prompt, turn.n_new, turn.n_computed, turn.ttft_ms});
    n_new_ += static_cast<double>(turn.n_new);
    n_computed_ += turn.n_computed;
    if (!turn.ok) ++n_failed_;
    if (conversation.n_turns > 1) ttft_ms_.add(turn.ttft_ms);
  }

  void add_to(Report& report) const {
    report.add("new_tokens", n_new_);
    report.add("computed_tokens", n_computed_);
    report.add("computed_over_new", n_computed_ / n_new_);
    report.add("ttft_after_first_p50_ms", ttft_ms_.percentile(50));
    report.add("ttft_after_first_max_ms", ttft_ms_.max());
    report.series.push_back(series_);
    if (n_failed_ > 0) report.failures.push_back(fmt::format("{} turns failed", n_failed_));
  }

 private:
  Series series_ = {"turns", {"turn", "branch", "prompt", "new", "computed", "ttft ms"}, {}};
  double n_new_ = 0, n_computed_ = 0;
  int64_t n_failed_ = 0;
  Samples ttft_ms_;
};

/// Waits until /health is 200.
bool wait_for_server(Context& context, double limit_s) {
  const double end_ms = context.client.now_ms() + limit_s * 1000;
  while (context.client.now_ms() < end_ms) {
    if (context.get("/health").status == 200) return true;
    context.client.run_for(0.1);
  }
  return false;
}

/// The times of one more turn of the usual length in each branch.
Samples times_of_turns(Replay& replay, std::vector<Conversation> branches) {
  Samples ttft_ms;
  for (Conversation& branch : branches)
    ttft_ms.add(replay.extend(branch, replay.length_at(1) - replay.length_at(0)).ttft_ms);
  return ttft_ms;
}

/// Restarts the server. Each branch takes a turn before, and another one with the same past after it.
void compare_restart(Context& context, Replay& replay, const std::vector<Conversation>& branches, Report& report) {
  const Samples before_ms = times_of_turns(replay, branches);
  context.client.close_idle();
  const int status = std::system(context.text("restart").c_str());
  if (status != 0 || !wait_for_server(context, context.real("limit"))) {
    report.failures.push_back(fmt::format("the restart command: status {}, or no /health after it", status));
    return;
  }
  const Samples after_ms = times_of_turns(replay, branches);
  report.add("ttft_before_restart_p50_ms", before_ms.percentile(50));
  report.add("ttft_after_restart_p50_ms", after_ms.percentile(50));
  report.add("ttft_after_over_before_restart", after_ms.percentile(50) / before_ms.percentile(50));
}

}  // namespace

Report run_replay(Context& context) {
  Report report;
  Replay replay(context);
  Turns turns;
  const int64_t n_turns = replay.n_turns();
  Conversation trunk;
  while (trunk.n_turns < std::max<int64_t>(n_turns / 4, 1)) turns.add(0, trunk, replay.take_turn(trunk));
  std::vector<Conversation> branches(static_cast<size_t>(std::max<int64_t>(context.count("branches"), 1)), trunk);
  // The first branch computes the last token of the trunk's answer for all of them.
  for (size_t i = 1; i < branches.size(); ++i) branches[i].n_uncomputed = 0;
  while (branches.back().n_turns < n_turns) {
    for (size_t i = 0; i < branches.size(); ++i) {
      turns.add(static_cast<int64_t>(i) + 1, branches[i], replay.take_turn(branches[i]));
    }
  }
  turns.add_to(report);
  if (!context.text("restart").empty()) compare_restart(context, replay, branches, report);
  return report;
}

}  // namespace tessera::load
