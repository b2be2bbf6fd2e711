// The text of a diffusion model while it is filled in: on a terminal redrawn after every step, else a line per step.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tessera/cli/live_rows.h"

namespace tessera::cli {

class DiffusionView {
 public:
  /// is_on: false shows nothing.
  explicit DiffusionView(bool is_on);
  ~DiffusionView() { erase(); }
  DiffusionView(const DiffusionView&) = delete;
  DiffusionView& operator=(const DiffusionView&) = delete;

  /// Shows the text after a step on stderr.
  void show(int64_t step, int64_t n_steps, std::string_view text);
  /// Erases what stands on the terminal.
  void erase();

 private:
  bool is_on_;
  int64_t n_columns_ = 80, n_rows_ = 24;
  std::optional<LiveRows> rows_{};  // of a terminal
};

}  // namespace tessera::cli
