// State that the routes share: the model, the workers and the settings of the server. Also the way from an I/O thread
// to a worker and back.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "tessera/server/http/router.h"
#include "tessera/server/json/field_error.h"
#include "tessera/server/json/generation_fields.h"
#include "tessera/server/metrics.h"
#include "tessera/server/models/served_model.h"
#include "tessera/server/workers.h"

namespace tessera::server {

class LiveStreams;

struct ApiOptions {
  GenerationFields defaults{};  // the server's flags
  int32_t max_choices = 128;
  int32_t max_logprobs = 100;
  int64_t request_ms = 3'600'000;                   // for a request in all
  size_t stored_response_bytes = size_t{64} << 20;  // of answers that clients may go on from; 0: none
  bool has_metrics = false, has_slots = true, has_props = false, has_page = true;
  bool renders_special = false;  // special tokens are part of answers
  std::string build_info{};      // "b1-commit"
};

class ApiContext {
 public:
  ApiContext(ApiOptions options, Workers& workers, LiveStreams& streams)
      : options_(std::move(options)), workers_(workers), streams_(streams) {}

  const ApiOptions& options() const { return options_; }
  Workers& workers() { return workers_; }
  LiveStreams& streams() { return streams_; }
  RequestCounts& request_counts() { return request_counts_; }

  /// The model, or null while it is being loaded.
  ServedModel* model() const { return model_.load(std::memory_order_acquire); }
  /// The model must outlive all requests.
  void set_model(ServedModel* model) { model_.store(model, std::memory_order_release); }
  bool is_draining() const { return is_draining_.load(std::memory_order_acquire); }
  void set_draining() { is_draining_.store(true, std::memory_order_release); }

 private:
  ApiOptions options_;
  Workers& workers_;
  LiveStreams& streams_;
  RequestCounts request_counts_;
  std::atomic<ServedModel*> model_{nullptr};
  std::atomic<bool> is_draining_{false};
};

/// The part of a handler that needs a worker. It answers the exchange, or returns an error, which is then the answer.
using WorkerPart = std::function<FieldResult<>(ServedModel& model, const std::shared_ptr<Exchange>& exchange)>;

/// A handler that runs `part` on a worker. While there is no model it answers 503 "Loading model".
Handler on_worker(ApiContext& context, WorkerPart part);

/// Answers with an error in the dialect of the request's path.
void answer_error(Exchange& exchange, const FieldError& error);

}  // namespace tessera::server
