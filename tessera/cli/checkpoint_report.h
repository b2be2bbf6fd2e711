// The report of `tessera inspect` about a checkpoint: a folder of safetensors or PyTorch files, or one such file.
#pragma once

#include <string>

#include "tessera/base/cancel.h"
#include "tessera/cli/console.h"
#include "tessera/convert/source/checkpoint.h"

namespace tessera::cli {

/// The parts of a report.
struct CheckpointParts {
  bool summary = true, config = true, tensors = true;
};

/// Prints tables: files, sizes and formats; the members of config.json, or of adapter_config.json; the tensors, whose
/// shapes are in the order of the checkpoint, outermost first. Errors: those of reading config.json; io.
Result<> print_checkpoint(const convert::Checkpoint& checkpoint, const CheckpointParts& parts, Output& out);
/// The same as one JSON object.
Result<> print_checkpoint_json(const convert::Checkpoint& checkpoint, const CheckpointParts& parts, Output& out);

/// Prints the values of a tensor, a line for each row, or writes them as floats of 32 bits.
/// Errors: not_found; cancelled; io.
Result<> dump_checkpoint_tensor(const convert::Checkpoint& checkpoint, const std::string& name, bool is_raw,
                                const CancelToken& cancel, Output& out);

}  // namespace tessera::cli
