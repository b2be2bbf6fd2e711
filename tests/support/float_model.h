// A model file of f32 tensors that tests transform: tensors are renamed, joined or scaled, layers are repeated.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/gguf/reader.h"
#include "tessera/gguf/writer.h"
#include "tests/support/testing.h"

namespace tessera::testing {

struct FloatModel {
  struct Entry {
    std::string name;
    Shape shape;
    std::vector<float> values;
  };
  std::shared_ptr<GgufFile> file;
  GgufBuilder keys;
  std::vector<Entry> tensors;

  explicit FloatModel(const std::string& path) : file(GgufFile::open(path).value()) {
    EXPECT_OK(keys.set_all(file->metadata()));
    for (const GgufTensor& tensor : file->tensors()) {
      const auto bytes = file->data(tensor);
      Entry entry{std::string(tensor.name), tensor.shape, std::vector<float>(bytes.size() / sizeof(float))};
      std::memcpy(entry.values.data(), bytes.data(), bytes.size());
      tensors.push_back(std::move(entry));
    }
  }

  Entry* find(std::string_view name) {
    const auto found = std::ranges::find(tensors, name, &Entry::name);
    return found == tensors.end() ? nullptr : &*found;
  }
  Entry& at(std::string_view name) {
    Entry* entry = find(name);
    EXPECT_NE(entry, nullptr) << name;
    return *entry;
  }
  void drop(std::string_view name) {
    std::erase_if(tensors, [&](const Entry& entry) { return entry.name == name; });
  }
  /// Adds a tensor of small values.
  void add(const std::string& name, const Shape& shape) {
    Entry entry{name, shape, std::vector<float>(static_cast<size_t>(shape.n_elements()))};
    for (size_t i = 0; i < entry.values.size(); ++i) entry.values[i] = static_cast<float>(i % 7) * 0.125f - 0.375f;
    tensors.push_back(std::move(entry));
  }
  void rename(std::string_view from, std::string_view to) { at(from).name = to; }
  void scale(std::string_view name, float factor) {
    for (float& v : at(name).values) v *= factor;
  }
  /// Removes the scale factors of weights, which then default to 1.
  void drop_scales() {
    std::erase_if(tensors, [](const Entry& entry) { return entry.name.ends_with("scale"); });
  }

  /// Renames the architecture in all keys.
  void become(const std::string& architecture) {
    const std::string before(file->metadata().get<std::string_view>("general.architecture").value());
    keys.set("general.architecture", architecture);
    for (const auto& entry : file->metadata().entries())
      if (entry.key.starts_with(before + "."))
        EXPECT_OK(keys.set_value(architecture + std::string(entry.key.substr(before.size())), entry.value));
  }

  /// Sets the number of layers to n, all with the weights of layer 0.
  void repeat_layer_0(const std::string& architecture, int n) {
    keys.set(architecture + ".block_count", static_cast<uint32_t>(n));
    std::vector<Entry> first;
    for (const Entry& entry : tensors)
      if (entry.name.starts_with("blk.0.")) first.push_back(entry);
    std::erase_if(tensors, [](const Entry& entry) { return entry.name.starts_with("blk."); });
    for (int il = 0; il < n; ++il)
      for (Entry entry : first) {
        entry.name.replace(0, 6, "blk." + std::to_string(il) + ".");
        tensors.push_back(std::move(entry));
      }
  }

  std::string write(const std::string& name) const {
    GgufBuilder builder = keys;
    std::vector<std::span<const std::byte>> spans;
    for (const Entry& entry : tensors) {
      EXPECT_OK(builder.add_tensor(entry.name, DType::f32, entry.shape));
      spans.push_back(std::as_bytes(std::span(entry.values)));
    }
    const auto bytes = gguf_to_bytes(builder, spans);
    EXPECT_OK(bytes);
    return write_temporary(name, std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
  }
};

}  // namespace tessera::testing
