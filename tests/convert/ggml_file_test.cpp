// Files of llama.cpp before GGUF: their forms, their tokens, and refusals.
#include "tessera/convert/source/ggml_file.h"

#include <gtest/gtest.h>

#include "tests/convert/checkpoint_files.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

constexpr uint32_t kOldMagics[] = {0x67676d6c, 0x67676d66, 0x67676a74};

struct OldTensor {
  std::string name;
  std::vector<uint32_t> extents;  // innermost first
  uint32_t type = 0;
  std::string data;
};

struct OldFile {
  uint32_t magic = kOldMagics[2], version = 3;
  uint32_t n_embd = 4, n_heads = 2, n_layers = 1;
  std::vector<std::string> tokens = {"?", "x", "y", "a b", "cd"};
  std::vector<OldTensor> tensors{};

  // With a layer of one KV head and 3 feed-forward rows.
  void add_layer() {
    tensors.push_back({"layers.0.attention.wk.weight", {4, 2}, 0, std::string(32, 'k')});
    tensors.push_back({"layers.0.feed_forward.w1.weight", {4, 3}, 1, std::string(24, 'w')});
  }

  std::string bytes() const {
    const bool has_scores = magic != kOldMagics[0];
    std::string bytes = number_bytes(magic);
    if (has_scores) bytes += number_bytes(version);
    for (const uint32_t number : {static_cast<uint32_t>(tokens.size()), n_embd, 256u, n_heads, n_layers, 2u, 1u})
      bytes += number_bytes(number);
    for (size_t i = 0; i < tokens.size(); ++i) {
      bytes += number_bytes(static_cast<uint32_t>(tokens[i].size())) + tokens[i];
      if (has_scores) bytes += number_bytes(-static_cast<float>(i));
    }
    for (const OldTensor& tensor : tensors) {
      bytes += number_bytes(static_cast<uint32_t>(tensor.extents.size())) +
               number_bytes(static_cast<uint32_t>(tensor.name.size())) + number_bytes(tensor.type);
      for (const uint32_t extent : tensor.extents) bytes += number_bytes(extent);
      bytes += tensor.name;
      if (magic == kOldMagics[2]) bytes += std::string((32 - bytes.size() % 32) % 32, '\0');
      bytes += tensor.data;
    }
    return bytes;
  }
};

Result<BareFile> read_old(const std::string& bytes) { return read_ggml_file(std::as_bytes(std::span(bytes))); }

std::string old_error(const std::string& bytes) {
  const auto file = read_old(bytes);
  return file ? "read" : file.error().message();
}

OldFile small_old_file() {
  OldFile file;
  file.add_layer();
  return file;
}

