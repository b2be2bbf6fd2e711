// libFuzzer target for the GGUF reader. Any bytes are either a GGUF file or give an error of one line. An accepted file
// can be read to its end, and a file that the builder writes from its contents can be read back. fuzz/CMakeLists.txt
// explains how to run it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tessera/gguf/writer.h"
#include "tests/gguf/raw_gguf.h"

namespace {

using namespace tessera;

// Aborts on a violation. libFuzzer then reports the input.
void require(bool holds) {
  if (!holds) std::abort();
}

void convert_every_value(const Metadata& metadata) {
  for (const Metadata::Entry& entry : metadata.entries()) {
    require(metadata.find(entry.key) == &entry.value);
    require(metadata.get<int32_t>(entry.key).has_value() + metadata.get<float>(entry.key).has_value() +
                metadata.get<bool>(entry.key).has_value() + metadata.get<std::string_view>(entry.key).has_value() <=
            1);
    const bool is_one_value = metadata.get_vector<uint64_t>(entry.key).has_value() && entry.value.size() != 0;
    require(!is_one_value || entry.value.is_array());
  }
}

void write_and_read_back(const GgufFile& file) {
  GgufBuilder builder;
  if (!builder.set_all(file.metadata())) return;  // arrays of arrays are not supported
  std::vector<std::span<const std::byte>> data;
  for (const GgufTensor& tensor : file.tensors()) {
    require(builder.add_tensor(tensor.name, tensor.dtype, tensor.shape).has_value());
    data.push_back(file.data(tensor));
  }
  const auto bytes = gguf_to_bytes(builder, data);
  require(bytes.has_value());
  const auto again = GgufFile::parse(*bytes, "again");
  require(again.has_value() && (*again)->tensors().size() == file.tensors().size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  const auto file = GgufFile::parse(std::as_bytes(std::span(data, n)), "fuzz");
  if (!file) {
    require(file.error().message().find('\n') == std::string::npos);
    return 0;
  }
  require(testing::touch_everything(**file) != 0);
  convert_every_value((*file)->metadata());
  write_and_read_back(**file);
  return 0;
}
