// The normalised mean squared error, the measure of all comparisons of values: sum (got - want)^2 / sum want^2.
#pragma once

namespace tessera::eval {

struct SquaredError {
  double error = 0, power = 0;

  void add(double want, double got) {
    error += (got - want) * (got - want);
    power += want * want;
  }
  void add(const SquaredError& other) {
    error += other.error;
    power += other.power;
  }
  /// Not a number if nothing was added, or only zeros that agree.
  double nmse() const { return error / power; }
};

}  // namespace tessera::eval
