// Files of llama2.c: all versions, tokens, and refusals.
#include "tessera/convert/source/llama2c_file.h"

#include <gtest/gtest.h>

#include <map>

#include "tessera/base/index.h"
#include "tests/convert/checkpoint_folder.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

// embd, ff, layers, heads, KV heads, vocabulary, context
using Llama2cNumbers = std::vector<int32_t>;
const Llama2cNumbers kSmallNumbers = {8, 6, 2, 4, 2, 10, 3};

struct NumberedPart {
  std::string name;
  int64_t n;  // values
};

// The parts of a file in their order; layers one after another.
std::vector<NumberedPart> small_parts(bool is_versioned, bool has_output) {
  std::vector<NumberedPart> parts;
  const auto add_layers = [&](const std::string& name, int64_t n) {
    for (const char* layer : {"layers.0.", "layers.1."}) parts.push_back({layer + name + ".weight", n});
  };
  const auto add_matrices = [&](bool has_norm) {
    add_layers("attention.wq", 64);
    add_layers("attention.wk", 32);
    add_layers("attention.wv", 32);
    add_layers("attention.wo", 64);
    if (has_norm) add_layers("ffn_norm", 8);
    add_layers("feed_forward.w1", 48);
    add_layers("feed_forward.w2", 48);
    add_layers("feed_forward.w3", 48);
  };
  if (is_versioned) {
    add_layers("attention_norm", 8);
    add_layers("ffn_norm", 8);
    parts.push_back({"norm.weight", 8});
    parts.push_back({"tok_embeddings.weight", 80});
    add_matrices(false);
  } else {
    parts.push_back({"tok_embeddings.weight", 80});
    add_layers("attention_norm", 8);
    add_matrices(true);
    parts.push_back({"norm.weight", 8});
    parts.push_back({"", 6});  // 3 positions, 1 pair of a head: cosines and sines
  }
  if (has_output) parts.push_back({"output.weight", 80});
  return parts;
}

std::string llama2c_bytes(const Llama2cNumbers& numbers, int version, bool has_output, int32_t n_group = 4) {
  std::string bytes;
  if (version > 0) bytes = number_bytes(uint32_t{0x616b3432}) + number_bytes(int32_t{version});
  for (const int32_t number : numbers) bytes += number_bytes(number);
  if (version > 0) {
    bytes += has_output ? '\0' : '\1';
    if (version == 2) bytes += number_bytes(n_group);
    bytes.resize(256, '\0');
  }
  float number = 0;
  for (const auto& [name, n] : small_parts(version > 0, has_output)) {
    if (version == 2 && !name.ends_with("norm.weight")) {
      for (int64_t i = 0; i < n; ++i) bytes += static_cast<char>(i % 100 - 50);
      for (int64_t i = 0; i < n / n_group; ++i) bytes += number_bytes(0.5f * static_cast<float>(i + n));
    } else {
      for (int64_t i = 0; i < n; ++i) bytes += number_bytes(number++);
    }
  }
  return bytes;
}

Result<BareFile> read_llama2c(const std::string& bytes) { return read_llama2c_file(std::as_bytes(std::span(bytes))); }

std::string llama2c_error(const std::string& bytes) {
  const auto file = read_llama2c(bytes);
  return file ? "read" : file.error().message();
}

bool is_llama2c(const std::string& bytes) {
  const std::string head = bytes.substr(0, kLlama2cHeadBytes);
  return is_llama2c_file(std::as_bytes(std::span(head)), bytes.size());
}

std::vector<float> values_of_tensor(const std::string& bytes, const StoredTensor& tensor) {
  std::vector<float> values(to_size(tensor.n_elements()));
  tensor.read(std::as_bytes(std::span(bytes)), 0, std::as_writable_bytes(std::span(values)));
  return values;
}

const std::map<std::string, std::vector<int64_t>> kShapes = {
    {"tok_embeddings", {10, 8}}, {"output", {10, 8}},         {"norm", {8}},
    {"attention_norm", {8}},     {"ffn_norm", {8}},           {"attention.wq", {8, 8}},
    {"attention.wk", {4, 8}},    {"attention.wv", {4, 8}},    {"attention.wo", {8, 8}},
    {"feed_forward.w1", {6, 8}}, {"feed_forward.w2", {8, 6}}, {"feed_forward.w3", {6, 8}}};

void expect_shape(const StoredTensor& tensor) {
  std::string stem = tensor.name.substr(0, tensor.name.rfind('.'));
  if (stem.starts_with("layers.")) stem = stem.substr(9);
  ASSERT_TRUE(kShapes.contains(stem)) << tensor.name;
  EXPECT_EQ(tensor.shape, kShapes.at(stem)) << tensor.name;
}

