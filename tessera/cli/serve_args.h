// Flags of tessera serve. Names and defaults are those of llama-server, as far as it has them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"
#include "tessera/cli/sampling_args.h"
#include "tessera/cli/speculation_args.h"
#include "tessera/cli/template_args.h"
#include "tessera/cli/tuning.h"
#include "tessera/server/server.h"

namespace tessera::cli {

struct ServeArgs {
  ModelArgs model{.may_be_bundled = true};
  ContextArgs context;
  SamplingArgs sampling;
  SpeculationArgs speculation;
  TemplateArgs chat_template;
  server::ServerOptions server;
  server::SchedulerOptions scheduler;
  int32_t n_slots = 0;          // 0: chosen by the machine and the model
  bool shares_context = false;  // every slot may use the whole context
  int64_t slot_context = 0;     // a bound for each slot; 0: none
  bool batches_slots = true;    // false: one slot
  int64_t n_predict = -1;
  bool lets_clients_name_models = false;
  bool begins_without_loras = false;  // their scales are 0 until clients set them
  std::vector<std::string> aliases, tags;
  std::vector<std::string> stop;  // -r
  int64_t cache_mib = -2;  // of the prefix cache beyond the context; -1: all that is left, -2: see session_options()
  int64_t drain_s = 10;
  server::CatalogPaths catalog;      // of several models
  server::RegistryOptions registry;  // without the limit of memory
  uint64_t memory_bytes = 0;         // of models and caches; 0: what is free
  LogStyle log_style;
  std::string log_file;       // "": only to stderr
  int32_t log_verbosity = 3;  // below 3: no lines
  bool is_log_disabled = false;
  bool has_embeddings = false, has_reranking = false;
  std::optional<nn::Pooling> pooling;
  std::vector<std::string> ignored;  // flags of llama-server without effect here

  void add_to(FlagTable& table);
  /// The flags of one model, which presets may set.
  void add_model_flags(FlagTable& table);
  Result<> check();

  /// Whether models are loaded when requests ask for them.
  bool has_many_models() const { return !catalog.directory.empty() || !catalog.presets.empty(); }
  /// The number of slots for a model with weights of these bytes.
  int32_t slots_for(size_t weight_bytes) const;
  /// The embeddings and scores that the server computes: as flags ask for them, and those of models that compute
  /// nothing else. Nothing for other models. Errors: those of embedding_pooling().
  Result<std::optional<EmbeddingUse>> embedding_use(const Engine& engine) const;
  /// The same, for a session beside the model's first one. Nothing if the first one computes them.
  Result<std::optional<EmbeddingUse>> second_session(const Engine& engine) const;
  /// The options of the model's first session, with room for the prefix cache: as --cache-ram says, by default the
  /// least of 8 GiB, 2^20 tokens and half of the memory that the plan and the server itself leave free, divided by
  /// --models-max with several models. Errors: those of Session::plan(); out_of_memory (the plan exceeds --memory).
  Result<SessionOptions> session_options(const LoadedModel& model, int32_t slots) const;
  /// The options of the scheduler for a session. token_ms: the time of a token, guessed.
  server::SchedulerOptions scheduler_options(const Session& session) const;
  /// The options of the runner of embeddings for a session, with batches of n_ubatch tokens.
  server::EmbedderOptions embedder_options(const Session& session, int64_t n_ubatch) const;

 private:
  void add_network_flags(FlagTable& table);
  void add_limit_flags(FlagTable& table);
  void add_endpoint_flags(FlagTable& table);
  void add_slot_flags(FlagTable& table);
  void add_embedding_flags(FlagTable& table);
  void add_catalog_flags(FlagTable& table);
  void add_log_flags(FlagTable& table);
  void add_peer_flags(FlagTable& table);
};

}  // namespace tessera::cli
