// State that the routes share: the models, the workers and the settings of the server.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "tessera/server/api/kept_stream.h"
#include "tessera/server/http/exchange.h"
#include "tessera/server/json/field_error.h"
#include "tessera/server/json/generation_fields.h"
#include "tessera/server/metrics.h"
#include "tessera/server/models/model_registry.h"
#include "tessera/server/workers.h"

namespace tessera::server {

class LiveStreams;

inline constexpr int32_t kMaxNorm = 1024;

struct ApiOptions {
  GenerationFields defaults{};  // the server's flags
  int32_t max_choices = 128;
  int32_t max_logprobs = 100;
  int32_t embd_normalize = 2;                       // see normalize() of embeddings
  int64_t request_ms = 3'600'000;                   // for a request in all
  size_t stored_response_bytes = size_t{64} << 20;  // of answers that clients may go on from; 0: none
  KeptStreamLimits kept_streams{};                  // of X-Conversation-Id
  bool has_metrics = false, has_slots = true, has_props = false, has_page = true;
  bool notes_requests = false;             // for the access log
  bool shifts_context = false;             // a full context forgets tokens instead of ending the answer
  bool shares_cache = false;               // clients with different keys share cached tokens
  bool renders_special = false;            // special tokens are part of answers
  std::string named_models{};              // directory in which clients may name models; "": none
  std::string build_info{};                // "b1-commit"
  bool (*is_short_of_memory)() = nullptr;  // while it returns true, requests get 503; null: never
};

class ApiContext {
 public:
  ApiContext(ApiOptions options, ModelRegistry& models, Workers& workers, LiveStreams& streams,
             KeptStreams& kept_streams, std::shared_ptr<Storage> storage = nullptr)
      : options_(std::move(options)),
        models_(models),
        workers_(workers),
        streams_(streams),
        kept_streams_(kept_streams),
        storage_(std::move(storage)) {}

  const ApiOptions& options() const { return options_; }
  ModelRegistry& models() { return models_; }
  Workers& workers() { return workers_; }
  LiveStreams& streams() { return streams_; }
  KeptStreams& kept_streams() { return kept_streams_; }
  RequestCounts& request_counts() { return request_counts_; }
  /// When the server started, in seconds since 1970.
  int64_t start_time_s() const { return start_time_s_; }
  /// Files of the server; null: it keeps none.
  const Storage* storage() const { return storage_.get(); }

  /// The thread that writes uploaded files; null: none are taken. It must outlive all exchanges.
  DiskThread* disk_thread() const { return disk_thread_; }
  void set_disk_thread(DiskThread* thread) { disk_thread_ = thread; }

  /// The values of fields that a request does not give.
  const GenerationFields& defaults_of(const ServedModel& model) const {
    return model.options().defaults ? *model.options().defaults : options_.defaults;
  }
  bool is_draining() const { return is_draining_.load(std::memory_order_acquire); }
  void set_draining() { is_draining_.store(true, std::memory_order_release); }

 private:
  ApiOptions options_;
  ModelRegistry& models_;
  Workers& workers_;
  LiveStreams& streams_;
  KeptStreams& kept_streams_;
  std::shared_ptr<Storage> storage_;
  DiskThread* disk_thread_ = nullptr;
  RequestCounts request_counts_;
  const int64_t start_time_s_ =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::atomic<bool> is_draining_{false};
};

/// Answers with an error in the dialect of the request's path.
void answer_error(Exchange& exchange, const FieldError& error);

}  // namespace tessera::server
