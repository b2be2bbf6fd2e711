// Quantization of a model file: values, metadata, parts, equal bytes for any number of threads, and errors.
#include "tessera/convert/quantize.h"

#include <cmath>
#include <filesystem>
#include <limits>

#include "tests/convert/quantize_support.h"

namespace tessera::convert {
namespace {

using testing::count_files_like;
using testing::quantize_file;
using testing::SmallFile;

QuantizeOptions options_for(FileType type) {
  QuantizeOptions options;
  options.mix.file_type = type;
  options.program_version = "9.9";
  return options;
}

SmallFile small_model() {
  SmallFile model;
  model.add("token_embd.weight", {256, 96});
  model.add("output.weight", {256, 96});
  model.add("output_norm.weight", {256});
  model.add("blk.0.attn_q.weight", {256, 64});
  model.add("blk.0.ffn_down_exps.weight", {256, 64, 3});
  return model;
}

TEST(Quantize, RowsAreWhatTheEncoderMakesOfThem) {
  const SmallFile model = small_model();
  const std::string in = model.write("values.gguf"), out = testing::temporary_path("values-out.gguf");
  ASSERT_OK(quantize_file(in, out, options_for(FileType::q8_0)));
  const auto file = GgufFile::open(out);
  ASSERT_OK(file);
  const GgufTensor* tensor = (*file)->find_tensor("blk.0.ffn_down_exps.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->dtype, DType::q8_0);
  EXPECT_EQ(tensor->shape, Shape({256, 64, 3}));
  const quant::Format* q8_0 = find_encoder(DType::q8_0, {});
  const std::vector<float>& values = model.data[4];
  std::vector<std::byte> want(tensor->n_bytes);
  for (size_t row = 0; row < 64 * 3; ++row)
    q8_0->quantize_row(values.data() + row * 256, nullptr, 256, want.data() + row * (256 / 32 * 34));
  EXPECT_TRUE(std::ranges::equal((*file)->data(*tensor), want));
  const GgufTensor* norm = (*file)->find_tensor("output_norm.weight");
  EXPECT_EQ(norm->dtype, DType::f32);
  EXPECT_TRUE(std::ranges::equal((*file)->data(*norm), std::as_bytes(std::span(model.data[2]))));
}

// More values than one batch between two writes, in rows that do not divide the pieces evenly.
TEST(Quantize, SameBytesForAnyNumberOfThreads) {
  SmallFile model = small_model();
  model.add("blk.1.ffn_up.weight", {320, 15001});
  const std::string in = model.write("threads.gguf");
  for (const FileType type : {FileType::q8_0, FileType::q4_0, FileType::q5_1}) {
    if (!testing::runs_all_cases() && type != FileType::q8_0) continue;
    std::string first;
    for (const int n_threads : {1, 2, 3}) {
      const std::string out = testing::temporary_path("threads-out.gguf");
      ASSERT_OK(quantize_file(in, out, options_for(type), n_threads));
      const std::string bytes = testing::read_all(out);
      if (first.empty()) first = bytes;
      EXPECT_TRUE(bytes == first) << info(type).name << " with " << n_threads << " threads";
    }
  }
}

TEST(Quantize, KeysAreCopiedAndAdded) {
  SmallFile model = small_model();
  model.builder.set("general.file_type", uint32_t{0});
  model.builder.set("split.no", uint16_t{0});
  model.builder.set("split.count", uint16_t{0});
  model.builder.set("split.tensors.count", int32_t{5});
  model.builder.set_array("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  const std::string in = model.write("keys.gguf"), out = testing::temporary_path("keys-out.gguf");
  Imatrix imatrix;
  imatrix.datasets = {std::string(200, 'd'), "other"};
  imatrix.n_chunks = 7;
  imatrix.entries["blk.0.attn_q.weight"] = {std::vector<double>(256, 2.0), {4.0}};
  QuantizeOptions options = options_for(FileType::q4_k_s);
  options.imatrix = &imatrix;
  options.imatrix_path = "some/imatrix.gguf";
  ASSERT_OK(quantize_file(in, out, options));
  const auto file = GgufFile::open(out);
  ASSERT_OK(file);
  const Metadata& keys = (*file)->metadata();
  EXPECT_EQ(*keys.get<uint32_t>("general.file_type"), 14u);
  EXPECT_EQ(*keys.get<uint32_t>("general.quantization_version"), 2u);
  EXPECT_EQ(*keys.get<std::string_view>("quantize.tessera.version"), "9.9");
  EXPECT_EQ(*keys.get<std::string_view>("quantize.imatrix.file"), "some/imatrix.gguf");
  EXPECT_EQ(*keys.get<std::string_view>("quantize.imatrix.dataset"), std::string(127, 'd'));
  EXPECT_EQ(*keys.get<uint32_t>("quantize.imatrix.entries_count"), 1u);
  EXPECT_EQ(*keys.get<uint32_t>("quantize.imatrix.chunks_count"), 7u);
  EXPECT_EQ(*keys.get<std::string_view>("general.architecture"), "llama");
  EXPECT_EQ(keys.find("tokenizer.ggml.tokens")->size(), 2u);
  for (const char* key : {"split.no", "split.count", "split.tensors.count"}) EXPECT_EQ(keys.find(key), nullptr) << key;
}

TEST(Quantize, TensorsAreOrderedByLayerThenName) {
  SmallFile model;
  for (const char* name : {"blk.10.b.weight", "blk.2.b.weight", "output.weight", "blk.2.a.weight"})
    model.add(name, {32, 2});
  const std::string in = model.write("order.gguf"), out = testing::temporary_path("order-out.gguf");
  ASSERT_OK(quantize_file(in, out, options_for(FileType::q8_0)));
  const auto file = GgufFile::open(out);
  ASSERT_OK(file);
  std::vector<std::string> names;
  for (const GgufTensor& tensor : (*file)->tensors()) names.emplace_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"output.weight", "blk.2.a.weight", "blk.2.b.weight", "blk.10.b.weight"}));
}

TEST(Quantize, SizeIsKnownBefore) {
  const std::string in = small_model().write("size.gguf"), out = testing::temporary_path("size-out.gguf");
  for (const FileTypeInfo& row : all_file_types()) {
    const QuantizeOptions options = options_for(row.type);
    const auto files = ModelFiles::open(in);
    ASSERT_OK(files);
    const auto plan = plan_quantize(**files, options);
    ASSERT_OK(plan);
    const auto n_bytes = output_bytes(**files, *plan, options);
    ASSERT_OK(n_bytes);
    ASSERT_OK(quantize_file(in, out, options));
    EXPECT_EQ(std::filesystem::file_size(out), *n_bytes) << row.name;
  }
}

class Parts : public ::testing::Test {
 protected:
  void SetUp() override {
    prefix_ = testing::temporary_path("parts");
    for (uint32_t i = 0; i < 2; ++i) {
      SmallFile part;
      if (i == 0) part.builder.set("general.name", "both");
      part.builder.set("split.no", static_cast<uint16_t>(i));
      part.builder.set("split.count", uint16_t{2});
      part.builder.set("split.tensors.count", int32_t{3});
      if (i == 0) part.add("blk.1.x.weight", {32, 4});
      if (i == 0) part.add("blk.0.x.weight", {32, 4});
      if (i == 1) part.add("output.weight", {32, 4});
      part.write(std::filesystem::path(split_path(prefix_, i, 2)).filename());
    }
  }
  std::string prefix_;
};

TEST_F(Parts, BecomeOneFile) {
  const std::string out = testing::temporary_path("joined.gguf");
  ASSERT_OK(quantize_file(split_path(prefix_, 0, 2), out, options_for(FileType::q4_0)));
  const auto file = GgufFile::open(out);
  ASSERT_OK(file);
  EXPECT_EQ((*file)->tensors().size(), 3u);
  EXPECT_EQ((*file)->tensors()[0].name, "output.weight");
  EXPECT_EQ((*file)->metadata().find("split.count"), nullptr);
}

TEST_F(Parts, AreKeptOnRequest) {
  QuantizeOptions options = options_for(FileType::q4_0);
  options.keep_split = true;
  ASSERT_OK(quantize_file(split_path(prefix_, 0, 2), testing::temporary_path("kept.gguf"), options));
  const auto files = ModelFiles::open(split_path(testing::temporary_path("kept"), 0, 2));
  ASSERT_OK(files);
  ASSERT_EQ((*files)->tensors().size(), 3u);
  EXPECT_EQ((*files)->tensors()[0].info.name, "blk.1.x.weight");
  EXPECT_EQ((*files)->tensors()[0].info.dtype, DType::q4_0);
  EXPECT_EQ((*files)->tensors()[2].file, 1u);
  EXPECT_EQ(*(*files)->metadata().get<uint32_t>("general.file_type"), 2u);
  EXPECT_EQ((*files)->files()[1]->metadata().find("general.file_type"), nullptr);
  const auto plan = plan_quantize(**files, options);
  ASSERT_OK(plan);
  EXPECT_EQ(output_paths(*plan, "a/b-00001-of-00007.gguf"),
            (std::vector<std::string>{"a/b-00001-of-00002.gguf", "a/b-00002-of-00002.gguf"}));
  EXPECT_EQ(output_paths(*plan, "model")[1], "model-00002-of-00002.gguf");
}

TEST(Quantize, NonFiniteSourceIsNamedAndNothingIsLeft) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    SmallFile model = small_model();
    model.data[4][5000] = bad;
    model.data[4][5001] = bad;
    model.data[4][20000] = bad;  // other threads may encode these rows first
    model.data[4][40000] = bad;
    const std::string in = model.write("bad.gguf"), out = testing::temporary_path("nonfinite-out.gguf");
    EXPECT_ERROR(quantize_file(in, out, options_for(FileType::q4_0), 3),
                 "tensor 'blk.0.ffn_down_exps.weight': element 5000 is ");
    EXPECT_EQ(count_files_like(out), 0u);
  }
  SmallFile norm = small_model();
  norm.data[2][3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_ERROR(
      quantize_file(norm.write("bad.gguf"), testing::temporary_path("nonfinite-out.gguf"), options_for(FileType::q4_0)),
      "tensor 'output_norm.weight': element 3 is nan, want a finite number");
}

