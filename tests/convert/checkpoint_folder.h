// A folder with a checkpoint, which the test writes.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/convert/source/checkpoint.h"
#include "tests/convert/checkpoint_files.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// A tensor of a safetensors file.
struct SmallTensor {
  std::string name{}, type{};
  std::vector<int64_t> shape{};
  std::string bytes{};
};

/// The bytes of numbers.
template <class T>
std::string vector_bytes(const std::vector<T>& numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  if (!numbers.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

inline std::string safetensors_of(const std::vector<SmallTensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const SmallTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.type},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  return safetensors_file(header.dump(), data);
}

/// Writes files into a folder under temporary_dir(), which has no others then, and returns its path.
inline std::string write_folder(const std::string& name,
                                const std::vector<std::pair<std::string, std::string>>& files) {
  const std::filesystem::path folder = temporary_path(name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const auto& [file, bytes] : files) std::ofstream(folder / file, std::ios::binary) << bytes;
  return folder.string();
}

}  // namespace tessera::testing
