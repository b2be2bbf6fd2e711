// The loss curve of a training run, drawn in the terminal and as an SVG picture.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::cli {

struct LossCurve {
  struct Point {
    int64_t step;
    double loss;
  };
  std::vector<Point> steps, evals;

  void add_step(int64_t step, double loss) { steps.push_back({step, loss}); }
  void add_eval(int64_t step, double loss) { evals.push_back({step, loss}); }
};

/// Returns n means of neighbouring points, or fewer if there are fewer points.
std::vector<LossCurve::Point> thinned(std::span<const LossCurve::Point> points, size_t n);

/// Returns lines of braille dots, `width` letters each. The highest value labels the first line, the lowest the last.
std::vector<std::string> plot_lines(const LossCurve& curve, size_t width, size_t height);

/// Writes the picture. The curve must have steps. Errors: the errors of AtomicFile.
Result<> write_loss_svg(const std::string& path, const LossCurve& curve);

}  // namespace tessera::cli
