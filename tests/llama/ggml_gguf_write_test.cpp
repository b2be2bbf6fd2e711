// libggml: GGUF contexts that programs build and write.
#include <array>
#include <cstring>
#include <limits>

#include "tessera/gguf/reader.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/llama/ggml_support.h"

namespace tessera {
namespace {

using testing::empty_gguf;
using testing::expect_line;
using testing::GgmlLog;
using testing::Gguf;
using testing::make_tensor;
using testing::own_gguf;
using testing::parse_gguf;
using testing::RawGguf;

constexpr int32_t kTensorF32 = 0, kTensorF16 = 1, kTensorQ8_0 = 8;

Gguf with_keys() {
  Gguf gguf = empty_gguf();
  gguf_context* ctx = gguf.get();
  tessera_gguf_set_val_u8(ctx, "u8", 1);
  tessera_gguf_set_val_i8(ctx, "i8", -1);
  tessera_gguf_set_val_u16(ctx, "u16", 2);
  tessera_gguf_set_val_i16(ctx, "i16", -2);
  tessera_gguf_set_val_u32(ctx, "u32", 3);
  tessera_gguf_set_val_i32(ctx, "i32", -3);
  tessera_gguf_set_val_f32(ctx, "f32", 4.5F);
  tessera_gguf_set_val_bool(ctx, "bool", true);
  tessera_gguf_set_val_str(ctx, "str", "text");
  tessera_gguf_set_val_u64(ctx, "u64", 5);
  tessera_gguf_set_val_i64(ctx, "i64", -5);
  tessera_gguf_set_val_f64(ctx, "f64", 6.5);
  const std::array<uint16_t, 3> numbers = {7, 8, 9};
  tessera_gguf_set_arr_data(ctx, "numbers", 2, numbers.data(), numbers.size());
  std::array<const char*, 2> texts = {"a", "bc"};
  tessera_gguf_set_arr_str(ctx, "texts", texts.data(), texts.size());
  return gguf;
}

std::string meta_of(const Gguf& gguf) {
  std::string bytes(tessera_gguf_get_meta_size(gguf.get()), '\xaa');
  tessera_gguf_get_meta_data(gguf.get(), bytes.data());
  return bytes;
}

TEST(GgufBuilding, KeysAreReadBack) {
  GgmlLog log;
  const Gguf gguf = with_keys();
  const std::string bytes = meta_of(gguf);
  EXPECT_EQ(bytes.size() % 32, 0);
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::parse(std::as_bytes(std::span(bytes)), "built"));
  const Metadata& metadata = file->metadata();
  ASSERT_EQ(metadata.entries().size(), 14);
  EXPECT_EQ(metadata.find("u8")->type(), GgufType::u8);
  EXPECT_EQ(metadata.find("bool")->type(), GgufType::boolean);
  EXPECT_EQ(*metadata.get<int64_t>("i8"), -1);
  EXPECT_EQ(*metadata.get<uint16_t>("u16"), 2);
  EXPECT_EQ(*metadata.get<int16_t>("i16"), -2);
  EXPECT_EQ(*metadata.get<uint32_t>("u32"), 3);
  EXPECT_EQ(*metadata.get<int32_t>("i32"), -3);
  EXPECT_EQ(*metadata.get<float>("f32"), 4.5F);
  EXPECT_TRUE(*metadata.get<bool>("bool"));
  EXPECT_EQ(*metadata.get<std::string_view>("str"), "text");
  EXPECT_EQ(*metadata.get<uint64_t>("u64"), 5);
  EXPECT_EQ(*metadata.get<int64_t>("i64"), -5);
  EXPECT_EQ(*metadata.get<double>("f64"), 6.5);
  EXPECT_EQ(*metadata.get_vector<uint16_t>("numbers"), (std::vector<uint16_t>{7, 8, 9}));
  EXPECT_EQ(*metadata.get_vector<std::string_view>("texts"), (std::vector<std::string_view>{"a", "bc"}));
  EXPECT_EQ(log.take(), "");
}

TEST(GgufBuilding, AKeyThatIsSetAgainMovesToTheEnd) {
  const Gguf gguf = with_keys();
  tessera_gguf_set_val_str(gguf.get(), "u8", "another type");
  EXPECT_EQ(tessera_gguf_get_n_kv(gguf.get()), 14);
  EXPECT_EQ(tessera_gguf_find_key(gguf.get(), "u8"), 13);
  EXPECT_EQ(tessera_gguf_find_key(gguf.get(), "i8"), 0);
  EXPECT_EQ(tessera_gguf_remove_key(gguf.get(), "u16"), 1);
  EXPECT_EQ(tessera_gguf_remove_key(gguf.get(), "u16"), -1);
  EXPECT_EQ(tessera_gguf_get_n_kv(gguf.get()), 13);
}

TEST(GgufBuilding, KeysAreCopiedFromAnother) {
  GgmlLog log;
  RawGguf raw(0, 3);
  raw.key("general.alignment", 4, uint32_t{64}).key("u8", 8).text("new").key("more", 4, uint32_t{1});
  const Gguf from = parse_gguf(raw.pad(64).bytes()), to = with_keys();
  ASSERT_NE(from, nullptr) << log.take();
  tessera_gguf_set_kv(to.get(), from.get());
  EXPECT_EQ(tessera_gguf_get_n_kv(to.get()), 15);
  EXPECT_STREQ(tessera_gguf_get_val_str(to.get(), 13), "new");
  EXPECT_EQ(tessera_gguf_get_val_u32(to.get(), 14), 1);
  EXPECT_EQ(tessera_gguf_find_key(to.get(), "general.alignment"), -1);
  tessera_gguf_set_kv(to.get(), to.get());
  EXPECT_EQ(tessera_gguf_get_n_kv(to.get()), 15);
  EXPECT_EQ(log.take(), "");
  tessera_gguf_set_kv(to.get(), nullptr);
  expect_line(log, "gguf_set_kv: src: is NULL");
  tessera_gguf_set_kv(nullptr, to.get());
  expect_line(log, "gguf_set_kv: ctx: is NULL");
}

TEST(GgufBuilding, TensorsLieBehindOneAnother) {
  GgmlLog log;
  const Gguf gguf = with_keys();
  std::array<float, 12> x{};
  std::array<uint16_t, 5> y{};
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<uint16_t>(100 + i);
  const ggml_tensor first = make_tensor("x", kTensorF32, {4, 3}, x.data()),
                    second = make_tensor("y", kTensorF16, {5}, y.data());
  tessera_gguf_add_tensor(gguf.get(), &first);
  tessera_gguf_add_tensor(gguf.get(), &second);
  EXPECT_EQ(log.take(), "");
  EXPECT_EQ(tessera_gguf_get_n_tensors(gguf.get()), 2);
  EXPECT_EQ(tessera_gguf_get_tensor_size(gguf.get(), 0), 48);
  EXPECT_EQ(tessera_gguf_get_tensor_offset(gguf.get(), 1), 64);

  const std::string path = testing::temporary_path("built.gguf"), meta = testing::temporary_path("meta.gguf");
  ASSERT_TRUE(tessera_gguf_write_to_file(gguf.get(), path.c_str(), false)) << log.take();
  ASSERT_TRUE(tessera_gguf_write_to_file(gguf.get(), meta.c_str(), true)) << log.take();
  EXPECT_EQ(testing::read_all(meta), meta_of(gguf));
  EXPECT_EQ(testing::read_all(path).substr(0, meta_of(gguf).size()), meta_of(gguf));
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::open(path));
  ASSERT_EQ(file->tensors().size(), 2);
  const auto data = file->data(file->tensors()[1]);
  EXPECT_EQ(data.size(), 10);
  EXPECT_EQ(std::memcmp(data.data(), y.data(), 10), 0);
  EXPECT_EQ(std::memcmp(file->data(file->tensors()[0]).data(), x.data(), 48), 0);
  EXPECT_EQ(file->tensors()[0].rank, 2);
}

