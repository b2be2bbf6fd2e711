#include "tessera/observe/schedule_log.h"

#include <fmt/format.h>

namespace tessera::observe {

Result<std::string> describe_schedules(const Session& session) {
  std::string text;
  for (const int64_t n_tokens : {session.options().n_ubatch, int64_t{1}}) {
    TESSERA_ASSIGN(const Schedule schedule, session.step_schedule(n_tokens, 1));
    text +=
        fmt::format("step of {} tokens: {} slices, {} copies\n{}", n_tokens, schedule.slices.size(),
                    schedule.n_copies(), describe(schedule.graph, schedule.assignment, session.executor().devices()));
  }
  text.pop_back();
  return text;
}

}  // namespace tessera::observe