std::string bytes_of_tensor(const std::string& file, const StoredTensor& tensor, size_t n) {
  std::string bytes(n, '\0');
  tensor.read(std::as_bytes(std::span(file)), 0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

TEST(GgmlFile, AllFormsHaveTheSameTensors) {
  for (const uint32_t magic : kOldMagics)
    for (const uint32_t version : {1u, 2u, 3u}) {
      if (magic != kOldMagics[2] && version > 1) continue;
      OldFile file = small_old_file();
      file.magic = magic;
      file.version = version;
      const std::string bytes = file.bytes();
      EXPECT_TRUE(is_ggml_file(std::as_bytes(std::span(bytes))));
      ASSERT_OK_AND_ASSIGN(const BareFile read, read_old(bytes));
      ASSERT_EQ(read.tensors.size(), 2u);
      EXPECT_EQ(read.tensors[0].shape, (std::vector<int64_t>{2, 4}));
      EXPECT_EQ(read.tensors[0].type, ElementType::f32);
      EXPECT_EQ(bytes_of_tensor(bytes, read.tensors[0], 32), std::string(32, 'k'));
      EXPECT_EQ(read.tensors[1].name, "layers.0.feed_forward.w1.weight");
      EXPECT_EQ(read.tensors[1].type, ElementType::f16);
      EXPECT_EQ(bytes_of_tensor(bytes, read.tensors[1], 24), std::string(24, 'w'));
      EXPECT_EQ(read.model.scores[4], magic == kOldMagics[0] ? 0.0f : -4.0f);
    }
}

TEST(GgmlFile, NumbersOfTheModel) {
  ASSERT_OK_AND_ASSIGN(const BareFile file, read_old(small_old_file().bytes()));
  const BareModel& model = file.model;
  EXPECT_EQ(model.n_vocab, 5);
  EXPECT_EQ(model.n_embd, 4);
  EXPECT_EQ(model.n_heads, 2);
  EXPECT_EQ(model.n_layers, 1);
  EXPECT_EQ(model.n_kv_heads, 1);
  EXPECT_EQ(model.n_ff, 3);
  EXPECT_EQ(model.n_context, 2048);
  EXPECT_EQ(model.norm_eps, 5e-6);
}

TEST(GgmlFile, TokensAreWrittenAsSentencePieceDoes) {
  OldFile file = small_old_file();
  file.tokens.resize(3);
  for (int byte = 0; byte < 256; ++byte) file.tokens.emplace_back(1, static_cast<char>(byte));
  file.tokens.insert(file.tokens.end(), {"z", " a b", ""});
  ASSERT_OK_AND_ASSIGN(const BareFile read, read_old(file.bytes()));
  const BareModel& model = read.model;
  using enum text::TokenType;
  const auto expect = [&](size_t id, const std::string& token, text::TokenType type) {
    EXPECT_EQ(model.tokens[id], token);
    EXPECT_EQ(model.types[id], type) << id;
  };
  expect(0, "<unk>", unknown);
  expect(1, "<s>", control);
  expect(2, "</s>", control);
  expect(3, "<0x00>", byte);
  expect(35, "<0x20>", byte);
  expect(258, "<0xFF>", byte);
  expect(259, "z", normal);
  expect(260,
         "\xE2\x96\x81"
         "a\xE2\x96\x81"
         "b",
         normal);
  expect(261, "", control);
  OldFile words = small_old_file();  // words where bytes are expected
  words.tokens = {"", "", "", "ab", "<0x05>", "<0x02>"};
  ASSERT_OK_AND_ASSIGN(const BareFile others, read_old(words.bytes()));
  EXPECT_EQ(others.model.tokens[3], "ab");
  EXPECT_EQ(others.model.types[3], normal);
  EXPECT_EQ(others.model.types[4], normal);
  EXPECT_EQ(others.model.types[5], byte);
}

TEST(GgmlFile, BlocksOfVersion3AreThoseOfGguf) {
  OldFile file = small_old_file();
  file.tensors.push_back({"q", {64, 3}, 2, std::string(6 * 18, 'q')});
  file.tensors.push_back({"k", {256, 1}, 14, std::string(210, 'k')});
  ASSERT_OK_AND_ASSIGN(const BareFile read, read_old(file.bytes()));
  EXPECT_EQ(read.tensors[2].type, ElementType::q4_0);
  EXPECT_EQ(read.tensors[2].shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(read.tensors[3].type, ElementType::q6_k);
  file.version = 2;
  EXPECT_EQ(old_error(file.bytes()), R"(tensor "q": Q4_0 in version 2, whose blocks are others; want version 3)");
  file.version = 3;
  file.tensors[2].extents = {63, 3};
  EXPECT_EQ(old_error(file.bytes()), R"(tensor "q": rows of 63 values, want whole blocks of 32)");
}

TEST(GgmlFile, WhatIsNoSuchFileIsRefused) {
  const auto changed = [](auto change) {
    OldFile file = small_old_file();
    change(file);
    return old_error(file.bytes());
  };
  EXPECT_EQ(changed([](OldFile&) {}), "read");
  EXPECT_EQ(old_error("GGUF1234"), "neither GGML nor GGMF nor GGJT");
  EXPECT_FALSE(is_ggml_file(std::as_bytes(std::span("GGUF", 4))));
  EXPECT_FALSE(is_ggml_file({}));
  EXPECT_EQ(changed([](OldFile& file) { file.version = 0; }), "version 0, want 1 to 3");
  EXPECT_EQ(changed([](OldFile& file) { file.version = 4; }), "version 4, want 1 to 3");
  EXPECT_EQ(changed([](OldFile& file) {
              file.magic = kOldMagics[1];
              file.version = 2;
            }),
            "version 2, want 1 to 1");
  EXPECT_EQ(changed([](OldFile& file) { file.tensors[0].type = 4; }),
            R"(tensor "layers.0.attention.wk.weight": elements of type 4)");
  EXPECT_EQ(changed([](OldFile& file) { file.tensors[0].extents = {}; }), "a tensor of 0 dimensions, want 1 to 8");
  EXPECT_EQ(changed([](OldFile& file) { file.tensors[0].extents.resize(9, 1); }),
            "a tensor of 9 dimensions, want 1 to 8");
  EXPECT_EQ(changed([](OldFile& file) { file.tensors[0].extents = std::vector<uint32_t>(8, UINT32_MAX); }),
            R"(tensor "layers.0.attention.wk.weight": more than 2^63 elements)");
  EXPECT_EQ(changed([](OldFile& file) {
              file.tensors[0].extents = {0x80000000u, 0x80000000u};
            }),
            R"(tensor "layers.0.attention.wk.weight": more than 2^64 bytes)");
  EXPECT_EQ(changed([](OldFile& file) { file.tensors[0].name = std::string(1025, 'n'); }),
            "a name of 1025 bytes, limit 1024");
  EXPECT_EQ(changed([](OldFile& file) { file.tensors.push_back({std::string(1024, 'n'), {1}, 0, "1234"}); }), "read");
  EXPECT_EQ(changed([](OldFile& file) { file.tensors.push_back(file.tensors[0]); }),
            R"(two tensors "layers.0.attention.wk.weight")");
  EXPECT_EQ(changed([](OldFile& file) { file.n_heads = 0; }), "0 heads do not divide a width of 4");
  EXPECT_EQ(changed([](OldFile& file) { file.n_heads = 3; }), "3 heads do not divide a width of 4");
  EXPECT_EQ(changed([](OldFile& file) { file.n_embd = 0; }), "2 heads do not divide a width of 0");
  EXPECT_EQ(changed([](OldFile& file) { file.n_heads = 1; }),
            "2 rows of layers.0.attention.wk.weight are no heads of 4");
  EXPECT_EQ(changed([](OldFile& file) { file.tensors.pop_back(); }), "no matrix layers.0.feed_forward.w1.weight");
  EXPECT_EQ(changed([](OldFile& file) { file.tensors[0].extents = {8}; }), "no matrix layers.0.attention.wk.weight");
  EXPECT_EQ(changed([](OldFile& file) {
              file.tensors[0] = {"layers.0.attention.wk.weight", {4, 0}, 0, ""};
            }),
            "0 rows of layers.0.attention.wk.weight are no heads of 2");
}

// Every cut of a file is refused, and so are lengths that lead out of it.
TEST(GgmlFile, CutFilesAreRefused) {
  const std::string bytes = small_old_file().bytes();
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_NE(old_error(bytes.substr(0, n)), "read") << n;
  OldFile file = small_old_file();
  std::string many = file.bytes();
  many.replace(8, 4, number_bytes(UINT32_MAX));
  EXPECT_EQ(old_error(many).substr(0, 27), "4294967295 tokens in 244 by");
  std::string longer = file.bytes();
  longer.replace(36, 4, number_bytes(UINT32_MAX));
  EXPECT_EQ(old_error(longer).substr(0, 29), "4294967295 bytes at byte 40, ");
}

}  // namespace
}  // namespace tessera::convert