TEST(Llama2cFile, FloatsAreInTheOrderOfTheirVersion) {
  for (const int version : {0, 1})
    for (const bool has_output : {false, true}) {
      SCOPED_TRACE(version);
      Llama2cNumbers numbers = kSmallNumbers;
      if (version == 0 && has_output) numbers[5] = -numbers[5];
      const std::string bytes = llama2c_bytes(numbers, version, has_output);
      EXPECT_TRUE(is_llama2c(bytes));
      ASSERT_OK_AND_ASSIGN(const BareFile file, read_llama2c(bytes));
      size_t at = 0;
      float first = 0;
      for (const auto& [name, n] : small_parts(version > 0, has_output)) {
        if (!name.empty()) {
          ASSERT_LT(at, file.tensors.size());
          const StoredTensor& tensor = file.tensors[at++];
          EXPECT_EQ(tensor.name, name);
          expect_shape(tensor);
          const auto values = values_of_tensor(bytes, tensor);
          EXPECT_EQ(values.front(), first) << name;
          EXPECT_EQ(values.back(), first + static_cast<float>(n - 1)) << name;
        }
        first += static_cast<float>(n);
      }
      EXPECT_EQ(file.tensors.size(), at + (has_output ? 0 : 1));
      EXPECT_EQ(file.tensors.back().name, "output.weight");
      if (!has_output) {
        const auto table = std::ranges::find(file.tensors, "tok_embeddings.weight", &StoredTensor::name);
        EXPECT_EQ(values_of_tensor(bytes, file.tensors.back()), values_of_tensor(bytes, *table));
      }
    }
}

TEST(Llama2cFile, NumbersOfTheModel) {
  const std::string bytes = llama2c_bytes(kSmallNumbers, 0, false);
  ASSERT_OK_AND_ASSIGN(const BareFile file, read_llama2c(bytes));
  const BareModel& model = file.model;
  EXPECT_EQ(model.n_embd, 8);
  EXPECT_EQ(model.n_ff, 6);
  EXPECT_EQ(model.n_layers, 2);
  EXPECT_EQ(model.n_heads, 4);
  EXPECT_EQ(model.n_kv_heads, 2);
  EXPECT_EQ(model.n_vocab, 10);
  EXPECT_EQ(model.n_context, 3);
  EXPECT_EQ(model.norm_eps, 1e-5);
}

// Groups of 16 go on over the ends of rows of 8.
TEST(Llama2cFile, Version2HasIntegersWithScales) {
  const int32_t n_group = 16;
  const std::string bytes = llama2c_bytes(kSmallNumbers, 2, true, n_group);
  EXPECT_TRUE(is_llama2c(bytes));
  ASSERT_OK_AND_ASSIGN(const BareFile file, read_llama2c(bytes));
  EXPECT_EQ(file.tensors.size(), 21u);
  for (const StoredTensor& tensor : file.tensors) {
    expect_shape(tensor);
    const auto values = values_of_tensor(bytes, tensor);
    if (tensor.name.ends_with("norm.weight")) {
      EXPECT_EQ(tensor.elements, nullptr);
      continue;
    }
    for (int64_t i = 0; i < std::ssize(values); ++i)
      EXPECT_EQ(values[to_size(i)],
                static_cast<float>(i % 100 - 50) * 0.5f * static_cast<float>(i / n_group + std::ssize(values)))
          << tensor.name << " " << i;
  }
  EXPECT_EQ(llama2c_error(llama2c_bytes(kSmallNumbers, 2, true, 32)),
            "1336 bytes, want matrices of whole groups below 2^64 bytes");
  for (const int32_t wrong : {0, -1, (1 << 30) + 1}) {
    std::string other = bytes;
    other.replace(37, 4, number_bytes(wrong));
    EXPECT_EQ(llama2c_error(other), fmt::format("header: groups of {}", wrong));
  }
}

TEST(Llama2cFile, OtherNumbersAreRefused) {
  const auto with = [](size_t index, int32_t number) {
    Llama2cNumbers numbers = kSmallNumbers;
    numbers[index] = number;
    return llama2c_bytes(numbers, 0, false);
  };
  EXPECT_EQ(llama2c_error(with(0, 8)), "read");
  for (const size_t index : {0, 1, 2, 3, 4, 6})
    for (const int32_t number : {0, -1, (1 << 30) + 1})
      EXPECT_EQ(llama2c_error(with(index, number)),
                fmt::format("header: {}, want numbers from 1 to 1073741824", number));
  EXPECT_EQ(llama2c_error(with(5, 0)), "header: 0, want numbers from 1 to 1073741824");
  EXPECT_EQ(llama2c_error(with(5, INT32_MIN)), "header: 2147483648, want numbers from 1 to 1073741824");
  EXPECT_EQ(llama2c_error(with(2, 16385)), "header: 16385 layers, limit 16384");
  EXPECT_EQ(llama2c_error(with(3, 3)), "header: a width of 8, 3 heads and 2 KV heads do not divide one another");
  EXPECT_EQ(llama2c_error(with(4, 3)), "header: a width of 8, 4 heads and 3 KV heads do not divide one another");
  EXPECT_EQ(llama2c_error(with(1, 7)), "3220 bytes, want 3412");
  EXPECT_FALSE(is_llama2c(with(1, 7)));
  EXPECT_FALSE(is_llama2c(with(3, 3)));
  EXPECT_FALSE(is_llama2c("123"));
  EXPECT_FALSE(is_llama2c(std::string(27, '\1')));
  const Llama2cNumbers huge(7, 1 << 30);
  EXPECT_NE(llama2c_error(llama2c_bytes(huge, 0, false)), "read");
  std::string largest;
  for (const int32_t number : {1 << 30, 1 << 30, 16384, 1, 1, 1 << 30, 1 << 30}) largest += number_bytes(number);
  EXPECT_EQ(llama2c_error(largest), "28 bytes, want matrices of whole groups below 2^64 bytes");
  EXPECT_EQ(llama2c_error("12"), "4 bytes at byte 0, 2 left");
  for (const int version : {0, 3}) {
    std::string other = llama2c_bytes(kSmallNumbers, 1, false);
    other.replace(4, 4, number_bytes(int32_t{version}));
    EXPECT_EQ(llama2c_error(other), fmt::format("version {}, want 1 or 2", version));
    EXPECT_TRUE(is_llama2c(other));  // so that the message says it
  }
  const std::string bytes = llama2c_bytes(kSmallNumbers, 0, false);
  EXPECT_EQ(llama2c_error(bytes + "x"), "3221 bytes, want 3220");
  EXPECT_FALSE(is_llama2c(bytes + "x"));
}

