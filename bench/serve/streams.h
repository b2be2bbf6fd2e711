// Streamed completions under measurement: what a request asks for, what its stream is measured by, and a closed loop of
// workers that each send the next request when the last one has ended.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/serve/client.h"
#include "bench/serve/stats.h"

namespace tessera::load {

/// Fields of POST /completion. The answer has exactly n_tokens tokens: end tokens are banned.
struct Completion {
  std::string text;  // the prompt, unless there are ids
  std::vector<int32_t> ids;
  int64_t n_tokens = 16;
  int64_t priority = 0;  // sent unless 0: only tessera has it
  std::string more;      // further members of the object: R"("n_probs":50)"
};

/// Returns the body of a streamed, greedy completion.
std::string completion_body(const Completion& completion);
/// The same as a request with an API key and a source address.
Request completion_request(const Completion& completion, const std::string& api_key, const std::string& source = {});

/// Measurements of many streams.
struct Tally {
  Samples ttft_ms;       // from send() to the first token
  Samples gap_ms;        // between tokens of one stream; 0 where one read brought both
  Samples total_ms;      // of completed streams
  int64_t n_tokens = 0;  // received, also of streams that failed later
  int64_t n_complete = 0;
  std::map<std::string, int64_t> failures;  // by status, or by the way a stream ended

  int64_t n_failed() const;
};

/// The state of one stream. It tells token events from the final one by text: JSON escapes quotes inside of strings, so
/// the members looked for cannot occur in generated text.
class StreamMeter {
 public:
  StreamMeter(double sent_ms, Tally* tally) : tally_(tally), sent_ms_(sent_ms) {}

  void take(std::string_view event, double now_ms);
  /// Adds the end of the stream to the tally. Returns whether the stream was complete.
  bool end(const Answer& answer);

  int64_t n_tokens() const { return n_tokens_; }
  /// The final object of the stream; empty before the end.
  const std::string& final_event() const { return final_event_; }

 private:
  Tally* tally_;
  double sent_ms_;
  double last_ms_ = 0;  // time of the last token
  int64_t n_tokens_ = 0;
  bool has_error_ = false;
  std::string final_event_;
};

/// Returns the number after "name": in a JSON text, or `missing`.
double find_number(std::string_view json, std::string_view name, double missing = -1);

/// Workers that keep one stream each.
class ClosedLoop {
 public:
  static constexpr int64_t kUnlimited = INT64_MAX;
  struct Plan {
    int64_t n_workers = 1;
    int64_t n_requests = kUnlimited;  // in all
    std::function<Request(int64_t worker, int64_t index)> make;
  };

  ClosedLoop(Client& client, Plan plan);
  ClosedLoop(const ClosedLoop&) = delete;
  ClosedLoop& operator=(const ClosedLoop&) = delete;
  ~ClosedLoop() { drop_all(); }

  void start();
  /// Sends no further requests; streams that run go on.
  void stop() { n_left_ = 0; }
  /// Drops every stream.
  void drop_all();
  bool is_done() const { return n_running_ == 0; }

  /// The measurements since the start or the last clear().
  const Tally& tally() const { return tally_; }
  /// Tokens received, by worker.
  const std::vector<double>& n_tokens_by_worker() const { return n_tokens_by_worker_; }
  void clear();

  /// Called after each stream that ends.
  std::function<void()> on_end;

 private:
  struct Worker;
  void next(int64_t worker);

  Client& client_;
  Plan plan_;
  Tally tally_;
  int64_t n_left_ = 0, n_sent_ = 0, n_running_ = 0;
  std::vector<std::shared_ptr<Worker>> workers_;
  std::vector<double> n_tokens_by_worker_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // timers of a loop that is gone do nothing
};

}  // namespace tessera::load
