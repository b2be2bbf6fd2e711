// The timeline of a session that programs drive themselves: every step from begin to end, named by what it computes.
#pragma once

#include <string>

#include "tessera/engine/session.h"
#include "tessera/observe/trace_events.h"

namespace tessera::observe {

class SessionTrace {
 public:
  /// Observes the steps of a session, which must outlive this.
  explicit SessionTrace(Session& session);
  ~SessionTrace() { session_.observe_steps({}); }
  SessionTrace(const SessionTrace&) = delete;
  SessionTrace& operator=(const SessionTrace&) = delete;

  /// Adds the time from the end of the last step, or from `begin` if that is later, until now.
  void add_phase(std::string_view name, TraceEvents::Clock::time_point begin);

  /// The contents of a file with all events so far.
  std::string json() const { return TraceEvents(events_).json(); }

 private:
  void add_step(const StepView& step);

  Session& session_;
  TraceEvents events_;
  int64_t n_decodes_ = 0;  // since the last prefill
};

}  // namespace tessera::observe
