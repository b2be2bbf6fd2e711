#include "tessera/cli/schedule_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/cli/console.h"

namespace tessera::cli {

namespace {

void log_schedule(const Schedule& schedule, std::span<const Device* const> devices, int64_t n_tokens) {
  log(fmt::format("step of {} tokens: {} slices, {} copies", n_tokens, schedule.slices.size(), schedule.n_copies()));
  std::string lines = describe(schedule.graph, schedule.assignment, devices);
  if (!lines.empty()) lines.pop_back();  // log() ends the line
  log(lines);
}

}  // namespace

Result<> log_schedules(const Session& session) {
  for (const int64_t n_tokens : {session.options().n_ubatch, int64_t{1}}) {
    TESSERA_ASSIGN(const Schedule schedule, session.step_schedule(n_tokens, 1));
    log_schedule(schedule, session.executor().devices(), n_tokens);
  }
  return {};
}

Result<> log_schedules(const Engine& engine, const SessionOptions& options) {
  TESSERA_ASSIGN(const auto session, Session::plan_session(engine, options));
  return log_schedules(*session);
}

}  // namespace tessera::cli