TEST(Quantize, ValuesThatF16CannotHoldAreNamed) {
  SmallFile model = small_model();
  model.data[3][300] = 1e6f;
  EXPECT_ERROR(
      quantize_file(model.write("large.gguf"), testing::temporary_path("large-out.gguf"), options_for(FileType::f16)),
      "tensor 'blk.0.attn_q.weight': element 300 is 1000000, which passes the range of f16");
}

TEST(Quantize, OutputIsNotTheInput) {
  const std::string in = small_model().write("same.gguf"), before = testing::read_all(in);
  const std::string hard = testing::temporary_path("same-hard.gguf"), soft = testing::temporary_path("same-soft.gguf");
  std::filesystem::create_hard_link(in, hard);
  std::filesystem::create_symlink(in, soft);
  for (const std::string& out : {in, hard, soft, testing::temporary_dir().string() + "/./same.gguf"})
    EXPECT_ERROR(quantize_file(in, out, options_for(FileType::q4_0)), "is the input");
  EXPECT_EQ(testing::read_all(in), before);
}

TEST(Quantize, QuantizedSourcesAreDecodedFirst) {
  const std::string in = small_model().write("again.gguf"), q8 = testing::temporary_path("again-q8.gguf"),
                    q4 = testing::temporary_path("again-q4.gguf");
  ASSERT_OK(quantize_file(in, q8, options_for(FileType::q8_0)));
  ASSERT_OK(quantize_file(q8, q4, options_for(FileType::q4_0)));
  const auto files = ModelFiles::open(q8);
  ASSERT_OK(files);
  const auto again = plan_quantize(**files, options_for(FileType::q4_0)),
             copied = plan_quantize(**files, options_for(FileType::q8_0));
  ASSERT_OK(again);
  ASSERT_OK(copied);
  ASSERT_EQ(warnings_of(*again, options_for(FileType::q4_0)).size(), 1u);
  EXPECT_TRUE(warnings_of(*again, options_for(FileType::q4_0))[0].starts_with("4 tensors quantized before"));
  EXPECT_TRUE(warnings_of(*copied, options_for(FileType::q8_0)).empty());
  EXPECT_EQ((*GgufFile::open(q4))->find_tensor("blk.0.attn_q.weight")->dtype, DType::q4_0);
}

