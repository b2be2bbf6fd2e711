// Settings that the user left open are chosen so that they fit: layers on devices, the context, the micro-batch. Each
// choice compares a plan (Session::plan) with the free memory of the devices, before anything is loaded.
#pragma once

#include <span>
#include <string>

#include "tessera/engine/session.h"

namespace tessera {

struct FitOptions {
  bool is_on = true;
  uint64_t margin_bytes = uint64_t{1} << 30;  // to be left free on each device; on the CPU at most 1/16 of what is free
  int64_t least_ctx = 4096;                   // of a context that may shrink: where SessionOptions::n_ctx is 0
  bool fits_ubatch = false;  // the micro-batch may shrink; layers may where the engine's placement says kAutoLayers
};

struct Fitted {
  SessionOptions session;
  MemoryReport report;
  std::string choice{};  // a line for people; "" where all is as asked
};

/// Places the engine's weights, which are not loaded, and the adapters' so that a session fits. In this order: a
/// shorter context; experts, then layers, on the CPU; a smaller micro-batch. Errors: out_of_memory, with both numbers
/// of the smallest plan; those of Session::plan().
Result<Fitted> fit(Engine& engine, std::span<const SessionAdapter> adapters, const SessionOptions& asked,
                   const FitOptions& options);

/// The first settings that take at most so many bytes altogether, weights included: the largest context up to
/// asked.n_ctx, or up to the model's if that is 0; then a smaller micro-batch; then a q8_0 cache; then a context below
/// FitOptions::least_ctx. Errors: out_of_memory, with the bytes of the smallest plan; those of Session::plan().
Result<Fitted> fit_within(const Engine& engine, const SessionOptions& asked, uint64_t bytes);

}  // namespace tessera
