// libggml: GGUF contexts that are read from files and buffers.
#include <array>
#include <cstring>

#include "tessera/gguf/reader.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/llama/ggml_support.h"

namespace tessera {
namespace {

using testing::expect_line;
using testing::GgmlLog;
using testing::GgmlTensors;
using testing::Gguf;
using testing::own_gguf;
using testing::parse_gguf;
using testing::RawGguf;

constexpr uint32_t kGgufU8 = 0, kGgufI8 = 1, kGgufU16 = 2, kGgufI16 = 3, kGgufU32 = 4, kGgufI32 = 5, kGgufF32 = 6,
                   kGgufBool = 7, kGgufString = 8, kGgufArray = 9, kGgufU64 = 10, kGgufI64 = 11, kGgufF64 = 12;
constexpr gguf_init_params kNoTensors = {true, nullptr};

// A key of each type, two arrays and two tensors.
std::string every_type() {
  RawGguf raw(2, 15);
  raw.key("a.u8", kGgufU8, uint8_t{200}).key("a.i8", kGgufI8, int8_t{-100}).key("a.u16", kGgufU16, uint16_t{60000});
  raw.key("a.i16", kGgufI16, int16_t{-30000})
      .key("a.u32", kGgufU32, uint32_t{4000000000})
      .key("a.i32", kGgufI32, int32_t{-7});
  raw.key("a.f32", kGgufF32, 1.5F).key("a.bool", kGgufBool, uint8_t{1}).key("a.str", kGgufString).text("text");
  raw.key("a.u64", kGgufU64, uint64_t{1} << 60).key("a.i64", kGgufI64, -(int64_t{1} << 60)).key("a.f64", kGgufF64, 0.1);
  raw.array("b.numbers", kGgufI16, 3).number(int16_t{1}).number(int16_t{-2}).number(int16_t{3});
  raw.array("b.texts", kGgufString, 2).text("one").text("");
  raw.array("b.none", kGgufF32, 0);
  raw.tensor("x", {32, 2}, 2, 0).tensor("y", {3}, 0, 64);  // q4_0 and f32
  return raw.data(64 + 12).pad().bytes();
}

int64_t id_of(const Gguf& gguf, const char* key) { return tessera_gguf_find_key(gguf.get(), key); }

TEST(GgufContext, HasTheValuesOfTheFile) {
  GgmlLog log;
  const Gguf gguf = parse_gguf(every_type());
  ASSERT_NE(gguf, nullptr) << log.take();
  const gguf_context* ctx = gguf.get();
  EXPECT_EQ(tessera_gguf_get_version(ctx), 3);
  EXPECT_EQ(tessera_gguf_get_alignment(ctx), 32);
  EXPECT_EQ(tessera_gguf_get_n_kv(ctx), 15);
  EXPECT_STREQ(tessera_gguf_get_key(ctx, 1), "a.i8");
  EXPECT_EQ(tessera_gguf_get_val_u8(ctx, id_of(gguf, "a.u8")), 200);
  EXPECT_EQ(tessera_gguf_get_val_i8(ctx, id_of(gguf, "a.i8")), -100);
  EXPECT_EQ(tessera_gguf_get_val_u16(ctx, id_of(gguf, "a.u16")), 60000);
  EXPECT_EQ(tessera_gguf_get_val_i16(ctx, id_of(gguf, "a.i16")), -30000);
  EXPECT_EQ(tessera_gguf_get_val_u32(ctx, id_of(gguf, "a.u32")), 4000000000);
  EXPECT_EQ(tessera_gguf_get_val_i32(ctx, id_of(gguf, "a.i32")), -7);
  EXPECT_EQ(tessera_gguf_get_val_f32(ctx, id_of(gguf, "a.f32")), 1.5F);
  EXPECT_TRUE(tessera_gguf_get_val_bool(ctx, id_of(gguf, "a.bool")));
  EXPECT_STREQ(tessera_gguf_get_val_str(ctx, id_of(gguf, "a.str")), "text");
  EXPECT_EQ(tessera_gguf_get_val_u64(ctx, id_of(gguf, "a.u64")), uint64_t{1} << 60);
  EXPECT_EQ(tessera_gguf_get_val_i64(ctx, id_of(gguf, "a.i64")), -(int64_t{1} << 60));
  EXPECT_EQ(tessera_gguf_get_val_f64(ctx, id_of(gguf, "a.f64")), 0.1);
  const std::array<uint32_t, 12> types = {kGgufU8,  kGgufI8,   kGgufU16,    kGgufI16, kGgufU32, kGgufI32,
                                          kGgufF32, kGgufBool, kGgufString, kGgufU64, kGgufI64, kGgufF64};
  for (size_t i = 0; i < types.size(); ++i)
    EXPECT_EQ(tessera_gguf_get_kv_type(ctx, static_cast<int64_t>(i)), static_cast<int32_t>(types[i]));
  const void* data = tessera_gguf_get_val_data(ctx, id_of(gguf, "a.u16"));
  EXPECT_EQ(std::memcmp(data, "\x60\xea", 2), 0);
  EXPECT_EQ(log.take(), "");
}

TEST(GgufContext, HasTheArraysOfTheFile) {
  GgmlLog log;
  const Gguf gguf = parse_gguf(every_type());
  ASSERT_NE(gguf, nullptr) << log.take();
  const int64_t numbers = id_of(gguf, "b.numbers"), texts = id_of(gguf, "b.texts"), none = id_of(gguf, "b.none");
  EXPECT_EQ(tessera_gguf_get_kv_type(gguf.get(), numbers), static_cast<int32_t>(kGgufArray));
  EXPECT_EQ(tessera_gguf_get_arr_type(gguf.get(), numbers), static_cast<int32_t>(kGgufI16));
  EXPECT_EQ(tessera_gguf_get_arr_n(gguf.get(), numbers), 3);
  const auto* values = static_cast<const int16_t*>(tessera_gguf_get_arr_data(gguf.get(), numbers));
  EXPECT_EQ(std::vector<int16_t>(values, values + 3), (std::vector<int16_t>{1, -2, 3}));
  EXPECT_EQ(tessera_gguf_get_arr_type(gguf.get(), texts), static_cast<int32_t>(kGgufString));
  EXPECT_EQ(tessera_gguf_get_arr_n(gguf.get(), texts), 2);
  EXPECT_STREQ(tessera_gguf_get_arr_str(gguf.get(), texts, 0), "one");
  EXPECT_STREQ(tessera_gguf_get_arr_str(gguf.get(), texts, 1), "");
  EXPECT_EQ(tessera_gguf_get_arr_n(gguf.get(), none), 0);
  EXPECT_EQ(log.take(), "");
}

TEST(GgufContext, HasTheTensorsOfTheFile) {
  const std::string bytes = every_type();
  const Gguf gguf = parse_gguf(bytes);
  ASSERT_NE(gguf, nullptr);
  const gguf_context* ctx = gguf.get();
  EXPECT_EQ(tessera_gguf_get_n_tensors(ctx), 2);
  EXPECT_EQ(tessera_gguf_find_tensor(ctx, "y"), 1);
  EXPECT_EQ(tessera_gguf_find_tensor(ctx, "z"), -1);
  EXPECT_STREQ(tessera_gguf_get_tensor_name(ctx, 0), "x");
  EXPECT_EQ(tessera_gguf_get_tensor_type(ctx, 0), 2);
  EXPECT_EQ(tessera_gguf_get_tensor_size(ctx, 0), 36);
  EXPECT_EQ(tessera_gguf_get_tensor_offset(ctx, 0), 0);
  EXPECT_EQ(tessera_gguf_get_tensor_offset(ctx, 1), 64);
  const int64_t* ne = tessera_gguf_get_tensor_ne(ctx, 0);
  EXPECT_EQ(std::vector<int64_t>(ne, ne + 4), (std::vector<int64_t>{32, 2, 1, 1}));
  EXPECT_EQ(tessera_gguf_get_data_offset(ctx), bytes.size() - 96);
}

TEST(GgufContext, HandsOutTensorsWithAndWithoutData) {
  GgmlLog log;
  const std::string bytes = every_type();
  for (const bool no_alloc : {true, false}) {
    ggml_context* found = nullptr;
    const Gguf gguf = parse_gguf(bytes, {no_alloc, &found});
    ASSERT_NE(gguf, nullptr) << log.take();
    const GgmlTensors tensors(found, tessera_ggml_free);
    ggml_tensor* const x = tessera_ggml_get_first_tensor(found);
    ASSERT_NE(x, nullptr);
    EXPECT_STREQ(x->name, "x");
    EXPECT_EQ(x->type, 2);
    EXPECT_EQ(x->ne[0], 32);
    EXPECT_EQ(x->ne[1], 2);
    EXPECT_EQ(x->ne[3], 1);
    EXPECT_EQ(std::vector<size_t>(x->nb, x->nb + 4), (std::vector<size_t>{18, 18, 36, 36}));
    EXPECT_EQ(tessera_ggml_nbytes(x), 36);
    ggml_tensor* const y = tessera_ggml_get_next_tensor(found, x);
    ASSERT_NE(y, nullptr);
    EXPECT_EQ(tessera_ggml_get_tensor(found, "y"), y);
    EXPECT_EQ(tessera_ggml_get_tensor(found, "z"), nullptr);
    EXPECT_EQ(tessera_ggml_get_next_tensor(found, y), nullptr);
    if (no_alloc) {
      EXPECT_EQ(y->data, nullptr);
    } else {
      EXPECT_EQ(std::memcmp(x->data, bytes.data() + bytes.size() - 96, 36), 0);
      EXPECT_EQ(std::memcmp(y->data, bytes.data() + bytes.size() - 32, 12), 0);
    }
    EXPECT_EQ(log.take(), "");
  }
}

TEST(GgufContext, OpensFiles) {
  GgmlLog log;
  const std::string path = testing::story_model();
  const Gguf gguf = own_gguf(tessera_gguf_init_from_file(path.c_str(), kNoTensors));
  ASSERT_NE(gguf, nullptr) << log.take();
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::open(path));
  EXPECT_EQ(tessera_gguf_get_n_kv(gguf.get()), static_cast<int64_t>(file->metadata().entries().size()));
  EXPECT_EQ(tessera_gguf_get_n_tensors(gguf.get()), static_cast<int64_t>(file->tensors().size()));
  EXPECT_EQ(tessera_gguf_get_data_offset(gguf.get()), file->data_offset());
  EXPECT_STREQ(tessera_gguf_get_val_str(gguf.get(), id_of(gguf, "general.architecture")), "llama");
  EXPECT_EQ(tessera_gguf_init_from_file("/no/such.gguf", kNoTensors), nullptr);
  expect_line(log, "gguf_init_from_file: /no/such.gguf: ");
  EXPECT_EQ(tessera_gguf_init_from_file(nullptr, kNoTensors), nullptr);
  expect_line(log, "gguf_init_from_file: fname: is NULL");
  EXPECT_EQ(tessera_gguf_init_from_buffer(nullptr, 4, kNoTensors), nullptr);
  expect_line(log, "gguf_init_from_buffer: data: is NULL");
}

TEST(GgufContext, ThePartBeforeTheDataIsEnoughWithoutData) {
  GgmlLog log;
  const std::string header = every_type().substr(0, every_type().size() - 96);
  EXPECT_NE(parse_gguf(header), nullptr);
  ggml_context* found = nullptr;
  EXPECT_EQ(parse_gguf(header, {false, &found}), nullptr);
  EXPECT_EQ(found, nullptr);
  expect_line(log, "gguf_init_from_buffer: ");
}

TEST(GgufContext, DamagedFilesAreRefused) {
  GgmlLog log;
  const std::string bytes = every_type();
  const size_t end = bytes.size() - 96;
  for (size_t n = 0; n + 32 <= end; ++n) {
    EXPECT_EQ(parse_gguf(bytes.substr(0, n)), nullptr) << n;
    expect_line(log, "gguf_init_from_buffer: buffer: ");
  }
  for (size_t i = 0; i < end; ++i) {  // any context may come of these, but no crash
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(0xff);
    ggml_context* found = nullptr;
    const Gguf gguf = parse_gguf(damaged, {false, &found});
    EXPECT_EQ(gguf == nullptr, found == nullptr) << i;
    tessera_ggml_free(found);
  }
}

TEST(GgufContext, WhatItCannotHoldIsRefused) {
  GgmlLog log;
  RawGguf nested(0, 1);
  nested.array("a", kGgufArray, 1).number(kGgufU8).number(uint64_t{0});
  EXPECT_EQ(parse_gguf(nested.bytes()), nullptr);
  expect_line(log, "gguf_init_from_buffer: key 'a': an array of arrays");
  RawGguf gap(2, 0);
  gap.tensor("x", {8}, 0, 0).tensor("y", {8}, 0, 64);
  EXPECT_EQ(parse_gguf(gap.data(96).bytes()), nullptr);
  expect_line(log, "tensor 'y' has the offset 64, the one before it ends at 32");
}

TEST(GgufContext, WrongTypesAndPlacesAreRefused) {
  GgmlLog log;
  const Gguf gguf = parse_gguf(every_type());
  ASSERT_NE(gguf, nullptr);
  const gguf_context* ctx = gguf.get();
  const int64_t text = id_of(gguf, "a.str"), number = id_of(gguf, "a.u8"), texts = id_of(gguf, "b.texts"),
                numbers = id_of(gguf, "b.numbers");
  EXPECT_EQ(tessera_gguf_get_val_u8(ctx, text), 0);
  expect_line(log, "gguf_get_val_u8: key 'a.str': is str, want u8");
  EXPECT_EQ(tessera_gguf_get_val_i16(ctx, numbers), 0);
  expect_line(log, "gguf_get_val_i16: key 'b.numbers': is an array of i16, want i16");
  EXPECT_EQ(tessera_gguf_get_val_str(ctx, number), nullptr);
  expect_line(log, "gguf_get_val_str: key 'a.u8': is u8, want str");
  EXPECT_EQ(tessera_gguf_get_val_str(ctx, texts), nullptr);
  expect_line(log, "gguf_get_val_str: key 'b.texts': is an array of str, want str");
  EXPECT_EQ(tessera_gguf_get_val_data(ctx, text), nullptr);
  expect_line(log, "gguf_get_val_data: key 'a.str'");
  EXPECT_EQ(tessera_gguf_get_val_data(ctx, numbers), nullptr);
  expect_line(log, "gguf_get_val_data: key 'b.numbers'");
  EXPECT_EQ(tessera_gguf_get_arr_n(ctx, text), 0);
  expect_line(log, "gguf_get_arr_n: key 'a.str': is str, want an array");
  EXPECT_EQ(tessera_gguf_get_arr_type(ctx, number), -1);
  expect_line(log, "gguf_get_arr_type: key 'a.u8'");
  EXPECT_EQ(tessera_gguf_get_arr_data(ctx, texts), nullptr);
  expect_line(log, "gguf_get_arr_data: key 'b.texts'");
  EXPECT_EQ(tessera_gguf_get_arr_data(ctx, number), nullptr);
  expect_line(log, "gguf_get_arr_data: key 'a.u8'");
  EXPECT_EQ(tessera_gguf_get_arr_str(ctx, numbers, 0), nullptr);
  expect_line(log, "gguf_get_arr_str: key 'b.numbers'");
  EXPECT_EQ(tessera_gguf_get_arr_str(ctx, texts, 2), nullptr);
  expect_line(log, "gguf_get_arr_str: key 'b.texts': element 2, there are 2");
  for (const int64_t place : {int64_t{-1}, int64_t{15}}) {
    const std::string what = "key_id: " + std::to_string(place) + ", there are 15 keys";
    EXPECT_EQ(tessera_gguf_get_key(ctx, place), nullptr);
    expect_line(log, "gguf_get_key: " + what);
    EXPECT_EQ(tessera_gguf_get_kv_type(ctx, place), -1);
    expect_line(log, "gguf_get_kv_type: " + what);
    EXPECT_EQ(tessera_gguf_get_val_f64(ctx, place), 0);
    expect_line(log, "gguf_get_val_f64: " + what);
  }
  for (const int64_t place : {int64_t{-1}, int64_t{2}}) {
    EXPECT_EQ(tessera_gguf_get_tensor_name(ctx, place), nullptr);
    EXPECT_EQ(tessera_gguf_get_tensor_ne(ctx, place), nullptr);
    EXPECT_EQ(tessera_gguf_get_tensor_type(ctx, place), -1);
    EXPECT_EQ(tessera_gguf_get_tensor_size(ctx, place), 0);
    EXPECT_EQ(tessera_gguf_get_tensor_offset(ctx, place), 0);
    const std::string lines = log.take();
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 5) << lines;
  }
}

