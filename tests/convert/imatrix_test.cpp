// Importance matrices: both file formats written and read back, addition, and damaged files.
#include "tessera/convert/imatrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/gguf/writer.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using testing::bytes_of;
using testing::RawGguf;

// Two weights: a plain one with 3 columns, and one with 2 experts, the second without tokens.
Imatrix small_imatrix() {
  Imatrix imatrix;
  imatrix.entries["blk.0.ffn_up.weight"] = {.sums = {1024, 2048, 0}, .counts = {1024}};
  imatrix.entries["blk.0.ffn_up_exps.weight"] = {.sums = {512, 256, 0, 0}, .counts = {512, 0}};
  imatrix.datasets = {"wiki.txt", "code.txt"};
  imatrix.n_chunks = 2;
  return imatrix;
}

void expect_equal(const Imatrix& a, const Imatrix& b) {
  EXPECT_EQ(a.datasets, b.datasets);
  EXPECT_EQ(a.n_chunks, b.n_chunks);
  EXPECT_EQ(a.chunk_size, b.chunk_size);
  ASSERT_EQ(a.entries.size(), b.entries.size());
  for (const auto& [name, entry] : a.entries) {
    ASSERT_TRUE(b.entries.contains(name)) << name;
    EXPECT_EQ(entry.sums, b.entries.at(name).sums) << name;
    EXPECT_EQ(entry.counts, b.entries.at(name).counts) << name;
  }
}

// A file in the older format built by hand: one weight "w" with these values.
std::string legacy_of(int32_t n_calls, std::initializer_list<float> values) {
  RawGguf raw;
  raw.number(int32_t{1}).number(int32_t{1}).raw("w").number(n_calls).number(static_cast<int32_t>(values.size()));
  for (const float value : values) raw.number(value);
  return raw.bytes();
}

std::string gguf_of(float sum, float count, int32_t chunk_size = 512) {
  GgufBuilder builder;
  builder.set("general.type", "imatrix");
  builder.set_array("imatrix.datasets", std::vector<std::string>{"d"});
  builder.set("imatrix.chunk_count", uint32_t{1});
  builder.set("imatrix.chunk_size", static_cast<uint32_t>(chunk_size));
  EXPECT_OK(builder.add_tensor("w.in_sum2", DType::f32, {1, 1}));
  EXPECT_OK(builder.add_tensor("w.counts", DType::f32, {1, 1}));
  const std::vector<std::span<const std::byte>> data = {std::as_bytes(std::span(&sum, 1)),
                                                        std::as_bytes(std::span(&count, 1))};
  const auto bytes = gguf_to_bytes(builder, data);
  EXPECT_OK(bytes);
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

Result<Imatrix> parse_imatrix(const std::string& text) { return Imatrix::parse(bytes_of(text), "f.dat"); }

TEST(Imatrix, GgufFormReadsBackAsWritten) {
  const Imatrix imatrix = small_imatrix();
  ASSERT_OK(imatrix.save(testing::temporary_path("a.gguf")));
  ASSERT_OK_AND_ASSIGN(const Imatrix read, Imatrix::load(testing::temporary_path("a.gguf")));
  expect_equal(imatrix, read);
}

TEST(Imatrix, GgufFormIsThatOfOtherPrograms) {
  ASSERT_OK(small_imatrix().save(testing::temporary_path("a.gguf")));
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::open(testing::temporary_path("a.gguf")));
  EXPECT_EQ(*file->metadata().get<std::string_view>("general.type"), "imatrix");
  EXPECT_EQ(file->metadata().find("imatrix.chunk_count")->type(), GgufType::u32);
  EXPECT_EQ(file->metadata().find("imatrix.chunk_size")->type(), GgufType::u32);
  EXPECT_EQ(file->metadata().find("imatrix.datasets")->size(), 2u);
  std::vector<std::string> tensors;
  for (const GgufTensor& tensor : file->tensors())
    tensors.push_back(std::string(tensor.name) + " " + to_string(tensor.shape));
  const std::string a = "blk.0.ffn_up.weight", b = "blk.0.ffn_up_exps.weight";
  EXPECT_EQ(tensors, (std::vector<std::string>{
                         a + ".in_sum2 " + to_string(Shape{3, 1}), a + ".counts " + to_string(Shape{1, 1}),
                         b + ".in_sum2 " + to_string(Shape{2, 2}), b + ".counts " + to_string(Shape{1, 2})}));
}

