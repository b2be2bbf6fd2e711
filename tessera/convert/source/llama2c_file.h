// Reads the files of llama2.c: a header of numbers, then matrices in a fixed order; tokens are in a file beside it.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/convert/source/bare_model.h"

namespace tessera::convert {

/// Bytes of the start of a file that tell whether it is one of these.
inline constexpr size_t kLlama2cHeadBytes = 48;

/// Whether a file of this size begins like this: with the magic number "ak42", or with seven numbers that give matrices
/// of exactly this size.
bool is_llama2c_file(std::span<const std::byte> first_bytes, uint64_t file_bytes);

/// Reads the tensors of a file that must outlive them: floats, or in version 2 integers of 8 bits with scales. A shared
/// token table appears as output.weight too.
/// Errors: format (numbers outside of their range, another size); unsupported (a version).
Result<BareFile> read_llama2c_file(std::span<const std::byte> bytes);

/// Adds the tokens of tokenizer.bin to a model, as many as its vocabulary has. Error: format.
Result<> read_llama2c_tokens(std::span<const std::byte> bytes, BareModel& model);

}  // namespace tessera::convert
