#include "tessera/cli/count_progress.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "tessera/cli/console.h"

namespace tessera::cli {

CountProgress::CountProgress(std::string noun, int64_t n_parts, int64_t n_before, const Context& process)
    : noun_(std::move(noun)), n_parts_(n_parts), n_before_(n_before), hidden_(process.quiet) {}

CountProgress::~CountProgress() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void CountProgress::update(int64_t n_done, std::string_view figures) {
  if (hidden_) return;
  std::string line = fmt::format("{} {} of {}", noun_, n_done, n_parts_);
  if (!figures.empty()) line += fmt::format(", {}", figures);
  if (!stderr_is_terminal()) return log(line);
  const std::chrono::duration<double> elapsed = Clock::now() - start_;
  const double left =
      elapsed.count() / static_cast<double>(n_done - n_before_) * static_cast<double>(n_parts_ - n_done);
  line += fmt::format(", {:%T} left", std::chrono::seconds(static_cast<int64_t>(left)));
  std::fputs(("\r\033[K" + line).c_str(), stderr);
  drawn_ = true;
}

}  // namespace tessera::cli
