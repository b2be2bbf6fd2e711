// libggml: the library, types, 16-bit floats and sizes of tensors.
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "tessera/base/half.h"
#include "tests/llama/ggml_support.h"

#define TESSERA_GGML_REFUSED(name, reason) extern "C" void* tessera_##name();
#include "tessera/llama/ggml/refused.def"
#undef TESSERA_GGML_REFUSED

namespace tessera {
namespace {

using testing::expect_line;
using testing::GgmlLog;
using testing::make_tensor;

constexpr int32_t kGgmlF32 = 0, kGgmlF16 = 1, kGgmlQ4_0 = 2, kGgmlQ4_K = 12, kGgmlI32 = 26, kRemovedType = 4,
                  kNumberOfTypes = 43;

TEST(GgmlTypes, HaveTheNumbersNamesAndSizesOfGgml) {
  struct Row {
    int32_t type;
    const char* name;
    size_t bytes;
    int64_t elements;
    bool is_quantized;
  };
  const std::array<Row, 6> rows = {{{0, "f32", 4, 1, false},
                                    {1, "f16", 2, 1, false},
                                    {2, "q4_0", 18, 32, true},
                                    {12, "q4_K", 144, 256, true},
                                    {30, "bf16", 2, 1, false},
                                    {42, "q2_0", 18, 64, true}}};
  for (const Row& row : rows) {
    EXPECT_STREQ(tessera_ggml_type_name(row.type), row.name);
    EXPECT_EQ(tessera_ggml_type_size(row.type), row.bytes) << row.name;
    EXPECT_EQ(tessera_ggml_blck_size(row.type), row.elements) << row.name;
    EXPECT_EQ(tessera_ggml_is_quantized(row.type), row.is_quantized) << row.name;
  }
  for (const int32_t type : {kRemovedType, kNumberOfTypes, -1, std::numeric_limits<int32_t>::min()}) {
    EXPECT_STREQ(tessera_ggml_type_name(type), "NONE");
    EXPECT_EQ(tessera_ggml_type_size(type), 0);
    EXPECT_EQ(tessera_ggml_blck_size(type), 0);
    EXPECT_FALSE(tessera_ggml_is_quantized(type));
  }
}

TEST(GgmlTypes, RowsAreWholeBlocks) {
  GgmlLog log;
  EXPECT_EQ(tessera_ggml_row_size(kGgmlF32, 3), 12);
  EXPECT_EQ(tessera_ggml_row_size(kGgmlQ4_0, 64), 36);
  EXPECT_EQ(log.take(), "");
  EXPECT_EQ(tessera_ggml_row_size(kGgmlQ4_0, 33), 0);
  expect_line(log, "ggml_row_size: ");
  EXPECT_EQ(tessera_ggml_row_size(kGgmlF32, std::numeric_limits<int64_t>::max()), 0);
  expect_line(log, "ggml_row_size: ");
  EXPECT_EQ(tessera_ggml_row_size(kRemovedType, 32), 0);
  expect_line(log, "ggml_row_size: type 4 is unknown");
}

TEST(GgmlTypes, HalvesConvert) {
  EXPECT_EQ(tessera_ggml_fp32_to_fp16(1.5F), 0x3e00);
  EXPECT_EQ(tessera_ggml_fp16_to_fp32(0x3e00), 1.5F);
  EXPECT_EQ(tessera_ggml_fp32_to_bf16(1.5F).bits, 0x3fc0);
  EXPECT_EQ(tessera_ggml_bf16_to_fp32({0x3fc0}), 1.5F);
  EXPECT_TRUE(std::isnan(tessera_ggml_fp16_to_fp32(0x7e00)));
}

TEST(GgmlTypes, RowsOfHalvesConvert) {
  GgmlLog log;
  const std::array<float, 3> from = {0.1F, -2.0F, 65504.0F};
  std::array<uint16_t, 4> halves = {0, 0, 0, 7};
  std::array<ggml_bf16_t, 4> brains = {{{0}, {0}, {0}, {7}}};
  tessera_ggml_fp32_to_fp16_row(from.data(), halves.data(), 3);
  tessera_ggml_fp32_to_bf16_row(from.data(), brains.data(), 3);
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(halves[i], f32_to_f16(from[i]));
    EXPECT_EQ(brains[i].bits, f32_to_bf16(from[i]));
  }
  EXPECT_EQ(halves[3], 7);
  EXPECT_EQ(brains[3].bits, 7);
  std::array<float, 4> back = {0, 0, 0, 7};
  tessera_ggml_fp16_to_fp32_row(halves.data(), back.data(), 3);
  EXPECT_EQ(back, (std::array<float, 4>{f16_to_f32(halves[0]), -2.0F, 65504.0F, 7}));
  tessera_ggml_bf16_to_fp32_row(brains.data(), back.data(), 3);
  EXPECT_EQ(back, (std::array<float, 4>{bf16_to_f32(brains[0].bits), -2.0F, bf16_to_f32(brains[2].bits), 7}));
  EXPECT_EQ(log.take(), "");
  tessera_ggml_fp16_to_fp32_row(nullptr, back.data(), 1);
  expect_line(log, "ggml_fp16_to_fp32_row: x: is NULL");
  tessera_ggml_fp32_to_fp16_row(from.data(), nullptr, 1);
  expect_line(log, "ggml_fp32_to_fp16_row: y: is NULL");
  tessera_ggml_bf16_to_fp32_row(brains.data(), back.data(), -1);
  expect_line(log, "ggml_bf16_to_fp32_row: n: -1");
  tessera_ggml_fp32_to_bf16_row(nullptr, nullptr, 0);
  EXPECT_EQ(log.take(), "");
}

TEST(GgmlTensors, TellTheirSizes) {
  ggml_tensor matrix = make_tensor("m", kGgmlQ4_K, {512, 3});
  matrix.nb[0] = 144;
  matrix.nb[1] = 288;
  matrix.nb[2] = matrix.nb[3] = 864;
  EXPECT_EQ(tessera_ggml_n_dims(&matrix), 2);
  EXPECT_EQ(tessera_ggml_nelements(&matrix), 1536);
  EXPECT_EQ(tessera_ggml_nrows(&matrix), 3);
  EXPECT_EQ(tessera_ggml_nbytes(&matrix), 864);
  EXPECT_EQ(tessera_ggml_element_size(&matrix), 144);
  EXPECT_STREQ(tessera_ggml_get_name(&matrix), "m");
  EXPECT_EQ(tessera_ggml_get_data(&matrix), nullptr);
  int value = 0;
  matrix.data = &value;
  EXPECT_EQ(tessera_ggml_get_data(&matrix), &value);

  ggml_tensor column = make_tensor("c", kGgmlF16, {1, 5, 1, 2});  // a column of a matrix: elements with gaps
  column.nb[0] = 2;
  column.nb[1] = 20;
  column.nb[2] = column.nb[3] = 100;
  EXPECT_EQ(tessera_ggml_n_dims(&column), 4);
  EXPECT_EQ(tessera_ggml_nbytes(&column), 2 + 4 * 20 + 100);
  column.nb[0] = 6;
  column.ne[0] = 3;
  EXPECT_EQ(tessera_ggml_nbytes(&column), 2 + 2 * 6 + 4 * 20 + 100);
  EXPECT_EQ(tessera_ggml_n_dims(&(column = make_tensor("s", kGgmlI32, {}))), 1);
  column.ne[2] = 0;
  EXPECT_EQ(tessera_ggml_nbytes(&column), 0);
}

TEST(GgmlTensors, HostileNumbersAreRefused) {
  GgmlLog log;
  ggml_tensor tensor = make_tensor("t", kGgmlF32, {int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_EQ(tessera_ggml_nelements(&tensor), 0);
  expect_line(log, "ggml_nelements: tensor: more than 2^63 elements");
  tensor.ne[2] = int64_t{1} << 40;
  EXPECT_EQ(tessera_ggml_nrows(&tensor), 0);
  expect_line(log, "ggml_nrows: tensor: more than 2^63 elements");
  tensor.nb[1] = size_t{1} << 40;
  EXPECT_EQ(tessera_ggml_nbytes(&tensor), 0);
  expect_line(log, "ggml_nbytes: tensor: more than 2^64 bytes");
  tensor.type = kRemovedType;
  EXPECT_EQ(tessera_ggml_nbytes(&tensor), 0);
  expect_line(log, "ggml_nbytes: tensor: type 4 is unknown");
  EXPECT_EQ(tessera_ggml_n_dims(nullptr), 0);
  EXPECT_EQ(tessera_ggml_nelements(nullptr), 0);
  EXPECT_EQ(tessera_ggml_nrows(nullptr), 0);
  EXPECT_EQ(tessera_ggml_nbytes(nullptr), 0);
  EXPECT_EQ(tessera_ggml_element_size(nullptr), 0);
  EXPECT_EQ(log.take(),
            "ggml_n_dims: tensor: is NULL\nggml_nelements: tensor: is NULL\nggml_nrows: tensor: is NULL\n"
            "ggml_nbytes: tensor: is NULL\nggml_element_size: tensor: is NULL\n");
  EXPECT_EQ(tessera_ggml_get_name(nullptr), nullptr);
  EXPECT_EQ(tessera_ggml_get_data(nullptr), nullptr);
}

TEST(Ggml, TellsTimeVersionAndStatuses) {
  tessera_ggml_time_init();
  const int64_t us = tessera_ggml_time_us();
  const int64_t ms = tessera_ggml_time_ms();
  EXPECT_GE(ms, us / 1000);
  EXPECT_LE(ms, tessera_ggml_time_us() / 1000);
  EXPECT_STREQ(tessera_ggml_version(), "0.25.1-tessera");
  EXPECT_STREQ(tessera_ggml_commit(), "unknown");
  EXPECT_STREQ(tessera_ggml_status_to_string(-2), "out of memory");
  EXPECT_STREQ(tessera_ggml_status_to_string(-1), "failed");
  EXPECT_STREQ(tessera_ggml_status_to_string(0), "success");
  EXPECT_STREQ(tessera_ggml_status_to_string(1), "aborted");
  EXPECT_STREQ(tessera_ggml_status_to_string(2), "unknown status");
  EXPECT_EQ(tessera_ggml_tensor_overhead(), 368);
}

TEST(Ggml, TheLogIsThatOfLibllama) {
  GgmlLog log;
  ggml_log_callback ggml = nullptr, llama = nullptr;
  void *ggml_user = nullptr, *llama_user = nullptr;
  tessera_ggml_log_get(&ggml, &ggml_user);
  tessera_llama_log_get(&llama, &llama_user);
  EXPECT_EQ(ggml, llama);
  EXPECT_EQ(ggml_user, &log);
  EXPECT_EQ(llama_user, &log);
  tessera_ggml_numa_init(0);
  EXPECT_EQ(log.take(), "");
  tessera_ggml_numa_init(1);
  expect_line(log, "ignored");
  EXPECT_FALSE(tessera_ggml_is_numa());
}

TEST(GgmlDeathTest, AbortLogsThePlaceAndTheReason) {
  EXPECT_DEATH(tessera_ggml_abort("a.c", 7, "bad %s %d", "number", 3), "ggml_abort: a.c:7: bad number 3");
  EXPECT_DEATH(tessera_ggml_abort(nullptr, 7, nullptr), "ggml_abort: \\?:7: ");
}

TEST(Ggml, RefusedFunctionsLogAndReturnNull) {
  GgmlLog log;
  int n = 0;
#define TESSERA_GGML_REFUSED(name, reason)                      \
  EXPECT_EQ(tessera_##name(), nullptr);                         \
  EXPECT_EQ(log.take(), #name ": not supported: " reason "\n"); \
  ++n;
#include "tessera/llama/ggml/refused.def"
#undef TESSERA_GGML_REFUSED
  EXPECT_EQ(n, 21);
}

}  // namespace
}  // namespace tessera