TEST(Quantize, ImatrixOfAnotherModelIsRefused) {
  const std::string in = small_model().write("matrix.gguf"), out = testing::temporary_path("matrix-out.gguf");
  Imatrix imatrix;
  QuantizeOptions options = options_for(FileType::q4_0);
  options.imatrix = &imatrix;
  options.imatrix_path = "other.gguf";
  imatrix.entries["blk.0.attn_q.weight"] = {std::vector<double>(128, 1.0), {1.0}};
  EXPECT_ERROR(quantize_file(in, out, options),
               "other.gguf: tensor 'blk.0.attn_q.weight': the importance matrix has 128 columns for it, want 256");
  imatrix.entries.clear();
  imatrix.entries["blk.0.nothing.weight"] = {std::vector<double>(256, 1.0), {1.0}};
  EXPECT_ERROR(quantize_file(in, out, options), "none of the 1 weights in the importance matrix is in the model");
  EXPECT_FALSE(std::filesystem::exists(out));
  imatrix.entries["token_embd.weight"] = {std::vector<double>(128, 1.0), {1.0}};  // not used
  EXPECT_OK(quantize_file(in, out, options));
}

TEST(Quantize, ImatrixChangesCodesWhereItHasEntries) {
  const std::string in = small_model().write("codes.gguf"), plain = testing::temporary_path("codes-plain.gguf"),
                    weighted = testing::temporary_path("codes-weighted.gguf");
  Imatrix imatrix;
  auto& entry = imatrix.entries["blk.0.attn_q.weight"];
  entry.counts = {1.0};
  for (int i = 0; i < 256; ++i) entry.sums.push_back(i % 7 == 0 ? 100.0 : 1.0);
  QuantizeOptions options = options_for(FileType::q4_1);
  ASSERT_OK(quantize_file(in, plain, options));
  options.imatrix = &imatrix;
  ASSERT_OK(quantize_file(in, weighted, options));
  const auto a = GgufFile::open(plain), b = GgufFile::open(weighted);
  ASSERT_OK(a);
  ASSERT_OK(b);
  const auto is_same = [&](const char* name) {
    return std::ranges::equal((*a)->data(*(*a)->find_tensor(name)), (*b)->data(*(*b)->find_tensor(name)));
  };
  EXPECT_FALSE(is_same("blk.0.attn_q.weight"));
  EXPECT_TRUE(is_same("blk.0.ffn_down_exps.weight"));
  const auto files = ModelFiles::open(in);
  ASSERT_OK(files);
  const auto plan = plan_quantize(**files, options);
  ASSERT_OK(plan);
  const auto warnings = warnings_of(*plan, options);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("3 tensors without an entry in the importance matrix")) << warnings[0];
}

