// Plans of quantizations and conversions: their sizes, as text and as JSON, and a plan for a wanted size.
#pragma once

#include <string>

#include "tessera/cli/command.h"
#include "tessera/cli/quantize_args.h"
#include "tessera/convert/quantize.h"

namespace tessera::cli {

struct QuantizeSizes {
  int64_t n_values = 0;   // of all tensors
  uint64_t n_before = 0;  // bytes of the files of the input
  uint64_t n_bytes = 0;   // of the output
};

/// "N bytes (SIZE, BITS bits per value) from N bytes (SIZE, BITS)".
std::string totals(const QuantizeSizes& sizes);
std::string table_of(const convert::QuantizePlan& plan, const QuantizeSizes& sizes);
Result<> print_json(const convert::QuantizePlan& plan, const QuantizeSizes& sizes);

/// Chooses the types for args.size. Errors: those of convert::fit_size().
Result<> fit_plan(const QuantizeArgs& args, const ModelFiles& files, convert::QuantizePlan& plan,
                  const convert::QuantizeOptions& options, ThreadPool& threads, Context& process);

}  // namespace tessera::cli
