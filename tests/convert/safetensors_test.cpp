// Headers of safetensors: tensors with their places, and refusals that name the tensor.
#include "tessera/convert/source/safetensors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/convert/checkpoint_files.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

std::string header_entry(const std::string& name, const std::string& type, const std::string& shape,
                         const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST(Safetensors, TensorsHaveTheirPlaces) {
  const std::string header = R"({"__metadata__":{"format":"pt"},)" + header_entry("b", "F32", "[2]", "[12,20]") + "," +
                             header_entry("a", "BF16", "[2,3]", "[0,12]") + "," +
                             header_entry("none", "U8", "[0,7]", "[20,20]") + "," +
                             header_entry("one", "BOOL", "[]", "[20,21]") + "}   ";
  ASSERT_OK_AND_ASSIGN(const auto read,
                       read_bytes(read_safetensors_header, safetensors_file(header, std::string(21, 'x'))));
  ASSERT_EQ(read.tensors.size(), 4u);
  EXPECT_EQ(read.tensors[0].name, "a");
  EXPECT_EQ(read.tensors[0].type, ElementType::bf16);
  EXPECT_EQ(read.tensors[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(read.tensors[0].offset, 8 + header.size());
  EXPECT_EQ(read.tensors[1].name, "b");
  EXPECT_EQ(read.tensors[1].offset, 8 + header.size() + 12);
  EXPECT_EQ(read.tensors[1].n_elements(), 2);
  EXPECT_EQ(read.tensors[2].n_elements(), 0);
  EXPECT_EQ(read.tensors[3].n_elements(), 1);
  EXPECT_EQ(read.metadata, (std::vector<std::pair<std::string, std::string>>{{"format", "pt"}}));
}

TEST(Safetensors, ContradictionsAreRefused) {
  const auto with = [](const std::string& entries, size_t n_data = 8) {
    return safetensors_file("{" + entries + "}", std::string(n_data, 'x'));
  };
  const std::vector<std::pair<std::string, std::string>> files = {
      {"1234", "4 bytes are no safetensors file"},
      {number_bytes(UINT64_MAX) + "{}", "a header of 18446744073709551615 bytes, limit 100000000"},
      {number_bytes(uint64_t{3}) + "{}", "a header of 3 bytes in a file of 10"},
      {safetensors_file(std::string("{}\0", 3), ""), "a NUL byte at byte 2"},
      {safetensors_file("", ""), "not JSON"},
      {safetensors_file("{", ""), "not JSON"},
      {safetensors_file("[]", ""), "a list"},
      {safetensors_file("7", ""), "7"},
      {safetensors_file(std::string(100'000, '['), ""), "a list"},
      {with(R"("t":[])"), "a list"},
      {with(R"("t":null)"), "null"},
      {with(R"("t":{"dtype":{}})"), "tensor \"t\", dtype: \"an object\""},
      {with(R"("__metadata__":{"a":1})", 0), "\"1\" is not expected"},
      {with(header_entry("t", "F9", "[2]", "[0,8]")), "tensor \"t\": elements of type \"F9\""},
      {with(header_entry("t", "F32", "[-2]", "[0,8]")), "tensor \"t\", shape: \"-2\""},
      {with(header_entry("t", "F32", "[1.5]", "[0,8]")), "tensor \"t\", shape: \"1.5\""},
      {with(header_entry("t", "F32", "[\"2\"]", "[0,8]")), "tensor \"t\", shape"},
      {with(header_entry("t", "F32", "[[2]]", "[0,8]")), "tensor \"t\", shape"},
      {with(header_entry("t", "F32", "[2,1,1,1,1,1,1,1,1]", "[0,8]")), "more than 8 dimensions"},
      {with(header_entry("t", "F32", "[9223372036854775808]", "[0,8]")), "9223372036854775808"},
      {with(header_entry("t", "F32", "[4294967296,4294967296]", "[0,8]")), "more than 2^63 elements"},
      {with(header_entry("t", "F32", "[4294967296,4294967296,0]", "[0,0]"), 0), "more than 2^63 elements"},
      {with(header_entry("t", "F64", "[4611686018427387904]", "[0,8]")), "more than 2^64 bytes"},
      {with(R"("t":{"shape":[2],"data_offsets":[0,8]})"), "want dtype, shape and two data_offsets"},
      {with(R"("t":{"dtype":"F32","data_offsets":[0,8]})"), "want dtype, shape and two data_offsets"},
      {with(R"("t":{"dtype":"F32","shape":[2]})"), "want dtype, shape and two data_offsets"},
      {with(header_entry("t", "F32", "[2]", "[0]")), "want dtype, shape and two data_offsets"},
      {with(header_entry("t", "F32", "[2]", "[0,8,9]")), "tensor \"t\", data_offsets: \"9\""},
      {with(header_entry("t", "F32", "[2]", "[8,0]")), "data_offsets 8 to 0, want 8 bytes"},
      {with(header_entry("t", "F32", "[3]", "[0,8]")), "data_offsets 0 to 8, want 12 bytes"},
      {with(header_entry("t", "F32", "[2]", "[4,12]"), 12), "begins at byte 4 of the data, want 0"},
      {with(header_entry("t", "F32", "[2]", "[0,8]") + "," + header_entry("u", "F32", "[2]", "[4,12]"), 12),
       "tensor \"u\""},
      {with(header_entry("t", "F32", "[2]", "[0,8]"), 7), "ends after the data of 7 bytes"},
      {with(header_entry("t", "F32", "[2]", "[0,8]"), 9), "1 bytes after the last tensor"},
      {with(header_entry("t", "U8", "[4]", "[0,4]") + "," + header_entry("t", "U8", "[4]", "[4,8]")),
       "two tensors \"t\""},
  };
  for (const auto& [bytes, reason] : files) {
    const auto read = read_bytes(read_safetensors_header, bytes);
    ASSERT_FALSE(read) << reason;
    EXPECT_NE(read.error().message().find(reason), std::string::npos) << read.error().message() << "\nwant " << reason;
    EXPECT_NE(read.error().message().find("test.file: "), std::string::npos);
  }
}

TEST(Safetensors, AFileIsRecognizedByItsFirstBytes) {
  const std::string file = safetensors_file("{}", "");
  EXPECT_TRUE(is_safetensors(file, file.size()));
  EXPECT_FALSE(is_safetensors(file, 9));
  EXPECT_FALSE(is_safetensors(safetensors_file("[]", ""), 10));
  EXPECT_FALSE(is_safetensors("12345678", 8));
  EXPECT_FALSE(is_safetensors("", 0));
}

TEST(Safetensors, GoldenFilesAreRead) {
  const auto folder = shared_path("golden/convert/hf");
  if (!folder) GTEST_SKIP() << "no golden/convert";
  size_t n_files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    ASSERT_OK_AND_ASSIGN(const File file, File::open(entry.path()));
    ASSERT_OK_AND_ASSIGN(const auto header, read_safetensors_header(file));
    EXPECT_GT(header.tensors.size(), 5u) << entry.path();
    ++n_files;
  }
  EXPECT_GE(n_files, 50u);
}

}  // namespace
}  // namespace tessera::convert