TEST(Imatrix, OlderFormKeepsTheMeans) {
  const Imatrix imatrix = small_imatrix();
  ASSERT_OK(imatrix.save_legacy(testing::temporary_path("a.dat")));
  ASSERT_OK_AND_ASSIGN(const Imatrix read, Imatrix::load(testing::temporary_path("a.dat")));
  EXPECT_EQ(read.n_chunks, 2u);
  EXPECT_EQ(read.datasets, std::vector<std::string>{"code.txt"});
  EXPECT_EQ(importance_of(read.entries.at("blk.0.ffn_up.weight"), 0), (std::vector<float>{1, 2, 0}));
  EXPECT_EQ(read.entries.at("blk.0.ffn_up.weight").counts, std::vector<double>{1024});
  const ImatrixEntry& experts = read.entries.at("blk.0.ffn_up_exps.weight");
  EXPECT_EQ(importance_of(experts, 0, 2), (std::vector<float>{1, 0.5f}));
  EXPECT_EQ(importance_of(experts, 1, 2), (std::vector<float>{1, 1}));  // no token: all columns have equal weight
}

TEST(Imatrix, OlderFormStatesMeansTimesCalls) {
  ASSERT_OK(small_imatrix().save_legacy(testing::temporary_path("a.dat")));
  RawGguf want;
  want.number(int32_t{2});
  want.number(int32_t{19}).raw("blk.0.ffn_up.weight").number(int32_t{2}).number(int32_t{3});
  want.number(2.0f).number(4.0f).number(0.0f);
  want.number(int32_t{24}).raw("blk.0.ffn_up_exps.weight").number(int32_t{1}).number(int32_t{4});
  want.number(1.0f).number(0.5f).number(1.0f).number(1.0f);
  want.number(int32_t{2}).number(int32_t{8}).raw("code.txt");
  EXPECT_EQ(testing::read_all(testing::temporary_path("a.dat")), want.bytes());
}

TEST(Imatrix, OlderFormWithoutCallsTakesTheValues) {
  ASSERT_OK_AND_ASSIGN(const Imatrix imatrix, parse_imatrix(legacy_of(0, {3, 5})));
  EXPECT_EQ(importance_of(imatrix.entries.at("w"), 0), (std::vector<float>{3, 5}));
}

TEST(Imatrix, OlderFormMayEndAfterTheWeights) {
  ASSERT_OK_AND_ASSIGN(const Imatrix imatrix, parse_imatrix(legacy_of(4, {8})));
  EXPECT_EQ(imatrix.n_chunks, 4u);
  EXPECT_TRUE(imatrix.datasets.empty());
  EXPECT_EQ(importance_of(imatrix.entries.at("w"), 0), std::vector<float>{2});
}

TEST(Imatrix, WeightsThatNoTokenReachedAreLeftOutOfTheOlderForm) {
  Imatrix imatrix = small_imatrix();
  imatrix.entries["blk.0.ffn_up.weight"].counts = {0};
  ASSERT_OK(imatrix.save_legacy(testing::temporary_path("a.dat")));
  ASSERT_OK_AND_ASSIGN(const Imatrix read, Imatrix::load(testing::temporary_path("a.dat")));
  EXPECT_EQ(read.entries.size(), 1u);
  imatrix.entries.erase("blk.0.ffn_up_exps.weight");
  EXPECT_ERROR(imatrix.save_legacy(testing::temporary_path("none.dat")), "no weight has seen a token");
  EXPECT_FALSE(std::filesystem::exists(testing::temporary_path("none.dat")));
}

