// Chooses the settings that the user left open so that they fit: layers on devices, the context, the micro-batch. Each
// choice compares a plan (Session::plan) with the free memory of the devices, before anything is loaded.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/engine/embedding.h"

namespace tessera {

struct FitOptions {
  bool is_on = true;
  uint64_t margin_bytes = uint64_t{1} << 30;  // left free on each device; on the CPU at most 1/16 of its free memory
  int64_t least_ctx = 4096;                   // bound for shrinking the context, if SessionOptions::n_ctx is 0
  std::optional<EmbeddingUse> embeddings{};   // plan a session for embeddings beside the first one: see plan_sessions()
  uint64_t most_bytes = 0;                    // of the whole plan, weights included; 0: no bound
  std::vector<MemoryPart> beside{};           // of a model that is loaded with this one; the report has them too
  bool fits_ubatch = false;  // the micro-batch may shrink; layers move if the placement has kAutoLayers
};

/// The bytes of a session, of the one for embeddings beside it, if there is one, of the engine, and those of
/// FitOptions::beside. The second session has the options of the first as far as embedding_session() leaves them.
/// Errors: those of Session::plan().
Result<MemoryReport> plan_sessions(const Engine& engine, const SessionOptions& options, const FitOptions& fit);

struct Fitted {
  SessionOptions session;
  MemoryReport report;
  std::string choice{};  // a line of text for the user; "" if the requested settings fit
};

/// Places the weights of the engine, which must not be loaded, and of the adapters so that a session fits. Tries, in
/// this order, a shorter context, experts on the CPU, layers on the CPU, a smaller micro-batch, and experts in the file
/// (stream_experts()). With most_bytes, as fit_within(), then with experts in the file. Errors: out_of_memory, with
/// both numbers of the smallest plan; those of Session::plan().
Result<Fitted> fit(Engine& engine, std::span<const SessionAdapter> adapters, const SessionOptions& asked,
                   const FitOptions& options);

/// Finds settings that need at most `bytes` in total, weights included. Tries, in this order, the largest context up to
/// asked.n_ctx (0: up to the model's), a smaller micro-batch, a q8_0 cache, and a context below FitOptions::least_ctx.
/// Of the options only `embeddings` and `beside` count.
/// Errors: out_of_memory, with the bytes of the smallest plan; those of Session::plan().
Result<Fitted> fit_within(const Engine& engine, const SessionOptions& asked, uint64_t bytes,
                          const FitOptions& options = {});

/// Leaves experts in the model's file, with the largest cache for which a session needs at most `bytes` in total.
/// Returns the plan. Errors: unsupported (no experts on the CPU); out_of_memory, with the bytes of the smallest cache;
/// those of Session::plan().
Result<MemoryReport> stream_experts(Engine& engine, std::span<const SessionAdapter> adapters,
                                    const SessionOptions& session, uint64_t bytes, const FitOptions& options);

}  // namespace tessera
