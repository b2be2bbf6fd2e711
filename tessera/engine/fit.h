// What the user did not set is chosen so that it fits: layers on devices, the context, the micro-batch. Every choice is
// a plan's (Session::plan) against what the devices have free, before anything is loaded; where a device has less than
// it says, loading is tried again with a smaller plan.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tessera/engine/session.h"

namespace tessera {

struct FitOptions {
  bool is_on = true;
  uint64_t margin_bytes = uint64_t{1} << 30;  // to be left free on each device; on the CPU at most 1/16 of what is free
  int64_t least_ctx = 4096;
  bool fits_context = false;  // the context may shrink, to least_ctx at the least
  bool fits_ubatch = false;   // so may the micro-batch; layers may where the engine's placement says kAutoLayers
};

struct Fitted {
  SessionOptions session;
  MemoryReport report;
  std::string choice;  // a line for people; "" where all is as asked
};

/// Places the engine's weights, which are not loaded, and the adapters' so that a session fits. In this order: a
/// shorter context; experts, then layers, on the CPU; a smaller micro-batch. Errors: out_of_memory, with both numbers
/// of the smallest plan; those of Session::plan().
Result<Fitted> fit(Engine& engine, std::span<const SessionAdapter> adapters, const SessionOptions& asked,
                   const FitOptions& options);

/// Loads engine and adapters and makes a session of these options.
using LoadSession = std::function<Result<std::unique_ptr<Session>>(const SessionOptions&)>;
/// fit() and load(); if a device is out of memory all the same, again with a smaller plan for the devices, a few times.
/// `tell` gets each choice. Errors: those of fit() and load().
Result<std::unique_ptr<Session>> load_fitted(Engine& engine, std::span<const SessionAdapter> adapters,
                                             const SessionOptions& asked, FitOptions options, const LoadSession& load,
                                             const std::function<void(const std::string&)>& tell);

}  // namespace tessera