TEST(Imatrix, AddSumsTokensAndListsTexts) {
  Imatrix imatrix = small_imatrix(), more = small_imatrix();
  more.entries["output.weight"] = {.sums = {7}, .counts = {10}};
  more.datasets = {"chat.txt"};
  ASSERT_OK(imatrix.add(more));
  EXPECT_EQ(imatrix.entries.size(), 3u);
  EXPECT_EQ(imatrix.entries.at("blk.0.ffn_up.weight").sums, (std::vector<double>{2048, 4096, 0}));
  EXPECT_EQ(imatrix.entries.at("blk.0.ffn_up.weight").counts, std::vector<double>{2048});
  EXPECT_EQ(imatrix.entries.at("blk.0.ffn_up_exps.weight").counts, (std::vector<double>{1024, 0}));
  EXPECT_EQ(imatrix.entries.at("output.weight").sums, std::vector<double>{7});
  EXPECT_EQ(imatrix.datasets, (std::vector<std::string>{"wiki.txt", "code.txt", "chat.txt"}));
  EXPECT_EQ(imatrix.n_chunks, 4u);
}

TEST(Imatrix, AddSpreadsASingleCountOverTheMatrices) {
  Imatrix one, many;
  one.entries["w"] = {.sums = {1, 2, 3, 4}, .counts = {5}};
  many.entries["w"] = {.sums = {1, 1, 1, 1}, .counts = {7, 8}};
  Imatrix a = one, b = many;
  ASSERT_OK(a.add(many));
  ASSERT_OK(b.add(one));
  for (const Imatrix* sum : {&a, &b}) {
    EXPECT_EQ(sum->entries.at("w").sums, (std::vector<double>{2, 3, 4, 5}));
    EXPECT_EQ(sum->entries.at("w").counts, (std::vector<double>{12, 13}));
  }
}

TEST(Imatrix, AddRefusesOtherSizesAndAddsNothing) {
  Imatrix imatrix = small_imatrix(), other;
  other.entries["a.weight"] = {.sums = {1}, .counts = {1}};
  other.entries["blk.0.ffn_up.weight"] = {.sums = {1, 2}, .counts = {1}};
  EXPECT_ERROR(imatrix.add(other), "weight 'blk.0.ffn_up.weight': 3 sums of 1 matrices, the other has 2 of 1");
  expect_equal(imatrix, small_imatrix());
  other.entries = {{"blk.0.ffn_up_exps.weight", {.sums = {1, 2, 3, 4}, .counts = {1, 1, 1, 1}}}};
  EXPECT_ERROR(imatrix.add(other), "4 sums of 2 matrices, the other has 4 of 4");
}

TEST(Imatrix, SaveRefusesWhatDoesNotFit) {
  Imatrix imatrix;
  imatrix.entries["w"] = {.sums = {1, 2, 3}, .counts = {1, 1}};
  EXPECT_ERROR(imatrix.save(testing::temporary_path("bad.gguf")), "weight 'w': 3 sums of 2 matrices");
  imatrix.entries["w"] = {.sums = {1e39}, .counts = {1}};
  EXPECT_ERROR(imatrix.save(testing::temporary_path("bad.gguf")), "weight 'w': 1e+39 is not a finite f32");
  imatrix.entries = {{std::string(56, 'w'), {.sums = {1}, .counts = {1}}}};
  EXPECT_ERROR(imatrix.save(testing::temporary_path("bad.gguf")), "name of 64 bytes, want 1 to 63");
  EXPECT_FALSE(std::filesystem::exists(testing::temporary_path("bad.gguf")));
}

