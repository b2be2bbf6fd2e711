// Writes the initial corpus of checkpoint_fuzz into a directory: small files of each container, and a pickle alone.
#include <fmt/core.h>

#include <fstream>

#include "tests/convert/checkpoint_files.h"

namespace {

using tessera::testing::number_bytes;

template <class... Numbers>
std::string numbers_bytes(Numbers... numbers) {
  return (number_bytes(static_cast<int32_t>(numbers)) + ...);
}

// GGML, GGMF and GGJT with the matrices that give the extents of a layer.
std::string old_llama_file(uint32_t magic) {
  const bool has_version = magic != 0x67676d6c, is_aligned = magic == 0x67676a74;
  std::string file = number_bytes(magic) + (has_version ? number_bytes(1) : "") + numbers_bytes(1, 4, 1, 2, 1, 2, 1);
  file += number_bytes(3) + "<s>" + (has_version ? number_bytes(0.5f) : "");
  for (const std::string name : {"layers.0.attention.wk.weight", "layers.0.feed_forward.w1.weight"}) {
    file += numbers_bytes(2, name.size(), 1, 4, 2) + name;
    if (is_aligned) file.resize((file.size() + 31) / 32 * 32);
    file += std::string(16, 'x');
  }
  return file;
}

// With a width of 2, one layer, one head and one token: norms of 6 values, matrices of 24, and in the first
// version the cosines and sines of two positions.
std::string llama2c_file(int32_t version) {
  std::string file = version > 0 ? number_bytes(0x616b3432u) + number_bytes(version) : "";
  file += numbers_bytes(2, 1, 1, 1, 1, 1, 2);
  if (version > 0) {
    file += std::string(1, '\1') + number_bytes(1);
    file.resize(256, '\0');
  }
  const size_t n_norms = 6, n_matrices = 24;
  return file +
         std::string(version == 2 ? n_norms * 4 + n_matrices * 5 : (n_norms + n_matrices + (version == 0 ? 4 : 0)) * 4,
                     'x');
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} DIRECTORY\n", argv[0]);
    return 2;
  }
  using namespace tessera::testing;
  size_t n_seeds = 0;
  const auto write = [&](const std::string& bytes) {
    std::ofstream(fmt::format("{}/seed-{}", argv[1], n_seeds++), std::ios::binary) << bytes;
  };
  write(safetensors_file(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]}})",
                         "12345678"));
  const std::string object = pickle::whole(pickle::dictionary(
      {{"w", pickle::tensor({.key = "0", .n_stored = 4, .shape = {2, 2}, .strides = {1, 2}})},
       {"v", pickle::tensor({.key = "0", .n_stored = 4, .offset = 1, .shape = {3}, .strides = {1}})}}));
  const std::string data(16, 'x');
  write(object);
  write(zip_archive({{.name = "m/data.pkl", .bytes = object},
                     {.name = "m/byteorder", .bytes = "little"},
                     {.name = "m/data/0", .bytes = data, .head_extra = "12"}}));
  write(zip_archive(
      {{.name = "m/data.pkl", .bytes = object, .has_sizes_of_64_bits = true}, {.name = "m/data/0", .bytes = data}},
      "a comment"));
  write(legacy_torch_file(object, {{"0", data}}));
  for (const uint32_t magic : {0x67676d6cu, 0x67676d66u, 0x67676a74u}) write(old_llama_file(magic));
  for (const int32_t version : {0, 1, 2}) write(llama2c_file(version));
  return 0;
}
