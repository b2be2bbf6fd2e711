#include "tessera/observe/session_trace.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::observe {

SessionTrace::SessionTrace(Session& session) : session_(session), events_(TraceEvents::Clock::now()) {
  events_.add_devices(session.executor().devices());
  session.observe_steps([this](const StepView& step) { add_step(step); });
}

// A step of a prompt has tokens whose logits nobody wants.
void SessionTrace::add_step(const StepView& step) {
  const bool is_prefill = step.n_outputs < step.n_tokens;
  n_decodes_ = is_prefill ? 0 : n_decodes_ + 1;
  events_.add_step(is_prefill ? fmt::format("prefill {}", step.n_tokens) : fmt::format("decode {}", n_decodes_), step);
}

void SessionTrace::add_phase(std::string_view name, TraceEvents::Clock::time_point begin) {
  events_.add_phase(name, std::max(begin, events_.last_end()), TraceEvents::Clock::now());
}

}  // namespace tessera::observe