// A tensor that is encoded in two batches: the second begins inside the last expert.
TEST(Quantize, EachExpertIsEncodedWithItsOwnImportance) {
  constexpr size_t kRows = 8200, kRowBytes = 256 / 32 * 20;
  SmallFile model;
  model.add("blk.0.ffn_up_exps.weight", {256, kRows, 3});
  const std::string in = model.write("experts.gguf"), out = testing::temporary_path("experts-out.gguf");
  Imatrix imatrix;
  ImatrixEntry& entry = imatrix.entries["blk.0.ffn_up_exps.weight"];
  entry.counts = {1.0, 1.0, 1.0};
  for (size_t i = 0; i < 3 * 256; ++i) entry.sums.push_back(i % (3 + i / 256) == 0 ? 100.0 : 1.0);
  QuantizeOptions options = options_for(FileType::q4_1);
  options.imatrix = &imatrix;
  ASSERT_OK(quantize_file(in, out, options));
  const auto file = GgufFile::open(out);
  ASSERT_OK(file);
  const auto bytes = (*file)->data((*file)->tensors()[0]);
  const auto importance = TensorImportance::of(entry, "w", {256, kRows, 3});
  ASSERT_OK(importance);
  const quant::Format* q4_1 = find_encoder(DType::q4_1, {});
  std::vector<std::byte> want(kRowBytes);
  for (const size_t row : {size_t{0}, kRows - 1, kRows, 2 * kRows - 1, 2 * kRows, 3 * kRows - 1}) {
    const size_t expert = row / kRows;
    q4_1->quantize_row(model.data[0].data() + row * 256,
                       importance->weights(static_cast<int64_t>(expert * kRows)).data(), 256, want.data());
    EXPECT_TRUE(std::ranges::equal(bytes.subspan(row * kRowBytes, kRowBytes), want)) << row;
  }
}

TEST(Quantize, TypesThatWantAnImatrixWarn) {
  const std::string in = small_model().write("wants.gguf");
  const auto files = ModelFiles::open(in);
  ASSERT_OK(files);
  const QuantizeOptions options = options_for(FileType::iq2_xxs);
  const auto plan = plan_quantize(**files, options);
  ASSERT_OK(plan);
  const auto warnings = warnings_of(*plan, options);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("2 tensors of types that are poor without")) << warnings[0];
}

