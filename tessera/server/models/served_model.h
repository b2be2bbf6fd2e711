// A loaded model with all that requests need of it: its scheduler, its chat template, its vocabulary for grammars, and
// facts that answers show. Shared by the requests that use it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tessera/engine/loaded_model.h"
#include "tessera/server/json/generation_fields.h"
#include "tessera/server/models/grammar_cache.h"
#include "tessera/server/models/model_names.h"
#include "tessera/server/models/served_adapters.h"
#include "tessera/server/run/embedder.h"
#include "tessera/server/run/scheduler.h"
#include "tessera/text/chat/chat_template.h"
#include "tessera/text/grammar/mask_vocab.h"

namespace tessera::server {

struct ServedModelOptions {
  std::string path{};
  std::string name{};                  // the id of the model; "": the first alias, else the file's name
  std::vector<std::string> aliases{};  // further names for clients, sorted
  std::vector<std::string> tags{};
  std::string chat_template{};                 // the source; empty: the model's own, else ChatML
  SchedulerOptions scheduler{};                // slot_context 0: the whole context
  std::optional<NamedModel> named{};           // if a client gave it this name
  std::optional<GenerationFields> defaults{};  // of requests; without them those of ApiOptions
  EmbeddingUse embeddings{};                   // of the session for embeddings, if there is one
  EmbedderOptions embedder{};
};

/// Whether the server generates text with a model. Others compute embeddings only.
bool generates_text(const ModelInfo& info);

/// Facts for GET /props and GET /models.
struct ModelFacts {
  std::string id{}, path{}, format{}, vocab_type{};
  std::string bos{}, eos{};
  int64_t n_vocab = 0, n_ctx_train = 0, n_embd = 0;
  uint64_t n_parameters = 0, n_bytes = 0;
  int64_t created_s = 0;  // when the server loaded it, in seconds since 1970
};

class ServedModel {
 public:
  /// `loaded` has a session for generating, or one for embeddings, or both. `turns` must outlive the model. Errors:
  /// those of Scheduler::create() and Embedder::create().
  static Result<std::unique_ptr<ServedModel>> create(LoadedModel loaded, ServedModelOptions options,
                                                     ComputeTurns& turns, PostToIo post_to_io);

  const Engine& engine() const { return *loaded_.engine; }
  std::shared_ptr<const Engine> shared_engine() const { return loaded_.engine; }
  const text::Tokenizer& tokenizer() const { return engine().tokenizer(); }
  const text::Vocab& vocab() const { return engine().vocab(); }
  bool generates() const { return scheduler_ != nullptr; }
  /// Only of a model that generates.
  Scheduler& scheduler() { return *scheduler_; }
  /// The runner of embeddings, or null.
  Embedder* embedder() { return embedder_.get(); }
  const Embedder* embedder() const { return embedder_.get(); }
  const ModelMetrics& metrics() const { return metrics_; }
  const ModelFacts& facts() const { return facts_; }
  const ServedModelOptions& options() const { return options_; }
  ServedAdapters& adapters() { return adapters_; }
  const ServedAdapters& adapters() const { return adapters_; }

  /// The most tokens of a request.
  int64_t slot_context() const { return options_.scheduler.slot_context; }

  // Of scheduler and embedder together: see Scheduler.
  void drain();
  void stop_all();
  void stop();
  bool is_idle() const;
  double overdue_ms() const;

  /// Whether a file of the model has shrunk while it was mapped. Its requests then fail.
  bool has_lost_files() const;

  /// The chat template. Errors: unsupported (the template of the model's file cannot be used), with the reason.
  Result<const text::ChatTemplate*> chat_template() const;
  /// The template's source, "" if there is none.
  const std::string& template_source() const { return template_source_; }

  /// The vocabulary as samplers and as grammars see it. The second is made at the first call.
  std::shared_ptr<const sample::VocabView> sampling_vocab() const { return sampling_vocab_; }
  std::shared_ptr<const text::grammar::MaskVocab> mask_vocab();
  /// The compiled grammars of requests. From any thread.
  GrammarCache& grammars() const { return *grammars_; }

 private:
  ServedModel(LoadedModel loaded, ServedModelOptions options);
  void read_facts();
  void read_template();

  LoadedModel loaded_;
  ServedModelOptions options_;
  ServedAdapters adapters_;
  ModelFacts facts_;
  std::string template_source_;
  std::optional<text::ChatTemplate> chat_template_;
  std::string template_problem_;
  std::shared_ptr<const sample::VocabView> sampling_vocab_;
  std::mutex mask_vocab_mutex_;
  std::shared_ptr<const text::grammar::MaskVocab> mask_vocab_;
  ModelMetrics metrics_;
  std::unique_ptr<GrammarCache> grammars_ = std::make_unique<GrammarCache>(metrics_);
  // Destroyed first: they use the sessions.
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Embedder> embedder_;
};

}  // namespace tessera::server