TEST(Imatrix, EveryTruncationIsAnError) {
  ASSERT_OK(small_imatrix().save(testing::temporary_path("a.gguf")));
  ASSERT_OK(small_imatrix().save_legacy(testing::temporary_path("a.dat")));
  const std::string gguf = testing::read_all(testing::temporary_path("a.gguf")),
                    legacy = testing::read_all(testing::temporary_path("a.dat"));
  // The padding after the last tensor may be missing. The older format may end before its tail or the dataset's name.
  for (size_t n = 0; n < gguf.size() - 24; ++n) EXPECT_FALSE(parse_imatrix(gguf.substr(0, n)).has_value()) << n;
  for (size_t n = 0; n < legacy.size(); ++n)
    EXPECT_EQ(parse_imatrix(legacy.substr(0, n)).has_value(), n == legacy.size() - 16 || n == legacy.size() - 12) << n;
  EXPECT_ERROR(parse_imatrix(legacy + "x"), "1 bytes after the end");
}

TEST(Imatrix, EveryChangedByteIsHandled) {
  ASSERT_OK(small_imatrix().save(testing::temporary_path("a.gguf")));
  ASSERT_OK(small_imatrix().save_legacy(testing::temporary_path("a.dat")));
  for (const char* name : {"a.gguf", "a.dat"}) {
    const std::string good = testing::read_all(testing::temporary_path(name));
    for (size_t i = 0; i < good.size(); ++i) {
      for (const char value : {'\x00', '\x7f', '\x80', '\xff'}) {
        std::string bad = good;
        bad[i] = value;
        const auto imatrix = parse_imatrix(bad);
        if (!imatrix) continue;
        for (const auto& [weight, entry] : imatrix->entries)
          for (size_t m = 0; m < entry.n_matrices(); ++m)
            for (const float q : importance_of(entry, m)) ASSERT_TRUE(std::isfinite(q) && q >= 0) << name << " " << i;
      }
    }
  }
}

TEST(Imatrix, HugeLengthsOfTheOlderFormAreRefused) {
  const auto entry = [](int32_t n_entries, int32_t n_name, int32_t n_calls, int32_t n_values) {
    RawGguf raw;
    raw.number(n_entries).number(n_name).raw("w").number(n_calls).number(n_values).number(1.0f);
    return raw.bytes();
  };
  ASSERT_OK(parse_imatrix(entry(1, 1, 1, 1)));
  for (const int32_t n : {INT32_MAX, INT32_MIN, -1, 0, 2})
    EXPECT_ERROR(parse_imatrix(entry(n, 1, 1, 1)), "offset 0: number of weights, got " + std::to_string(n));
  for (const int32_t n : {INT32_MAX, INT32_MIN, -1, 0, 64})
    EXPECT_ERROR(parse_imatrix(entry(1, n, 1, 1)), "offset 4: bytes of a weight's name, got " + std::to_string(n));
  for (const int32_t n : {INT32_MIN, -1}) EXPECT_ERROR(parse_imatrix(entry(1, 1, n, 1)), "number of calls");
  for (const int32_t n : {INT32_MIN, -1, 0}) EXPECT_ERROR(parse_imatrix(entry(1, 1, 1, n)), "number of values");
  EXPECT_ERROR(parse_imatrix(entry(1, 1, 1, INT32_MAX)), "f.dat: weight 1 of 1: truncated");
}

TEST(Imatrix, ValuesThatAreNoSumsAreRefused) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  ASSERT_OK(parse_imatrix(gguf_of(1, 1)));
  for (const float bad : {kInf, kNan, -1.0f, -kInf}) {
    EXPECT_ERROR(parse_imatrix(legacy_of(1, {1, bad})), "weight 'w': value 1 is ");
    EXPECT_ERROR(parse_imatrix(gguf_of(bad, 1)), "tensor 'w.in_sum2': value 0 is ");
    EXPECT_ERROR(parse_imatrix(gguf_of(1, bad)), "tensor 'w.counts': value 0 is ");
  }
  EXPECT_ERROR(parse_imatrix(gguf_of(1, 1, 0)), "key 'imatrix.chunk_size' is 0");
}

