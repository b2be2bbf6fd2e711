#include "tessera/cli/train_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace tessera::cli {

Result<TrainLog> TrainLog::open(const std::string& path, bool appends) {
  TrainLog log;
  log.path_ = path;
  if (path.empty()) return log;
  log.file_.reset(std::fopen(path.c_str(), appends ? "a" : "w"));
  if (log.file_ == nullptr) return fail(ErrorCode::io, "{}: cannot write: {}", path, std::strerror(errno));
  return log;
}

void TrainLog::add(const std::string& line) {
  if (file_ == nullptr) return;
  failed_ = std::fputs(line.c_str(), file_.get()) < 0 || std::fflush(file_.get()) != 0 || failed_;
}

void TrainLog::add_step(const train::StepReport& step) {
  add(fmt::format(
      "{{\"step\": {}, \"loss\": {}, \"gradient_norm\": {}, \"learning_rate\": {}, \"tokens_per_s\": {:.1f}}}\n",
      step.step, step.loss, step.gradient_norm, step.learning_rate, static_cast<double>(step.n_tokens) / step.seconds));
}

void TrainLog::add_eval(int64_t step, double loss) {
  add(fmt::format("{{\"step\": {}, \"eval_loss\": {}}}\n", step, loss));
}

Result<> TrainLog::finish() {
  if (failed_) return fail(ErrorCode::io, "{}: cannot write", path_);
  return {};
}

}  // namespace tessera::cli
