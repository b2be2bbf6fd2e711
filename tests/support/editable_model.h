// Model files with a single error: a valid file is read, changed and written. For tests of the engine and the program.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/gguf/reader.h"
#include "tessera/gguf/writer.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// A copy of a model file that tests can change and write.
struct EditableModel {
  GgufBuilder builder;
  std::vector<std::vector<std::byte>> data;  // by tensor, in order

  explicit EditableModel(const std::string& path) {
    const auto file = GgufFile::open(path);
    EXPECT_OK(file);
    EXPECT_OK(builder.set_all((*file)->metadata()));
    for (const GgufTensor& tensor : (*file)->tensors()) {
      EXPECT_OK(builder.add_tensor(tensor.name, tensor.dtype, tensor.shape));
      const auto bytes = (*file)->data(tensor);
      data.emplace_back(bytes.begin(), bytes.end());
    }
  }

  std::vector<std::byte>& tensor(std::string_view name) {
    const auto tensors = builder.tensors();
    const auto found = std::ranges::find(tensors, name, &GgufBuilder::TensorEntry::name);
    return data.at(static_cast<size_t>(found - tensors.begin()));
  }

  std::string write(const std::string& name) const {
    const std::vector<std::span<const std::byte>> spans(data.begin(), data.end());
    const auto bytes = gguf_to_bytes(builder, spans);
    EXPECT_OK(bytes);
    return write_temporary(name, std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
  }
};

}  // namespace tessera::testing
