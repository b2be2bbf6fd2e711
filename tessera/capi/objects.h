// The objects behind the handles of tessera.h.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tessera/base/cancel.h"
#include "tessera/capi/budget.h"
#include "tessera/capi/handle.h"
#include "tessera/engine/generate.h"
#include "tessera/engine/loaded_model.h"
#include "tessera/observe/session_trace.h"
#include "tessera/sample/chain.h"
#include "tessera/tessera.h"
#include "tessera/text/chat/chat_template.h"
#include "tessera/text/detokenize.h"

struct tessera_cancel : tessera::capi::Handle {
  static constexpr auto kKind = tessera::capi::HandleKind::cancel;
  tessera_cancel() : Handle(kKind) {}
  tessera::CancelToken token;
};

struct tessera_runtime : tessera::capi::Handle {
  static constexpr auto kKind = tessera::capi::HandleKind::runtime;
  explicit tessera_runtime(uint64_t memory_budget) : Handle(kKind), budget(memory_budget) {}

  void log(int32_t level, const std::string& text);
  /// The threads that sessions share. The first call starts them. Errors: those of ThreadPool::create().
  tessera::Result<tessera::ThreadPool*> threads();

  std::shared_ptr<const tessera::Registry> registry;
  tessera::capi::Budget budget;
  tessera::ThreadPoolOptions thread_options;
  std::mutex pool_mutex;
  std::unique_ptr<tessera::ThreadPool> pool;  // null: not started
  std::mutex log_mutex;                       // one call at a time
  tessera_log_function log_function = nullptr;
  void* log_user = nullptr;
};

struct tessera_model : tessera::capi::Handle {
  static constexpr auto kKind = tessera::capi::HandleKind::model;
  explicit tessera_model(tessera_runtime* of) : Handle(kKind), runtime(of) {}

  tessera::capi::Reference<tessera_runtime> runtime;
  tessera::capi::BudgetShare file;          // that a reader has read
  tessera::capi::BudgetShare memory;        // of the weights
  std::shared_ptr<tessera::Engine> engine;  // freed before the runtime
  std::atomic<bool> is_loaded{false};
  std::vector<std::weak_ptr<tessera::Adapter>> adapters;  // opened for it
};

struct tessera_adapter : tessera::capi::Handle {
  static constexpr auto kKind = tessera::capi::HandleKind::adapter;
  tessera_adapter(tessera_model* of, std::shared_ptr<tessera::Adapter> opened)
      : Handle(kKind), model(of), adapter(std::move(opened)) {}

  tessera::capi::Reference<tessera_model> model;
  tessera::capi::BudgetShare memory;
  std::shared_ptr<tessera::Adapter> adapter;  // freed before the model
};

struct tessera_session : tessera::capi::Handle {
  static constexpr auto kKind = tessera::capi::HandleKind::session;
  explicit tessera_session(tessera_model* of) : Handle(kKind), model(of) {}

  tessera::capi::Reference<tessera_model> model;
  tessera::capi::BudgetShare memory;  // without that of the model
  std::unique_ptr<tessera::Session> session;
  tessera::Batch batch;                                   // reused
  std::unique_ptr<tessera::observe::SessionTrace> trace;  // between tessera_trace_begin() and _end()
};

struct tessera_sampler : tessera::capi::Handle {
  static constexpr auto kKind = tessera::capi::HandleKind::sampler;
  explicit tessera_sampler(const tessera_model* of) : Handle(kKind), model(of) {}

  tessera::capi::Reference<const tessera_model> model;
  std::unique_ptr<tessera::sample::Chain> chain;
};

struct tessera_generation : tessera::capi::Handle {
  static constexpr auto kKind = tessera::capi::HandleKind::generation;
  tessera_generation(tessera_session* of, tessera_sampler* by, int32_t number, const tessera::GenerateOptions& generate,
                     bool shows_special)
      : Handle(kKind), session(of), sampler(by), sequence(number), options(generate), special(shows_special) {}

  tessera::capi::Reference<tessera_session> session;
  tessera::capi::Reference<tessera_sampler> sampler;
  int32_t sequence;
  tessera::GenerateOptions options;
  bool special;
  std::optional<tessera::Generator> generator;  // of the text that was started
  std::optional<tessera::text::DetokenizeStream> stream;
  std::string text;  // of the last token
};

struct tessera_template : tessera::capi::Handle {
  static constexpr auto kKind = tessera::capi::HandleKind::chat_template;
  tessera_template(const tessera_model* of, tessera::text::ChatTemplate parsed)
      : Handle(kKind), model(of), chat_template(std::move(parsed)) {}

  tessera::capi::Reference<const tessera_model> model;
  tessera::text::ChatTemplate chat_template;
};

namespace tessera::capi {

/// The token of a cancel object, or null for NULL. Error: invalid_argument (a handle of another kind).
inline Result<const CancelToken*> token_of(const tessera_cancel* cancel) {
  if (cancel == nullptr) return nullptr;
  TESSERA_TRY(require(cancel, "cancel"));
  return &cancel->token;
}

/// The adapters of a caller with their scales; scales NULL: 1 for each. Error: invalid_argument (NULL, a handle
/// of another kind).
Result<std::vector<SessionAdapter>> read_adapters(tessera_adapter* const* adapters, const float* scales,
                                                  uint64_t count);

/// Refuses handles of other kinds, and sequences that the session does not have. Error: invalid_argument.
Result<> require_sequence(const tessera_session* session, int32_t sequence);

/// A session on the threads of the model's runtime. Errors: those of Session::create() and ThreadPool::create().
Result<std::unique_ptr<Session>> create_session(const tessera_model& model, SessionOptions options);

/// The options of a session of a loaded model. Errors: invalid_argument (not loaded; an option).
Result<SessionOptions> read_session_options(const tessera_model& model, const tessera_session_options* options);

}  // namespace tessera::capi