TEST(GgufContext, OtherHandlesAreRefused) {
  GgmlLog log;
  ggml_context* found = nullptr;
  const Gguf gguf = parse_gguf(every_type(), {true, &found});
  const GgmlTensors tensors(found, tessera_ggml_free);
  auto* const wrong = reinterpret_cast<gguf_context*>(found);
  for (gguf_context* ctx : {wrong, static_cast<gguf_context*>(nullptr)}) {
    const std::string what = ctx == nullptr ? "ctx: is NULL" : "ctx: is no GGUF context";
    EXPECT_EQ(tessera_gguf_get_n_kv(ctx), 0);
    expect_line(log, "gguf_get_n_kv: " + what);
    EXPECT_EQ(tessera_gguf_get_version(ctx), 0);
    expect_line(log, "gguf_get_version: " + what);
    EXPECT_EQ(tessera_gguf_get_alignment(ctx), 0);
    expect_line(log, "gguf_get_alignment: " + what);
    EXPECT_EQ(tessera_gguf_get_data_offset(ctx), 0);
    expect_line(log, "gguf_get_data_offset: " + what);
    EXPECT_EQ(tessera_gguf_find_key(ctx, "a"), -1);
    expect_line(log, "gguf_find_key: " + what);
    EXPECT_EQ(tessera_gguf_get_key(ctx, 0), nullptr);
    expect_line(log, "gguf_get_key: " + what);
    EXPECT_EQ(tessera_gguf_get_n_tensors(ctx), 0);
    expect_line(log, "gguf_get_n_tensors: " + what);
    EXPECT_EQ(tessera_gguf_find_tensor(ctx, "x"), -1);
    expect_line(log, "gguf_find_tensor: " + what);
    EXPECT_EQ(tessera_gguf_get_tensor_name(ctx, 0), nullptr);
    expect_line(log, "gguf_get_tensor_name: " + what);
  }
  tessera_gguf_free(wrong);
  expect_line(log, "gguf_free: ctx: is no GGUF context");
  tessera_gguf_free(nullptr);
  tessera_ggml_free(nullptr);
  EXPECT_EQ(log.take(), "");
  auto* const no_tensors = reinterpret_cast<ggml_context*>(gguf.get());
  tessera_ggml_free(no_tensors);
  expect_line(log, "ggml_free: ctx: is no context of tensors");
  EXPECT_EQ(tessera_ggml_get_first_tensor(no_tensors), nullptr);
  expect_line(log, "ggml_get_first_tensor: ");
  EXPECT_EQ(tessera_ggml_get_tensor(no_tensors, "x"), nullptr);
  expect_line(log, "ggml_get_tensor: ");
  ggml_tensor other{};
  EXPECT_EQ(tessera_ggml_get_next_tensor(found, &other), nullptr);
  expect_line(log, "ggml_get_next_tensor: tensor: not of this context");
  EXPECT_EQ(tessera_ggml_get_tensor(found, nullptr), nullptr);
  expect_line(log, "ggml_get_tensor: name: is NULL");
  EXPECT_EQ(tessera_gguf_find_key(gguf.get(), nullptr), -1);
  expect_line(log, "gguf_find_key: key: is NULL");
  EXPECT_EQ(tessera_gguf_find_tensor(gguf.get(), nullptr), -1);
  expect_line(log, "gguf_find_tensor: name: is NULL");
}

TEST(GgufTypes, HaveNames) {
  EXPECT_STREQ(tessera_gguf_type_name(0), "u8");
  EXPECT_STREQ(tessera_gguf_type_name(8), "str");
  EXPECT_STREQ(tessera_gguf_type_name(12), "f64");
  EXPECT_EQ(tessera_gguf_type_name(13), nullptr);
  EXPECT_EQ(tessera_gguf_type_name(-1), nullptr);
}

}  // namespace
}  // namespace tessera
