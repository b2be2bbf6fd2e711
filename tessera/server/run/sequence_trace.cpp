#include "tessera/server/run/sequence_trace.h"

namespace tessera::server {

std::string_view trace_stage_name(TraceStage stage) {
  switch (stage) {
    case TraceStage::received:
      return "received";
    case TraceStage::parsed:
      return "parsed";
    case TraceStage::queued:
      return "queued";
    case TraceStage::admitted:
      return "admitted";
    case TraceStage::chunk:
      return "chunk";
    case TraceStage::first_token:
      return "first token";
    case TraceStage::paused:
      return "paused";
    case TraceStage::preempted:
      return "preempted";
    case TraceStage::resumed:
      return "resumed";
    case TraceStage::end:
      break;
  }
  return "end";
}

void SequenceTrace::add(TraceStage stage, int64_t n, std::chrono::steady_clock::time_point time) {
  constexpr size_t kMostBeforeEnd = kMaxTraceEntries - 2;  // one is for `received`
  if (stage != TraceStage::end && entries_.size() >= kMostBeforeEnd) return;
  entries_.push_back({.time = time, .stage = stage, .n = n});
}

}  // namespace tessera::server
