// temperature: one value per token.
#include <algorithm>
#include <cmath>

#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

void run_temperature(const Step& step, Worker& worker) {
  const auto& p = std::get<TemperatureParams>(step.node->params);
  const auto* positions = step.in[0].row<const int32_t>(0);
  const Range share = worker.share(step.in[0].shape()[0]);
  for (int64_t t = share.begin; t < share.end; ++t) {
    const auto n_steps = static_cast<double>(std::max(positions[t], 0) / p.length);
    *step.out.row(0, t) = static_cast<float>(1.0 + static_cast<double>(p.beta) * std::log1p(n_steps));
  }
}

}  // namespace

extern const OpKernel kTemperature;
const OpKernel kTemperature{.supports = nullptr, .work_bytes = nullptr, .run = run_temperature};

}  // namespace tessera::cpu
