// PyTorch files in both forms: tensors with their places, views, and refusals.
#include "tessera/convert/source/torch_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tessera/convert/source/safetensors.h"
#include "tests/convert/checkpoint_files.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

std::string float_bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// An archive with a pickled object and the bytes of storages.
std::string zip_form(const std::string& object, const std::vector<std::pair<std::string, std::string>>& storages,
                     std::vector<ZipFile> more = {}) {
  std::vector<ZipFile> files = {{.name = "m/data.pkl", .bytes = object}};
  for (const auto& [key, bytes] : storages) files.push_back({.name = "m/data/" + key, .bytes = bytes});
  std::ranges::move(more, std::back_inserter(files));
  return zip_archive(files);
}

std::vector<float> values_of(const StoredTensor& tensor, const std::string& file, int64_t first = 0) {
  std::vector<float> values(static_cast<size_t>(tensor.n_elements() - first));
  tensor.read(std::as_bytes(std::span(file)), first, std::as_writable_bytes(std::span(values)));
  return values;
}

const std::string kTorchObject = pickle::whole(pickle::dictionary(
    {{"whole", pickle::tensor({.key = "0", .n_stored = 6, .shape = {2, 3}, .strides = {3, 1}})},
     {"turned", pickle::tensor({.key = "0", .n_stored = 6, .shape = {3, 2}, .strides = {1, 3}})},
     {"part", pickle::tensor({.key = "0", .n_stored = 6, .offset = 2, .shape = {2}, .strides = {3}})},
     {"same", pickle::tensor({.key = "1", .n_stored = 1, .shape = {2, 2}, .strides = {0, 0}})},
     {"empty", pickle::tensor({.key = "1", .n_stored = 1, .shape = {0, 9}, .strides = {9, 1}})},
     {"parameter", pickle::global("torch._utils", "_rebuild_parameter") +
                       pickle::tuple(pickle::tensor({.key = "1", .n_stored = 1}) + "\x88N") + "R"},
     {"step", pickle::integer(7)}}));
const std::vector<std::pair<std::string, std::string>> kTorchStorages = {{"0", float_bytes({0, 1, 2, 3, 4, 5})},
                                                                         {"1", float_bytes({9})}};

