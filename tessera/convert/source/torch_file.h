// Reads the tensors of a PyTorch file: a zip archive with a pickle, or the form before version 1.6, in which pickles
// and bytes follow one another.
#pragma once

#include <span>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/convert/source/stored_tensor.h"

namespace tessera::convert {

enum class TorchForm : uint8_t { none, zip, legacy };
/// The form of a file with these first bytes, of which 16 are enough.
TorchForm torch_form(std::span<const std::byte> first_bytes);

/// Reads the tensors of the state dictionary: of the member "model", "state_dict" or "module" if the outermost one has
/// it. Other members are left out. Nothing of the file is executed.
/// Errors: those of Pickle::read() and ZipDirectory::read(), with the path; format (a tensor outside of its storage, no
/// tensors at all, a byte order other than little); limit.
Result<std::vector<StoredTensor>> read_torch_file(const File& file);

}  // namespace tessera::convert
