#include "tessera/server/http/shared_state.h"

#include <exception>

#include "tessera/server/http/status.h"

namespace tessera::server {

HttpAnswer SharedState::write_problem(const HttpProblem& problem) const {
  if (!options.write_problem) return plain_problem_answer(problem);
  try {
    return options.write_problem(problem);
  } catch (const std::exception&) {
    return plain_problem_answer(problem);
  }
}

std::shared_ptr<const KeyRing> SharedState::current_keys() const {
  const std::lock_guard lock(mutex);
  return keys;
}

std::shared_ptr<const TlsContext> SharedState::current_tls() const {
  const std::lock_guard lock(mutex);
  return tls;
}

}  // namespace tessera::server