TEST(TorchFile, BothFormsHaveTheSameTensors) {
  for (const std::string& file : {zip_form(kTorchObject, kTorchStorages, {{.name = "m/byteorder", .bytes = "little"}}),
                                  legacy_torch_file(kTorchObject, kTorchStorages)}) {
    ASSERT_OK_AND_ASSIGN(const auto tensors, read_bytes(read_torch_file, file));
    ASSERT_EQ(tensors.size(), 6u);
    EXPECT_EQ(tensors[0].name, "whole");
    EXPECT_TRUE(tensors[0].strides.empty());
    EXPECT_EQ(values_of(tensors[0], file), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(values_of(tensors[0], file, 4), (std::vector<float>{4, 5}));
    EXPECT_EQ(values_of(tensors[1], file), (std::vector<float>{0, 3, 1, 4, 2, 5}));
    EXPECT_EQ(values_of(tensors[1], file, 3), (std::vector<float>{4, 2, 5}));
    EXPECT_EQ(values_of(tensors[2], file), (std::vector<float>{2, 5}));
    EXPECT_EQ(values_of(tensors[3], file), (std::vector<float>{9, 9, 9, 9}));
    EXPECT_EQ(tensors[4].n_elements(), 0);
    EXPECT_EQ(tensors[5].name, "parameter");
    EXPECT_EQ(values_of(tensors[5], file), (std::vector<float>{9}));
  }
}

TEST(TorchFile, TheStateMayBeAMember) {
  const std::string inner = pickle::dictionary({{"w", pickle::tensor({.key = "1", .n_stored = 1})}});
  for (const char* name : {"model", "state_dict", "module"}) {
    ASSERT_OK_AND_ASSIGN(
        const auto tensors,
        read_bytes(read_torch_file,
                   zip_form(pickle::whole(pickle::dictionary({{"optimizer", inner}, {name, inner}})), kTorchStorages)));
    ASSERT_EQ(tensors.size(), 1u);
    EXPECT_EQ(tensors[0].name, "w");
  }
}

TEST(TorchFile, ContradictionsAreRefused) {
  const auto object = [](const pickle::Tensor& tensor) {
    return pickle::whole(pickle::dictionary({{"w", pickle::tensor(tensor)}}));
  };
  const auto zip = [&](const pickle::Tensor& tensor) { return zip_form(object(tensor), kTorchStorages); };
  const std::vector<std::pair<std::string, std::string>> files = {
      {"", "no PyTorch file"},
      {"PK\x03\x04 and no more", "no zip archive"},
      {std::string(40, 'x'), "no PyTorch file"},
      {zip_archive({{.name = "m/other", .bytes = "x"}}), "an archive without data.pkl"},
      {zip_form(kTorchObject, kTorchStorages, {{.name = "n/data.pkl", .bytes = kTorchObject}}), "two pickles"},
      {zip_form(kTorchObject, kTorchStorages, {{.name = "m/byteorder", .bytes = "big"}}), "lowest byte first"},
      {zip_form(kTorchObject, kTorchStorages, {{.name = "m/byteorder", .bytes = "littler"}}), "lowest byte first"},
      {zip_form(pickle::whole("K\x01"), {}), "no dictionary of tensors"},
      {zip_form(pickle::whole("}"), {}), "no tensors"},
      {zip_form("cos\nsystem\n.", {}), "asks for \"os system\""},
      {zip({.key = "2", .n_stored = 1}), "tensor \"w\": no bytes of its storage \"2\""},
      {zip({.key = "../0", .n_stored = 1}), "no bytes of its storage \"../0\""},
      {zip({.key = "1", .n_stored = 2}), "a storage of 2 elements in 4 bytes"},
      {zip({.key = "1", .n_stored = 1, .offset = 1}), "elements outside of its storage of 1"},
      {zip({.key = "1", .n_stored = 1, .offset = -1}), "elements outside"},
      {zip({.key = "0", .n_stored = 6, .shape = {2, 3}, .strides = {4, 1}}), "elements outside of its storage of 6"},
      {zip({.key = "0", .n_stored = 6, .shape = {2}, .strides = {-1}}), "elements outside"},
      {zip({.key = "0", .n_stored = 6, .shape = {2}, .strides = {1, 1}}), "1 dimensions, 2 strides"},
      {zip({.key = "0", .n_stored = 6, .shape = {-2}, .strides = {1}}), "a dimension of -2"},
      {zip({.key = "0", .n_stored = 6, .shape = {1, 1, 1, 1, 1, 1, 1, 1, 1}, .strides = {1, 1, 1, 1, 1, 1, 1, 1, 1}}),
       "9 dimensions"},
      {zip({.key = "1", .n_stored = 1, .shape = {INT32_MAX, INT32_MAX, INT32_MAX}, .strides = {0, 0, 0}}),
       "more than 2^63 elements"},
      {zip_form(pickle::whole(pickle::dictionary({{"w", pickle::tensor({.key = "1", .n_stored = 1})},
                                                  {"w", pickle::tensor({.key = "1", .n_stored = 1})}})),
                kTorchStorages),
       "two tensors \"w\""},
      {zip_form(pickle::whole(pickle::dictionary({{"\xff", pickle::tensor({.key = "1", .n_stored = 1})}})),
                kTorchStorages),
       "not UTF-8"},
      {legacy_torch_file(kTorchObject, kTorchStorages, "\x89"), "lowest byte first"},
      {legacy_torch_file(kTorchObject, {{"0", kTorchStorages[0].second}}), "no bytes of its storage \"1\""},
      {legacy_torch_file(kTorchObject, {{"3", ""}}), "the storage \"3\" belongs to no tensor"},
      {legacy_torch_file(kTorchObject, kTorchStorages)
           .substr(0, legacy_torch_file(kTorchObject, kTorchStorages).size() - 1),
       "elements at byte"},
      {legacy_torch_file(kTorchObject, kTorchStorages).substr(0, 40), "truncated"},
  };
  for (const auto& [bytes, reason] : files) {
    const auto read = read_bytes(read_torch_file, bytes);
    ASSERT_FALSE(read) << reason;
    EXPECT_NE(read.error().message().find(reason), std::string::npos) << read.error().message() << "\nwant " << reason;
    EXPECT_NE(read.error().message().find("test.file: "), std::string::npos);
  }
}

// The same model in three containers.
std::map<std::string, std::string> tensors_of(const std::string& path) {
  std::map<std::string, std::string> all;
  const auto file = File::open(path);
  EXPECT_TRUE(file) << path;
  const auto map = MappedFile::map(*file);
  std::vector<StoredTensor> tensors;
  if (path.ends_with(".safetensors")) {
    tensors = read_safetensors_header(*file)->tensors;
  } else {
    auto read = read_torch_file(*file);
    EXPECT_TRUE(read) << read.error().message();
    if (read) tensors = std::move(*read);
  }
  for (const StoredTensor& tensor : tensors) {
    std::string bytes(static_cast<size_t>(tensor.n_elements()) * element_bytes(tensor.type), '\0');
    tensor.read((*map)->bytes(), 0, std::as_writable_bytes(std::span(bytes)));
    std::string shape;
    for (const int64_t extent : tensor.shape) shape += std::to_string(extent) + " ";
    all[tensor.name] = std::string(element_name(tensor.type)) + " " + shape + bytes;
  }
  return all;
}

TEST(TorchFile, GoldenFilesHoldWhatSafetensorsDo) {
  const auto folder = shared_path("golden/convert/hf");
  if (!folder) GTEST_SKIP() << "no golden/convert";
  const auto expected = tensors_of(*folder + "/llama/model.safetensors");
  auto parts = tensors_of(*folder + "/llama-bin/pytorch_model-00001-of-00002.bin");
  parts.merge(tensors_of(*folder + "/llama-bin/pytorch_model-00002-of-00002.bin"));
  EXPECT_TRUE(parts == expected);
  EXPECT_TRUE(tensors_of(*folder + "/llama-bin-legacy/pytorch_model.bin") == expected);
  // This one has some matrices in F32, as parameters.
  const auto qwen2 = tensors_of(*folder + "/qwen2/model.safetensors"),
             parameters = tensors_of(*folder + "/qwen2-bin/pytorch_model.bin");
  ASSERT_EQ(parameters.size(), qwen2.size());
  size_t n_same = 0;
  for (const auto& [name, tensor] : qwen2) {
    ASSERT_TRUE(parameters.contains(name)) << name;
    n_same += parameters.at(name) == tensor;
  }
  EXPECT_GT(n_same, qwen2.size() / 2);
}

}  // namespace
}  // namespace tessera::convert
