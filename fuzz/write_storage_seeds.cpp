// Writes the initial corpus of storage_fuzz into a directory: whole files of both formats.
#include <fmt/core.h>

#include <fstream>

#include "fuzz/storage_input.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} DIRECTORY\n", argv[0]);
    return 2;
  }
  size_t n_seeds = 0;
  const auto write = [&](char format, const std::vector<std::byte>& file) {
    std::ofstream out(fmt::format("{}/seed-{}", argv[1], n_seeds++), std::ios::binary);
    out.put(format).write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  };
  using tessera::server::SavedSlot;
  write(0, tessera::fuzz::slot_file(SavedSlot{}));
  write(0, tessera::fuzz::slot_file({.salt = "a", .tokens = {1, 2, 3}, .state = std::vector<std::byte>(40)}));
  const std::vector<std::byte> payload(tessera::fuzz::kPayloadBytes, std::byte{3});
  write(1, tessera::fuzz::block_file(tessera::fuzz::block_key(), payload));
  return 0;
}