TEST(Imatrix, CountsAreWholeTokens) {
  ASSERT_OK_AND_ASSIGN(const Imatrix imatrix, parse_imatrix(gguf_of(6, 2.6f)));
  EXPECT_EQ(imatrix.entries.at("w").counts, std::vector<double>{3});
}

TEST(Imatrix, WeightsThatOccurTwiceAreRefused) {
  RawGguf raw;
  raw.number(int32_t{2});
  for (int i = 0; i < 2; ++i) raw.number(int32_t{1}).raw("w").number(int32_t{1}).number(int32_t{1}).number(1.0f);
  EXPECT_ERROR(parse_imatrix(raw.bytes()), "weight 2 of 2: weight 'w' occurs twice");
}

TEST(Imatrix, OtherGgufFilesAreRefused) {
  EXPECT_ERROR(parse_imatrix(testing::small_gguf()), "f.dat: not an importance matrix: general.type is ''");
  for (const char* key : {"imatrix.datasets", "imatrix.chunk_count", "imatrix.chunk_size"}) {
    GgufBuilder builder;
    builder.set("general.type", "imatrix");
    builder.set_array("imatrix.datasets", std::vector<std::string>{"d"});
    builder.set("imatrix.chunk_count", uint32_t{1});
    builder.set("imatrix.chunk_size", uint32_t{1});
    const auto without_weights = gguf_to_bytes(builder, {});
    ASSERT_OK(without_weights);
    EXPECT_ERROR(Imatrix::parse(*without_weights, "f"), "holds no weight's sums");
    builder.remove(key);
    const auto bytes = gguf_to_bytes(builder, {});
    ASSERT_OK(bytes);
    EXPECT_ERROR(Imatrix::parse(*bytes, "f"), std::string("key '") + key + "': missing");
  }
}

TEST(Imatrix, SumsAndCountsMustFit) {
  const auto with = [](const Shape& sums, const Shape& counts, std::string_view counts_name, DType dtype) {
    GgufBuilder builder;
    builder.set("general.type", "imatrix");
    builder.set_array("imatrix.datasets", std::vector<std::string>{});
    builder.set("imatrix.chunk_count", uint32_t{1});
    builder.set("imatrix.chunk_size", uint32_t{1});
    EXPECT_OK(builder.add_tensor("w.in_sum2", dtype, sums));
    EXPECT_OK(builder.add_tensor(counts_name, DType::f32, counts));
    std::vector<std::vector<std::byte>> zeros;
    for (const auto& tensor : builder.tensors()) zeros.emplace_back(tensor.n_bytes);
    const std::vector<std::span<const std::byte>> data(zeros.begin(), zeros.end());
    const auto bytes = gguf_to_bytes(builder, data);
    EXPECT_OK(bytes);
    return Imatrix::parse(*bytes, "f");
  };
  EXPECT_OK(with({4, 2}, {1, 2}, "w.counts", DType::f32));
  EXPECT_ERROR(with({4, 2}, {1, 3}, "w.counts", DType::f32), "tensor 'w.in_sum2': shape");
  EXPECT_ERROR(with({4, 2}, {1, 2}, "v.counts", DType::f32), "no tensor 'w.counts'");
  EXPECT_ERROR(with({4, 2}, {1, 2}, "w.counts", DType::f16), "tensor 'w.in_sum2': type f16, want f32");
}

TEST(Imatrix, ErrorsNameTheFile) {
  EXPECT_ERROR(Imatrix::load(testing::temporary_path("absent.dat")),
               testing::temporary_path("absent.dat") + ": cannot open");
  EXPECT_ERROR(Imatrix::load(testing::write_temporary("empty.dat", "")),
               testing::temporary_path("empty.dat") + ": truncated");
}

}  // namespace
}  // namespace tessera::convert
