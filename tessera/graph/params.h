// Parameters of an operation by name, for plugin backends and for kernels that read them as numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera {

struct Param {
  const char* name;
  int64_t integer;  // 0 if the number is not an integer
  double number;
};

/// Filled by the member list() of a struct of parameters, in the order of its members.
class ParamList {
 public:
  static constexpr size_t kMaxParams = 16;

  void integer(const char* name, int64_t value) { add({name, value, static_cast<double>(value)}); }
  void number(const char* name, float value) { add({name, 0, double{value}}); }
  std::span<const Param> all() const& { return {params_.data(), n_}; }
  std::span<const Param> all() const&& = delete;  // a span of a temporary list would dangle

 private:
  void add(const Param& param) {
    if (n_ < kMaxParams) params_[n_++] = param;
  }

  std::array<Param, kMaxParams> params_{};
  size_t n_ = 0;
};

/// For operations without parameters.
struct NoParams {
  void list(ParamList&) const {}
};

}  // namespace tessera
