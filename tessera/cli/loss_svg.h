// The loss over the steps of a training: kept while it runs, drawn in the terminal and as an SVG picture.
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

/// n means of neighbouring points, or fewer where there are fewer points.
std::vector<LossCurve::Point> thinned(std::span<const LossCurve::Point> points, size_t n);

/// Lines of braille dots, width letters each, under the highest value and above the lowest.
std::vector<std::string> plot_lines(const LossCurve& curve, size_t width, size_t height);

/// Writes the picture; the curve has steps. Errors: those of AtomicFile.
Result<> write_loss_svg(const std::string& path, const LossCurve& curve);

}  // namespace tessera::cli
