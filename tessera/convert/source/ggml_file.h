// Reads the files of llama.cpp before GGUF: GGML, GGMF and GGJT, each with a llama and its vocabulary.
#pragma once

#include <span>

#include "tessera/convert/source/bare_model.h"

namespace tessera::convert {

/// Whether a file begins like this: with one of three magic numbers of 4 bytes.
bool is_ggml_file(std::span<const std::byte> first_bytes);

/// Reads the tensors. Blocks of quantized types are those of GGUF from version 3 of GGJT on; before, only floats are
/// read. The file has neither a context length nor the epsilon of norms: 2048 and 5e-6 are in between those of llamas
/// of its time.
/// Errors: format (with the place); unsupported (a version, a type); limit (tensors, dimensions).
Result<BareFile> read_ggml_file(std::span<const std::byte> bytes);

}  // namespace tessera::convert
