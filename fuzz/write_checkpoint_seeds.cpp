// Writes the initial corpus of checkpoint_fuzz into a directory: small files of each container, and a pickle alone.
#include <fmt/core.h>

#include <fstream>

#include "tests/convert/checkpoint_files.h"

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
  return 0;
}