TEST(Quantize, EncodersAndWeightingsDiffer) {
  const std::string in = small_model().write("kinds.gguf"), out = testing::temporary_path("kinds-out.gguf");
  QuantizeOptions options = options_for(FileType::q4_1);
  ASSERT_OK(quantize_file(in, out, options));
  const std::string search = testing::read_all(out);
  options.encoder.weighting = Weighting::magnitude;
  ASSERT_OK(quantize_file(in, out, options));
  EXPECT_NE(testing::read_all(out), search);
  options.encoder.kind = EncoderKind::compatible;
  ASSERT_OK(quantize_file(in, out, options));
  const std::string compatible = testing::read_all(out);
  EXPECT_NE(compatible, search);
  options.encoder.weighting = Weighting::error;  // for the search only
  ASSERT_OK(quantize_file(in, out, options));
  EXPECT_EQ(testing::read_all(out), compatible);
}

TEST(Quantize, StopsOnRequestAndLeavesNothing) {
  const std::string in = small_model().write("stop.gguf"), out = testing::temporary_path("cancelled.gguf");
  const auto files = ModelFiles::open(in);
  ASSERT_OK(files);
  const QuantizeOptions options = options_for(FileType::q4_0);
  const auto plan = plan_quantize(**files, options);
  const auto threads = ThreadPool::create({.n_threads = 2});
  ASSERT_OK(plan);
  ASSERT_OK(threads);
  CancelToken cancel;
  const auto progress = [&](float) {  // after the first tensor
    cancel.cancel();
    return true;
  };
  const auto stopped = write_quantized(**files, *plan, options, out, {**threads, &cancel, progress});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
  EXPECT_EQ(count_files_like(out), 0u);
  int n_calls = 0;
  const auto stops = [&](float) { return ++n_calls < 1; };
  const auto stopped_by_progress = write_quantized(**files, *plan, options, out, {**threads, nullptr, stops});
  ASSERT_FALSE(stopped_by_progress);
  EXPECT_EQ(stopped_by_progress.error().code(), ErrorCode::cancelled);
  EXPECT_EQ(n_calls, 1);
  EXPECT_EQ(count_files_like(out), 0u);
}

TEST(Importance, EachExpertHasItsSlice) {
  ImatrixEntry entry;
  entry.counts = {2.0, 0.0, 1.0};
  entry.sums = {2, 6, 0, 0, 0, 5};
  const auto importance = TensorImportance::of(entry, "blk.0.ffn_up_exps.weight", {2, 4, 3});
  ASSERT_OK(importance);
  const auto is = [](std::span<const float> got, float a, float b) { return got[0] == a && got[1] == b; };
  EXPECT_TRUE(is(importance->row(0), 1, 3));
  EXPECT_TRUE(is(importance->row(3), 1, 3));
  EXPECT_TRUE(is(importance->row(4), 1, 1));  // an expert without tokens
  EXPECT_TRUE(is(importance->row(8), 0, 5));
  EXPECT_TRUE(is(importance->weights(0), 0.5f, 1.5f));
  EXPECT_TRUE(is(importance->weights(4), 1, 1));
  EXPECT_TRUE(is(importance->weights(11), 0.01f, 2));  // the floor
}

TEST(Importance, OneCountForAllMatrices) {
  const ImatrixEntry entry{{1, 3, 0, 0}, {1.0}};
  const auto importance = TensorImportance::of(entry, "w", {2, 5, 2});
  ASSERT_OK(importance);
  EXPECT_EQ(importance->weights(0)[1], 1.5f);
  EXPECT_EQ(importance->weights(5)[0], 1.0f);  // all zero: no information
}

TEST(Importance, FilterKeepsOrDropsByName) {
  Imatrix imatrix;
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.ffn_up.weight", "blk.1.ffn_up.weight"})
    imatrix.entries[name] = {};
  Imatrix kept = imatrix;
  apply({.include = {"attn", "blk.1"}, .exclude = {}}, kept);
  EXPECT_EQ(kept.entries.size(), 2u);
  EXPECT_FALSE(kept.entries.contains("blk.0.ffn_up.weight"));
  apply({.include = {}, .exclude = {"ffn"}}, imatrix);
  EXPECT_EQ(imatrix.entries.size(), 1u);
}

}  // namespace
}  // namespace tessera::convert