TEST(GgufBuilding, ATypeThatChangesMovesTheTensorsBehind) {
  GgmlLog log;
  const Gguf gguf = empty_gguf();
  const ggml_tensor first = make_tensor("x", kTensorF32, {64}), second = make_tensor("y", kTensorF32, {1}),
                    third = make_tensor("z", kTensorF32, {1});
  for (const ggml_tensor* tensor : {&first, &second, &third}) tessera_gguf_add_tensor(gguf.get(), tensor);
  EXPECT_EQ(tessera_gguf_get_tensor_offset(gguf.get(), 1), 256);
  EXPECT_EQ(tessera_gguf_get_tensor_offset(gguf.get(), 2), 288);
  tessera_gguf_set_tensor_type(gguf.get(), "x", kTensorQ8_0);
  EXPECT_EQ(tessera_gguf_get_tensor_type(gguf.get(), 0), kTensorQ8_0);
  EXPECT_EQ(tessera_gguf_get_tensor_size(gguf.get(), 0), 68);
  EXPECT_EQ(tessera_gguf_get_tensor_offset(gguf.get(), 1), 96);
  EXPECT_EQ(tessera_gguf_get_tensor_offset(gguf.get(), 2), 128);
  EXPECT_EQ(log.take(), "");
  tessera_gguf_set_tensor_type(gguf.get(), "y", kTensorQ8_0);  // one element is no block
  expect_line(log, "gguf_set_tensor_type: ");
  EXPECT_EQ(tessera_gguf_get_tensor_type(gguf.get(), 1), kTensorF32);
  tessera_gguf_set_tensor_type(gguf.get(), "x", 4);
  expect_line(log, "gguf_set_tensor_type: ");
  tessera_gguf_set_tensor_type(gguf.get(), "x", -1);
  expect_line(log, "gguf_set_tensor_type: type -1 is unknown");
  tessera_gguf_set_tensor_type(gguf.get(), "none", kTensorF32);
  expect_line(log, "gguf_set_tensor_type: no tensor 'none'");
  tessera_gguf_set_tensor_type(gguf.get(), nullptr, kTensorF32);
  expect_line(log, "gguf_set_tensor_type: name: is NULL");
}

