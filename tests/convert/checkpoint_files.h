// Writes checkpoints byte by byte: safetensors, zip archives, pickles. Tests change single fields of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/file.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// Reads a file of these bytes, named test.file, by a function of convert/source. Errors: those of File::open() and the
/// function.
template <class F>
auto read_bytes(const F& read, const std::string& bytes) -> decltype(read(std::declval<File&>())) {
  auto file = File::open(write_temporary("test.file", bytes));
  if (!file) return forward_error(file);
  return read(*file);
}

/// The bytes of a number, the lowest first.
template <class T>
std::string number_bytes(T number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

inline std::string safetensors_file(std::string_view header, std::string_view data) {
  return number_bytes(uint64_t{header.size()}) + std::string(header) + std::string(data);
}

/// Fields of an entry that tests change.
struct ZipFile {
  std::string name{}, bytes{};
  uint16_t method = 0, flags = 0;
  std::string head_name{};    // empty: the same
  uint32_t n_more_bytes = 0;  // that only the directory has
  int32_t head_shift = 0;     // of the offset in the directory
  std::string head_extra{};   // such as padding
  bool has_sizes_of_64_bits = false;
};

inline std::string zip_archive(const std::vector<ZipFile>& files, std::string_view comment = "") {
  std::string archive, directory;
  for (const ZipFile& file : files) {
    const auto n_bytes = static_cast<uint32_t>(file.bytes.size());
    const auto offset = static_cast<uint32_t>(archive.size());
    const std::string& head_name = file.head_name.empty() ? file.name : file.head_name;
    archive += number_bytes(uint32_t{0x04034b50}) + number_bytes(uint16_t{20}) + number_bytes(file.flags) +
               number_bytes(file.method) + std::string(8, '\0') + number_bytes(n_bytes) + number_bytes(n_bytes) +
               number_bytes(static_cast<uint16_t>(head_name.size())) +
               number_bytes(static_cast<uint16_t>(file.head_extra.size())) + head_name + file.head_extra + file.bytes;
    const uint32_t n_shown = n_bytes + file.n_more_bytes;
    const uint32_t shown_offset = offset + static_cast<uint32_t>(file.head_shift);
    std::string extra;
    if (file.has_sizes_of_64_bits)
      extra = number_bytes(uint16_t{7}) + number_bytes(uint16_t{2}) + "ab" + number_bytes(uint16_t{1}) +
              number_bytes(uint16_t{24}) + number_bytes(uint64_t{n_shown}) + number_bytes(uint64_t{n_shown}) +
              number_bytes(uint64_t{shown_offset});
    const uint32_t in_extra = UINT32_MAX;
    directory += number_bytes(uint32_t{0x02014b50}) + number_bytes(uint32_t{20}) + number_bytes(file.flags) +
                 number_bytes(file.method) + std::string(8, '\0') + number_bytes(extra.empty() ? n_shown : in_extra) +
                 number_bytes(extra.empty() ? n_shown : in_extra) +
                 number_bytes(static_cast<uint16_t>(file.name.size())) +
                 number_bytes(static_cast<uint16_t>(extra.size())) + std::string(10, '\0') +
                 number_bytes(extra.empty() ? shown_offset : in_extra) + file.name + extra;
  }
  const auto n_files = static_cast<uint16_t>(files.size());
  return archive + directory + number_bytes(uint32_t{0x06054b50}) + std::string(4, '\0') + number_bytes(n_files) +
         number_bytes(n_files) + number_bytes(static_cast<uint32_t>(directory.size())) +
         number_bytes(static_cast<uint32_t>(archive.size())) + number_bytes(static_cast<uint16_t>(comment.size())) +
         std::string(comment);
}

/// Parts of pickles.
namespace pickle {

inline std::string text(std::string_view text) {
  return "X" + number_bytes(static_cast<uint32_t>(text.size())) + std::string(text);
}
inline std::string integer(int32_t number) { return "J" + number_bytes(number); }
inline std::string tuple(std::string_view items) { return "(" + std::string(items) + "t"; }
inline std::string global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}
inline std::string integers(const std::vector<int32_t>& numbers) {
  std::string items;
  for (const int32_t number : numbers) items += integer(number);
  return tuple(items);
}

struct Tensor {
  std::string key{};
  int32_t n_stored = 0;
  int32_t offset = 0;
  std::vector<int32_t> shape{}, strides{};
  std::string storage = "FloatStorage";
};

inline std::string tensor(const Tensor& tensor) {
  const std::string id = tuple(text("storage") + global("torch", tensor.storage) + text(tensor.key) + text("cpu") +
                               integer(tensor.n_stored)) +
                         "Q";
  return global("torch._utils", "_rebuild_tensor_v2") +
         tuple(id + integer(tensor.offset) + integers(tensor.shape) + integers(tensor.strides) + "\x89" +
               global("collections", "OrderedDict") + ")R") +
         "R";
}

/// A whole pickle of a dictionary. Members are pairs of pickled values.
inline std::string dictionary(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string items;
  for (const auto& [key, value] : members) items += text(key) + value;
  return "}(" + items + "u";
}
inline std::string whole(std::string_view value) { return "\x80\x02" + std::string(value) + "."; }

}  // namespace pickle

/// A PyTorch file of the form before version 1.6: a pickled object, and the bytes of storages of 32-bit elements.
/// is_little: the pickled boolean of its byte order.
inline std::string legacy_torch_file(const std::string& object,
                                     const std::vector<std::pair<std::string, std::string>>& storages,
                                     const std::string& is_little = "\x88") {
  std::string keys, data;
  for (const auto& [key, bytes] : storages) {
    keys += pickle::text(key);
    data += number_bytes(uint64_t{bytes.size() / sizeof(float)}) + bytes;
  }
  return "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19." + pickle::whole(pickle::integer(1001)) +
         pickle::whole(pickle::dictionary({{"little_endian", is_little}})) + object + pickle::whole("](" + keys + "e") +
         data;
}

}  // namespace tessera::testing