std::string llama2c_tokens(const std::vector<std::string>& tokens) {
  std::string bytes = number_bytes(int32_t{9});
  for (size_t i = 0; i < tokens.size(); ++i)
    bytes += number_bytes(-static_cast<float>(i)) + number_bytes(static_cast<int32_t>(tokens[i].size())) + tokens[i];
  return bytes;
}

TEST(Llama2cFile, TokensAreInAFileBesideIt) {
  const std::vector<std::string> tokens = {"<unk>", "\n<s>\n", "\n</s>\n", "<0x00>", " a", "b", "c", "d", "e", "f"};
  const std::string model = llama2c_bytes(kSmallNumbers, 0, false);
  const std::string folder = write_folder("llama2c", {{"model.bin", model}, {"tokenizer.bin", llama2c_tokens(tokens)}});
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(folder));
  const BareModel* bare = checkpoint.bare_model();
  ASSERT_NE(bare, nullptr);
  EXPECT_EQ(bare->tokens, (std::vector<std::string>{"<unk>", "<s>", "</s>", "<0x00>",
                                                    "\xE2\x96\x81"
                                                    "a",
                                                    "b", "c", "d", "e", "f"}));
  EXPECT_EQ(bare->scores[9], -9);
  EXPECT_EQ(bare->types[3], text::TokenType::byte);
  EXPECT_EQ(checkpoint.tensors().size(), 21u);
  const std::string alone = write_folder("llama2c", {{"model.bin", model}});
  ASSERT_OK_AND_ASSIGN(const Checkpoint without, Checkpoint::open(alone + "/model.bin"));
  EXPECT_TRUE(without.bare_model()->tokens.empty());
  const auto refusal = [&](const std::string& bytes) {
    const auto read = Checkpoint::open(write_folder("llama2c", {{"model.bin", model}, {"tokenizer.bin", bytes}}));
    return read ? "read" : read.error().message();
  };
  const std::string path = folder + "/tokenizer.bin: ";
  EXPECT_EQ(refusal(llama2c_tokens(tokens) + "x"), path + "1 bytes after 10 tokens");
  EXPECT_EQ(refusal(llama2c_tokens({"a"})), path + "4 bytes at byte 13, 0 left");
  EXPECT_EQ(refusal("1234" + number_bytes(0.0f) + number_bytes(int32_t{-1})), path + "token 0: -1 bytes");
  EXPECT_EQ(refusal("1234" + number_bytes(0.0f) + number_bytes(INT32_MAX)),
            path + "2147483647 bytes at byte 12, 0 left");
  EXPECT_EQ(refusal(""), path + "4 bytes at byte 0, 0 left");
}

TEST(Llama2cFile, AFolderHasOneModel) {
  const std::string model = llama2c_bytes(kSmallNumbers, 0, false);
  const std::string folder = write_folder("llama2c", {{"a.bin", model}, {"b.bin", model}, {"c.bin", "x"}});
  EXPECT_ERROR(Checkpoint::open(folder), folder + ": two models, a.bin and b.bin");
  ASSERT_OK_AND_ASSIGN(const Checkpoint one, Checkpoint::open(folder + "/b.bin"));
  EXPECT_EQ(one.paths(), std::vector{folder + "/b.bin"});
  const std::string parts = write_folder("llama2c", {{"pytorch_model-1.bin", model}, {"pytorch_model-2.bin", model}});
  EXPECT_ERROR(Checkpoint::open(parts), "pytorch_model-2.bin: a whole model beside " + parts + "/pytorch_model-1.bin");
}

}  // namespace
}  // namespace tessera::convert