TEST(GgufBuilding, DataIsSetLater) {
  GgmlLog log;
  const Gguf gguf = empty_gguf();
  const ggml_tensor tensor = make_tensor("x", kTensorF32, {2});
  tessera_gguf_add_tensor(gguf.get(), &tensor);
  const std::string path = testing::temporary_path("later.gguf");
  EXPECT_FALSE(tessera_gguf_write_to_file(gguf.get(), path.c_str(), false));
  expect_line(log, "gguf_write_to_file: tensor 'x' has no data");
  const std::array<float, 2> data = {1, 2};
  tessera_gguf_set_tensor_data(gguf.get(), "x", data.data());
  ASSERT_TRUE(tessera_gguf_write_to_file(gguf.get(), path.c_str(), false)) << log.take();
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::open(path));
  EXPECT_EQ(std::memcmp(file->data(file->tensors()[0]).data(), data.data(), 8), 0);
  tessera_gguf_set_tensor_data(gguf.get(), "z", data.data());
  expect_line(log, "gguf_set_tensor_data: no tensor 'z'");
}

TEST(GgufBuilding, WrongTensorsAreRefused) {
  GgmlLog log;
  const Gguf gguf = empty_gguf();
  const auto refuse = [&](const ggml_tensor& tensor, const std::string& what) {
    tessera_gguf_add_tensor(gguf.get(), &tensor);
    expect_line(log, "gguf_add_tensor: " + what);
  };
  refuse(make_tensor("", kTensorF32, {1}), "tensor: a name of 0 bytes");
  ggml_tensor endless = make_tensor("x", kTensorF32, {1});
  std::fill(std::begin(endless.name), std::end(endless.name), 'x');
  refuse(endless, "tensor: a name of 64 bytes, want 1 to 63");
  refuse(make_tensor("x", 4, {32}), "");
  refuse(make_tensor("x", -1, {32}), "type -1 is unknown");
  refuse(make_tensor("x", kTensorQ8_0, {33}), "");
  refuse(make_tensor("x", kTensorF32, {-1}), "");
  refuse(make_tensor("x", kTensorF32, {std::numeric_limits<int64_t>::max(), 2}), "");
  tessera_gguf_add_tensor(gguf.get(), nullptr);
  expect_line(log, "gguf_add_tensor: tensor: is NULL");
  tessera_gguf_add_tensor(nullptr, &endless);
  expect_line(log, "gguf_add_tensor: ctx: is NULL");
  EXPECT_EQ(tessera_gguf_get_n_tensors(gguf.get()), 0);
  const ggml_tensor good = make_tensor("x", kTensorF32, {1});
  tessera_gguf_add_tensor(gguf.get(), &good);
  refuse(good, "tensor 'x' was added before");
  EXPECT_EQ(tessera_gguf_get_n_tensors(gguf.get()), 1);
}

