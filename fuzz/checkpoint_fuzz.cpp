// libFuzzer target for containers of checkpoints: safetensors and PyTorch files, whose archives and pickles are read as
// well, and the files of models without config.json. The file's own first bytes choose the format. Any bytes give
// tensors inside of the file, or a refusal. fuzz/CMakeLists.txt explains how to run it.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "tessera/convert/source/ggml_file.h"
#include "tessera/convert/source/llama2c_file.h"
#include "tessera/convert/source/pickle.h"
#include "tessera/convert/source/safetensors.h"
#include "tessera/convert/source/torch_file.h"

namespace {

using namespace tessera;
using namespace tessera::convert;

// libFuzzer reports the input of a violation.
void require(bool holds) {
  if (!holds) std::abort();
}

// A file in memory with these bytes.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t n) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0 && ::write(descriptor_, data, n) == static_cast<ssize_t>(n));
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  File open() const { return File::open(fmt::format("/proc/self/fd/{}", descriptor_)).value(); }

 private:
  int descriptor_;
};

// Reads the first and the last elements, which the sanitizers watch.
void read_ends(const std::vector<StoredTensor>& tensors, std::span<const std::byte> file) {
  for (const StoredTensor& tensor : tensors) {
    const int64_t n_elements = tensor.n_elements();
    require(n_elements >= 0);
    if (n_elements == 0) continue;
    alignas(8) std::array<std::byte, 512> room{};
    const std::span<std::byte> element(room.data(), element_bytes(tensor.type));
    tensor.read(file, 0, element);
    tensor.read(file, n_elements - 1, element);
  }
}

template <class Read>
void require_read_or_refused(const Read& read) {
  if (!read) require(!read.error().message().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data),
                                     reinterpret_cast<const std::byte*>(data) + n);
  require_read_or_refused(Pickle::read(bytes));
  const MemoryFile memory(data, n);
  const File file = memory.open();
  const auto header = read_safetensors_header(file);
  require_read_or_refused(header);
  if (header) read_ends(header->tensors, bytes);
  const auto tensors = read_torch_file(file);
  require_read_or_refused(tensors);
  if (tensors) read_ends(*tensors, bytes);
  const auto ggml = read_ggml_file(bytes);
  require_read_or_refused(ggml);
  if (ggml) read_ends(ggml->tensors, bytes);
  const auto llama2c = read_llama2c_file(bytes);
  require_read_or_refused(llama2c);
  if (llama2c) read_ends(llama2c->tensors, bytes);
  BareModel model{.n_vocab = 3};
  require_read_or_refused(read_llama2c_tokens(bytes, model));
  return 0;
}
