// The objects behind the handles of ggml's headers, and how they are read from and written to files.
#pragma once

#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/gguf/reader.h"
#include "tessera/gguf/writer.h"
#include "tessera/llama/ggml/api.h"
#include "tessera/llama/objects.h"

namespace tessera::llama {

inline constexpr HandleTag kGgufContextTag = HandleTag{0x66756767'6f6e6c61};
inline constexpr HandleTag kTensorContextTag = HandleTag{0x6c6d6767'6f6e6c61};
inline constexpr HandleTag kDeviceTag = HandleTag{0x65636976'65646c61};
inline constexpr HandleTag kBackendTag = HandleTag{0x646e656b'63616c61};
inline constexpr HandleTag kBufferTypeTag = HandleTag{0x74667562'65706c61};

/// A key and its value, which is a copy: pointers to it are valid until the key changes.
struct GgufEntry {
  std::string key;
  bool is_array = false;
  GgufType element = GgufType::u8;     // the type of the value, or of its elements
  std::vector<std::byte> bytes{};      // numbers as in the file
  std::vector<std::string> strings{};  // the elements, if they are strings

  GgufType type() const { return is_array ? GgufType::array : element; }
  size_t size() const { return element == GgufType::string ? strings.size() : bytes.size() / scalar_bytes(element); }
};

struct GgufTensorEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape{};
  int rank = 1;
  uint64_t offset = 0;  // from the start of the data
  uint64_t n_bytes = 0;
  const void* data = nullptr;  // memory of the program
};

/// The file of a program's params: its tensors, with their data if the program wants it.
Result<std::unique_ptr<ggml_context>> read_tensors(const GgufFile& file, bool has_data);

}  // namespace tessera::llama

/// The content of a GGUF file without its data, read or built.
struct gguf_context : tessera::llama::Tagged {
  static constexpr auto kTag = tessera::llama::kGgufContextTag;
  static constexpr std::string_view kName = "GGUF context";
  gguf_context() : Tagged(kTag) {}

  std::optional<size_t> find(std::string_view key) const;
  std::optional<size_t> find_tensor(std::string_view name) const;
  /// Puts an entry at the end, in place of one with the same key. Error: invalid_argument (the key of the alignment
  /// with another value than 32, to which all files are written).
  tessera::Result<> set(tessera::llama::GgufEntry entry);
  /// Places the tensors from `first` on behind one another. Error: limit.
  tessera::Result<> place_tensors(size_t first);
  /// The keys and tensors for a writer. Errors: unsupported (another alignment than 32); those of the builder.
  tessera::Result<tessera::GgufBuilder> builder() const;

  uint32_t version = tessera::kGgufVersionWritten;
  uint64_t alignment = tessera::kGgufDefaultAlignment;
  uint64_t data_offset = 0;
  std::vector<tessera::llama::GgufEntry> entries{};
  std::vector<tessera::llama::GgufTensorEntry> tensors{};
};

/// The tensors of a file. Their number does not change, so programs may keep pointers to them.
struct ggml_context : tessera::llama::Tagged {
  static constexpr auto kTag = tessera::llama::kTensorContextTag;
  static constexpr std::string_view kName = "context of tensors";
  ggml_context() : Tagged(kTag) {}

  std::vector<ggml_tensor> tensors{};
  std::vector<std::vector<std::byte>> data{};
};