TEST(GgufBuilding, WrongValuesAreRefused) {
  GgmlLog log;
  const Gguf gguf = empty_gguf();
  gguf_context* ctx = gguf.get();
  const std::array<uint8_t, 2> bytes = {1, 2};
  std::array<const char*, 2> texts = {"a", nullptr};
  tessera_gguf_set_val_u8(ctx, nullptr, 1);
  expect_line(log, "gguf_set_val_u8: key: is NULL");
  tessera_gguf_set_val_f64(nullptr, "a", 1);
  expect_line(log, "gguf_set_val_f64: ctx: is NULL");
  tessera_gguf_set_val_str(ctx, "a", nullptr);
  expect_line(log, "gguf_set_val_str: val: is NULL");
  tessera_gguf_set_arr_data(ctx, "a", 0, nullptr, 1);
  expect_line(log, "gguf_set_arr_data: data: is NULL");
  for (const int32_t type : {8, 9, 13, -1}) {
    tessera_gguf_set_arr_data(ctx, "a", type, bytes.data(), 2);
    expect_line(log, "gguf_set_arr_data: type: " + std::to_string(type));
  }
  tessera_gguf_set_arr_data(ctx, "a", 0, bytes.data(), std::numeric_limits<size_t>::max());
  expect_line(log, "gguf_set_arr_data: data: ");
  tessera_gguf_set_arr_str(ctx, "a", texts.data(), 2);
  expect_line(log, "gguf_set_arr_str: data: is NULL");
  tessera_gguf_set_arr_str(ctx, "a", nullptr, 1);
  expect_line(log, "gguf_set_arr_str: data: is NULL");
  EXPECT_EQ(tessera_gguf_get_n_kv(ctx), 0);
  tessera_gguf_set_arr_data(ctx, "a", 0, nullptr, 0);
  EXPECT_EQ(tessera_gguf_get_arr_n(ctx, 0), 0);
  EXPECT_EQ(log.take(), "");
}

TEST(GgufBuilding, TheAlignmentIs32) {
  GgmlLog log;
  const Gguf gguf = empty_gguf();
  tessera_gguf_set_val_u32(gguf.get(), "general.alignment", 64);
  expect_line(log, "gguf_set_val_u32: key 'general.alignment': files are written with an alignment of 32");
  tessera_gguf_set_val_str(gguf.get(), "general.alignment", "32");
  expect_line(log, "gguf_set_val_str: key 'general.alignment'");
  EXPECT_EQ(tessera_gguf_get_n_kv(gguf.get()), 0);
  tessera_gguf_set_val_u32(gguf.get(), "general.alignment", 32);
  EXPECT_EQ(tessera_gguf_get_val_u32(gguf.get(), 0), 32);
  EXPECT_NE(parse_gguf(meta_of(gguf)), nullptr);
  EXPECT_EQ(log.take(), "");
  RawGguf raw(0, 1);
  raw.key("general.alignment", 4, uint32_t{64});
  const Gguf other = parse_gguf(raw.pad(64).bytes());
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(tessera_gguf_get_alignment(other.get()), 64);
  EXPECT_EQ(tessera_gguf_get_meta_size(other.get()), 0);
  expect_line(log, "gguf_get_meta_size: files are written with an alignment of 32, this one has 64");
  EXPECT_FALSE(tessera_gguf_write_to_file(other.get(), testing::temporary_path("no").c_str(), true));
  expect_line(log, "gguf_write_to_file: ");
}

TEST(GgufBuilding, KeysThatReadersRefuseAreNotWritten) {
  GgmlLog log;
  const Gguf gguf = empty_gguf();
  tessera_gguf_set_val_u8(gguf.get(), "", 1);
  EXPECT_EQ(tessera_gguf_get_meta_size(gguf.get()), 0);
  expect_line(log, "gguf_get_meta_size: key ");
  char untouched = 'x';
  tessera_gguf_get_meta_data(gguf.get(), &untouched);
  expect_line(log, "gguf_get_meta_data: key ");
  EXPECT_EQ(untouched, 'x');
  tessera_gguf_get_meta_data(gguf.get(), nullptr);
  expect_line(log, "gguf_get_meta_data: data: is NULL");
  EXPECT_FALSE(tessera_gguf_write_to_file(gguf.get(), nullptr, true));
  expect_line(log, "gguf_write_to_file: fname: is NULL");
  EXPECT_FALSE(tessera_gguf_write_to_file(empty_gguf().get(), "/no/such/folder/x", true));
  expect_line(log, "gguf_write_to_file: /no/such/folder/x");
  EXPECT_FALSE(tessera_gguf_write_to_file(nullptr, "x", true));
  expect_line(log, "gguf_write_to_file: ctx: is NULL");
  EXPECT_EQ(tessera_gguf_get_meta_size(nullptr), 0);
  expect_line(log, "gguf_get_meta_size: ctx: is NULL");
}

}  // namespace
}  // namespace tessera
