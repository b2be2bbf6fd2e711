// The types of a file that is written: tessera_quantize_options as options of the library.
#pragma once

#include <optional>
#include <string>

#include "tessera/capi/call_support.h"
#include "tessera/convert/quantize.h"

namespace tessera::capi {

/// `options` refers to the matrix, so this does not move.
struct Mix {
  convert::QuantizeOptions options;
  std::optional<convert::FileType> type;
  uint64_t max_bytes = 0;
  double bits_per_value = 0;
  int32_t n_threads = 0;
  bool is_plan = false;
  convert::Imatrix imatrix;

  Mix() = default;
  Mix(const Mix&) = delete;
  Mix& operator=(const Mix&) = delete;
  bool has_size() const { return max_bytes > 0 || bits_per_value > 0; }
  /// Whether options choose the types of single weights.
  bool chooses_weights() const;
};

/// Reads the options, and the importance matrix that they name. Errors: invalid_argument; unsupported; those of
/// Imatrix::load().
Result<> read_mix(const tessera_quantize_options* options, Mix& mix);

/// Chooses the types for the wanted size, if there is one. Errors: those of convert::fit_size().
Result<> fit_mix(const ModelFiles& files, const Mix& mix, convert::QuantizePlan& plan, ThreadPool& threads,
                 const Progress& progress);

/// The part of the progress in which the output is written.
Progress writing_part(const Mix& mix, const Progress& progress);

/// A plan and the bytes of its output as the result of a call.
tessera_written_info written_info(const ModelFiles& files, const convert::QuantizePlan& plan, uint64_t n_bytes_before,
                                  uint64_t n_bytes);

}  // namespace tessera::capi
