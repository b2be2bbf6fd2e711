#include "tessera/server/api/embedding_task.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "tessera/server/api/generation.h"
#include "tessera/server/api/generation_task.h"

namespace tessera::server {

namespace {

constexpr int64_t kMostValues = int64_t{1} << 24;  // floats of an answer; as JSON about 200 MB

FieldError needs_flag(std::string_view what, std::string_view flags) {
  return {.status = 501,
          .type = "not_supported_error",
          .message = fmt::format("This server does not support {}. Start it with `{}`", what, flags)};
}

// Collects the results of a task. Events arrive on the strand of the exchange.
class EmbeddingReply final : public TaskSink, public std::enable_shared_from_this<EmbeddingReply> {
 public:
  EmbeddingReply(ApiContext& context, Embedder& embedder, std::shared_ptr<Exchange> exchange, EmbeddingWriter writer,
                 std::string ignored_fields)
      : context_(context),
        embedder_(embedder),
        exchange_(std::move(exchange)),
        writer_(std::move(writer)),
        ignored_fields_(std::move(ignored_fields)) {}

  FieldResult<> start(TaskSpec spec) {
    n_open_ = spec.sequences.size();
    results_.values.resize(n_open_);
    const auto self = shared_from_this();
    spec.sink = self;
    auto task = embedder_.submit(std::move(spec));
    if (!task) return std::unexpected(refusal_error(task.error()));
    exchange_->on_gone([embedder = &embedder_, weak = std::weak_ptr(*task)] {
      if (const auto running = weak.lock()) embedder->cancel(running);
    });
    exchange_->post([self, weak = std::weak_ptr(*task)] { self->task_ = weak; });
    return {};
  }

  void on_event(TaskEvent& event) override {
    if (event.kind != TaskEvent::Kind::ended || has_failed_) return;
    SequenceEnd& end = *event.end;
    --n_open_;
    if (end.reason == EndReason::cancelled) return;
    if (end.reason == EndReason::failed) return fail(end);
    results_.values[event.sequence] = std::move(end.values);
    results_.n_tokens += end.n_prompt;
    if (n_open_ == 0) finish();
  }
  void flush() override {}
  size_t n_unsent() const override { return 0; }
  int64_t stalled_ms() const override { return 0; }

 private:
  // Large answers are written on a worker, so that other connections of the thread do not wait.
  void finish() {
    context_.workers().post([self = shared_from_this()] {
      try {
        HttpAnswer answer;
        if (!self->ignored_fields_.empty()) answer.fields.push_back({"X-Ignored-Fields", self->ignored_fields_});
        answer.body = self->writer_(self->results_);
        self->exchange_->answer(std::move(answer));
      } catch (const std::bad_alloc&) {
        answer_error(*self->exchange_, unavailable(kOutOfMemory));
      }
    });
  }

  // One error ends all texts of the request. Nothing that a client sends makes a text fail here.
  void fail(const SequenceEnd& end) {
    has_failed_ = true;
    if (const auto task = task_.lock()) embedder_.cancel(task);
    FieldError error = sequence_error(end);
    if (!end.is_overloaded) {
      error.status = 500;
      error.type = "server_error";
    }
    answer_error(*exchange_, error);
  }

  ApiContext& context_;
  Embedder& embedder_;
  std::shared_ptr<Exchange> exchange_;
  EmbeddingWriter writer_;
  std::string ignored_fields_;
  std::weak_ptr<Task> task_;
  EmbeddingResults results_;
  size_t n_open_ = 0;
  bool has_failed_ = false;
};

FieldResult<> require_room(const ServedModel& model, const EmbeddingCall& call) {
  if (call.wants_scores) return {};
  int64_t n_vectors = std::ssize(call.texts);
  if (model.embedder()->use().pooling == nn::Pooling::none) {
    n_vectors = 0;
    for (const auto& text : call.texts) n_vectors += std::ssize(text);
  }
  const int64_t n_most = kMostValues / model.facts().n_embd;
  if (n_vectors <= n_most) return {};
  return std::unexpected(
      FieldError{.message = fmt::format("The answer would have {} vectors, want at most {}", n_vectors, n_most)});
}

}  // namespace

FieldResult<> require_embeddings(const ServedModel& model) {
  const Embedder* embedder = model.embedder();
  if (embedder != nullptr && embedder->use().pooling) return {};
  const bool is_ranker = embedder != nullptr && embedder->use().ranks;
  return std::unexpected(needs_flag("embeddings", is_ranker ? "--embeddings --pooling mean" : "--embeddings"));
}

FieldResult<> require_scores(const ServedModel& model) {
  if (model.embedder() != nullptr && model.embedder()->use().ranks) return {};
  return std::unexpected(needs_flag("reranking", "--reranking"));
}

FieldResult<> require_fit(const ServedModel& model, int64_t n_tokens) {
  const int64_t n_ctx = model.embedder()->n_ctx();
  if (n_tokens <= n_ctx) return {};
  FieldError refusal = context_overflow_error(n_tokens, n_ctx);
  refusal.message = fmt::format("input ({} tokens) is too large to process: the context is {} tokens", n_tokens, n_ctx);
  return std::unexpected(std::move(refusal));
}

FieldResult<> start_embedding(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange,
                              EmbeddingCall call, EmbeddingWriter writer) {
  TESSERA_READ(require_room(model, call));
  TaskSpec task = make_task(context, *exchange, call.fields);
  task.wants_scores = call.wants_scores;
  const std::vector<AdapterScale> adapters = model.adapters().of_request(call.fields.lora);
  for (std::vector<int32_t>& text : call.texts)
    task.sequences.push_back({.prompt = std::move(text), .chain = nullptr, .n_predict = 0, .adapters = adapters});
  const auto reply = std::make_shared<EmbeddingReply>(context, *model.embedder(), exchange, std::move(writer),
                                                      std::move(call.ignored));
  return reply->start(std::move(task));
}

}  // namespace tessera::server
