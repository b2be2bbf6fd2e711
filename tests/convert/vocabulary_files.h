// Folders with the files of a tokenizer, which tests write file by file, and the vocabularies that are read from them.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/convert/vocabulary/read_vocabulary.h"
#include "tests/convert/checkpoint_files.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// A list. Braces alone would make an object of pairs.
inline Json list(std::vector<Json> items) { return items; }

/// A new folder, removed at the end of its scope.
class TokenizerFiles {
 public:
  TokenizerFiles() {
    static int number = 0;
    folder_ = temporary_dir() / ("tokenizer" + std::to_string(number++));
    std::filesystem::create_directories(folder_);
  }
  ~TokenizerFiles() { std::filesystem::remove_all(folder_); }
  TokenizerFiles(const TokenizerFiles&) = delete;
  TokenizerFiles& operator=(const TokenizerFiles&) = delete;

  std::string path() const { return folder_.string(); }

  TokenizerFiles& write(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return *this;
  }
  TokenizerFiles& write(const std::string& name, const Json& json) { return write(name, json.dump()); }
  TokenizerFiles& write(const std::string& name, const char* bytes) { return write(name, std::string(bytes)); }

 private:
  std::filesystem::path folder_;
};

/// The result of reading, and what was warned of, without the path of the folder.
struct VocabularyReading {
  Result<convert::Vocabulary> vocabulary;
  std::vector<std::string> warnings{};
};

inline std::string without(std::string text, std::string_view part) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part)) text.erase(at, part.size());
  return text;
}

inline VocabularyReading read_files(const TokenizerFiles& files, const Json& config = Json::object(),
                                    const convert::VocabularyOptions& options = {}) {
  std::vector<std::string> warnings;
  auto read =
      convert::read_vocabulary(files.path(), convert::HubConfig::of(config, "config.json").value(), options, warnings);
  for (std::string& warning : warnings) warning = without(warning, files.path() + "/");
  if (!read) read = std::unexpected(Error(read.error().code(), without(read.error().message(), files.path() + "/")));
  return {std::move(read), std::move(warnings)};
}

/// The wire format of protocol buffers.
namespace protobuf {

inline std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes + static_cast<char>(number);
}
inline std::string integer(uint32_t field, int64_t value) {
  return varint(field << 3) + varint(static_cast<uint64_t>(value));
}
inline std::string real(uint32_t field, float value) { return varint(field << 3 | 5) + number_bytes(value); }
inline std::string bytes(uint32_t field, std::string_view value) {
  return varint(field << 3 | 2) + varint(value.size()) + std::string(value);
}

/// A piece of a SentencePiece model; kind 0: none is written.
inline std::string piece(std::string_view text, float score, int kind = 0) {
  return bytes(1, bytes(1, text) + real(2, score) + (kind == 0 ? "" : integer(3, kind)));
}
/// type: 1 unigram, 2 BPE.
inline std::string trainer(int type, int unk, int bos, int eos, int pad) {
  return bytes(2, integer(3, type) + integer(40, unk) + integer(41, bos) + integer(42, eos) + integer(43, pad));
}

}  // namespace protobuf
}  // namespace tessera::testing
