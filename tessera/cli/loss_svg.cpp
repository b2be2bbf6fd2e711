#include "tessera/cli/loss_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/base/file.h"
#include "tessera/base/index.h"

namespace tessera::cli {

namespace {

using Point = LossCurve::Point;

struct Bounds {
  double low, high;
};

Bounds bounds_of(std::span<const Point> points) {
  const auto [low, high] = std::ranges::minmax_element(points, {}, &Point::loss);
  return {low->loss, std::max(high->loss, low->loss + 1e-9)};
}

// Returns 1, 2 or 5 times a power of ten, so that about five ticks fit into the range.
double tick_step(double range) {
  const double power = std::pow(10.0, std::floor(std::log10(range / 5)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (range / (factor * power) <= 6) return factor * power;
  return 10 * power;
}

// Maps steps and losses to coordinates of the picture.
class Frame {
 public:
  static constexpr double kWidth = 800, kHeight = 450, kLeft = 64, kRight = 16, kTop = 32, kBottom = 48;

  Frame(int64_t first, int64_t last, Bounds bounds)
      : first_(static_cast<double>(first)), n_(std::max(static_cast<double>(last - first), 1.0)), bounds_(bounds) {}
  double x(double step) const { return kLeft + (kWidth - kLeft - kRight) * (step - first_) / n_; }
  double y(double loss) const {
    return kTop + (kHeight - kTop - kBottom) * (bounds_.high - loss) / (bounds_.high - bounds_.low);
  }
  double first() const { return first_; }
  double last() const { return first_ + n_; }
  Bounds bounds() const { return bounds_; }

 private:
  double first_, n_;
  Bounds bounds_;
};

std::string line(const Frame& frame, std::span<const Point> points, std::string_view style) {
  std::string at;
  for (const Point& point : points)
    at += fmt::format("{}{:.1f},{:.1f}", at.empty() ? "" : " ", frame.x(static_cast<double>(point.step)),
                      frame.y(point.loss));
  return fmt::format("<polyline fill=\"none\" {} points=\"{}\"/>\n", style, at);
}

std::string axes(const Frame& frame) {
  const auto [low, high] = frame.bounds();
  std::string out;
  const double loss_step = tick_step(high - low);
  for (double v = std::ceil(low / loss_step) * loss_step; v <= high; v += loss_step)
    out += fmt::format(
        "<line x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\" stroke=\"#ddd\"/>\n"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.4g}</text>\n",
        Frame::kLeft, frame.y(v), Frame::kWidth - Frame::kRight, Frame::kLeft - 6, frame.y(v) + 4, v);
  const double step = std::max(tick_step(frame.last() - frame.first()), 1.0);
  for (double v = std::ceil(frame.first() / step) * step; v <= frame.last(); v += step)
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.0f}</text>\n", frame.x(v),
                       Frame::kHeight - Frame::kBottom + 18, v);
  return out + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>\n", Frame::kWidth / 2,
                           Frame::kHeight - 8);
}

// Bits of the dots of a braille letter, 2 by 4, in the numbering of Unicode from U+2800.
constexpr std::array<std::array<uint32_t, 2>, 4> kDots = {{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};

void append_braille(std::string& out, uint32_t dots) {
  const uint32_t code = 0x2800 + dots;
  out += static_cast<char>(0xe0 | (code >> 12));
  out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
  out += static_cast<char>(0x80 | (code & 0x3f));
}

}  // namespace

std::vector<Point> thinned(std::span<const Point> points, size_t n) {
  if (points.size() <= n) return {points.begin(), points.end()};
  std::vector<Point> thin;
  for (size_t i = 0; i < n; ++i) {
    const size_t begin = i * points.size() / n, end = (i + 1) * points.size() / n;
    double sum = 0;
    for (const Point& point : points.subspan(begin, end - begin)) sum += point.loss;
    thin.push_back({points[(begin + end - 1) / 2].step, sum / static_cast<double>(end - begin)});
  }
  return thin;
}

std::vector<std::string> plot_lines(const LossCurve& curve, size_t width, size_t height) {
  const std::vector<Point> points = thinned(curve.steps, 2 * width);
  if (points.empty()) return {};
  const Bounds bounds = bounds_of(points);
  const size_t n_rows = 4 * height;
  std::vector<std::vector<uint32_t>> cells(height, std::vector<uint32_t>(width));
  const auto row_of = [&](double loss) {
    const double share = (bounds.high - loss) / (bounds.high - bounds.low);
    return to_size(std::llround(share * static_cast<double>(n_rows - 1)));
  };
  size_t before = row_of(points[0].loss);
  for (size_t x = 0; x < points.size(); ++x) {
    const size_t row = row_of(points[x].loss);
    for (size_t y = std::min(row, before); y <= std::max(row, before); ++y) cells[y / 4][x / 2] |= kDots[y % 4][x % 2];
    before = row;
  }
  std::vector<std::string> lines;
  for (size_t y = 0; y < height; ++y) {
    std::string text = y == 0            ? fmt::format("{:8.3f} ", bounds.high)
                       : y + 1 == height ? fmt::format("{:8.3f} ", bounds.low)
                                         : std::string(9, ' ');
    for (const uint32_t dots : cells[y]) append_braille(text, dots);
    lines.push_back(std::move(text));
  }
  return lines;
}

Result<> write_loss_svg(const std::string& path, const LossCurve& curve) {
  constexpr size_t kMaxPoints = 2000, kMeans = 100;
  const std::vector<Point> all = thinned(curve.steps, kMaxPoints), means = thinned(curve.steps, kMeans);
  std::vector<Point> every = all;
  every.insert(every.end(), curve.evals.begin(), curve.evals.end());
  const Frame frame(curve.steps.front().step, curve.steps.back().step, bounds_of(every));
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      Frame::kWidth, Frame::kHeight);
  svg += axes(frame);
  svg += line(frame, all, "stroke=\"#9bbce0\"");
  svg += line(frame, means, "stroke=\"#1f5fa8\" stroke-width=\"2\"");
  for (const Point& point : curve.evals)
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"#c0392b\"/>\n",
                       frame.x(static_cast<double>(point.step)), frame.y(point.loss));
  svg += fmt::format("<text x=\"{}\" y=\"20\">loss: each step (light), means (dark){}</text>\n</svg>\n", Frame::kLeft,
                     curve.evals.empty() ? "" : ", evaluation (dots)");
  TESSERA_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TESSERA_TRY(file.write(std::as_bytes(std::span(svg))));
  return file.commit();
}

}  // namespace tessera::cli
