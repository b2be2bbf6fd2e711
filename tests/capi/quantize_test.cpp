// Files that are quantized by tessera.h: the same bytes as those of the command, and nothing where a call fails.
#include <limits>

#include "tests/capi/files_support.h"

namespace tessera {
namespace {

using namespace testing;

tessera_quantize_options options_of(const char* type) {
  auto options = made(tessera_quantize_options_init);
  options.type = type;
  return options;
}

class CapiQuantize : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(::testing::UnitTest::GetInstance()->current_test_info()->name());
    model_ = story_model();
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  tessera_status quantize(const tessera_quantize_options& options, const std::string& output,
                          tessera_error* error = nullptr, tessera_written_info* info = nullptr) const {
    return tessera_quantize(runtime_.get(), model_.c_str(), output.c_str(), &options, nullptr, nullptr, nullptr, info,
                            error);
  }
  /// Compares the file of a call with that of the command.
  void expect_same(const tessera_quantize_options& options, std::vector<std::string> arguments,
                   const std::vector<std::string>& flags = {}) const {
    EXPECT_SUCCESS(quantize(options, path("ours.gguf"), error));
    arguments.insert(arguments.begin(), {"quantize", model_, path("theirs.gguf")});
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const auto output = run_program(arguments);
    ASSERT_EQ(output.status, 0) << output.err;
    EXPECT_TRUE(read_all(path("ours.gguf")) == read_all(path("theirs.gguf")));
    EXPECT_NE(read_all(path("ours.gguf")), read_all(model_));
    EXPECT_EQ(names_in(folder_), (std::vector<std::string>{"ours.gguf", "theirs.gguf"}));
  }
  void expect_refused(const tessera_quantize_options& options, const std::string& text,
                      tessera_status status = TESSERA_INVALID_ARGUMENT) const {
    EXPECT_STATUS(quantize(options, path("out.gguf"), error), status, text);
    EXPECT_TRUE(names_in(folder_).empty());
  }

  RuntimeHandle runtime_ = create_runtime_handle();
  std::string folder_, model_;
};

TEST_F(CapiQuantize, BytesAreThoseOfTheCommand) {
  expect_same(options_of("Q8_0"), {"Q8_0"});
  auto threads = options_of("q4_k_m");
  threads.n_threads = 1;
  expect_same(threads, {"Q4_K_M"});
}

TEST_F(CapiQuantize, EveryOptionIsThatOfTheCommand) {
  auto rules = options_of("Q8_0");
  rules.tensor_types = "attn_v=f16\n\nblk.[01].ffn=q5_0\n";
  rules.output_type = "q6_K";
  rules.embedding_type = "Q4_0";
  expect_same(rules, {"Q8_0"},
              {"-tt", "attn_v=f16", "-tt", "blk.[01].ffn=q5_0", "--output-tensor-type", "q6_k",
               "--token-embedding-type", "q4_0"});
  auto pure = options_of("Q4_0");
  pure.flags = TESSERA_QUANTIZE_PURE | TESSERA_QUANTIZE_KEEP_OUTPUT;
  expect_same(pure, {"Q4_0"}, {"--pure", "--leave-output-tensor"});
  auto compatible = options_of("Q5_1");
  compatible.flags = TESSERA_QUANTIZE_COMPATIBLE;
  expect_same(compatible, {"Q5_1"}, {"--compat"});
  auto magnitude = options_of("Q4_1");
  magnitude.flags = TESSERA_QUANTIZE_MAGNITUDE;
  expect_same(magnitude, {"Q4_1"}, {"--weighting", "magnitude"});
}

TEST_F(CapiQuantize, SizesFindTheTypes) {
  auto bytes = made(tessera_quantize_options_init);
  bytes.max_bytes = 400'000;
  expect_same(bytes, {}, {"--size", "400000"});
  EXPECT_LE(std::filesystem::file_size(path("ours.gguf")), 400'000u);
  auto bits = options_of("Q4_0");
  bits.bits_per_value = 9.5f;
  expect_same(bits, {"Q4_0"}, {"--size", "9.5bpw"});
  bits.flags = TESSERA_QUANTIZE_PLAN;
  auto info = sized<tessera_written_info>();
  Shares shares;
  EXPECT_SUCCESS(
      tessera_quantize(runtime_.get(), model_.c_str(), nullptr, &bits, Shares::note, &shares, nullptr, &info, error));
  EXPECT_EQ(info.n_bytes, std::filesystem::file_size(path("ours.gguf")));
  EXPECT_TRUE(shares.is_complete());
  shares.values.clear();
  bits.flags = 0;
  EXPECT_SUCCESS(tessera_quantize(runtime_.get(), model_.c_str(), path("ours.gguf").c_str(), &bits, Shares::note,
                                  &shares, nullptr, nullptr, error));
  EXPECT_TRUE(shares.is_complete());
  EXPECT_NE(std::ranges::find(shares.values, 0.5f), shares.values.end());  // what is measured, and what is written
  bits.bits_per_value = 0.5f;
  EXPECT_STATUS(quantize(bits, path("out.gguf"), error), TESSERA_LIMIT, "");
  EXPECT_FALSE(std::filesystem::exists(path("out.gguf")));
}

TEST_F(CapiQuantize, ImportanceIsThatOfAFile) {
  const std::string imatrix = temporary_path("quantize.imatrix.gguf");
  const auto collected =
      run_program({"imatrix", "-m", model_, "-f", story_text(), "-c", "32", "--chunks", "3", "-o", imatrix});
  ASSERT_EQ(collected.status, 0) << collected.err;
  auto options = options_of("Q4_0");
  options.imatrix = imatrix.c_str();
  expect_same(options, {"Q4_0"}, {"--imatrix", imatrix});
  const std::string all = read_all(path("ours.gguf"));
  options.importance = "attn_q,attn_k";
  expect_same(options, {"Q4_0"}, {"--imatrix", imatrix, "--include-weights", "attn_q", "--include-weights", "attn_k"});
  EXPECT_NE(read_all(path("ours.gguf")), all);
  options.importance = nullptr;
  options.unimportant = "ffn";
  expect_same(options, {"Q4_0"}, {"--imatrix", imatrix, "--exclude-weights", "ffn"});
  options.importance = "attn";
  EXPECT_STATUS(quantize(options, path("out.gguf"), error), TESSERA_INVALID_ARGUMENT,
                "importance and unimportant: set one of them");
}

TEST_F(CapiQuantize, PlansAndCopies) {
  auto plan = options_of("Q8_0");
  plan.flags = TESSERA_QUANTIZE_PLAN;
  auto info = sized<tessera_written_info>();
  EXPECT_SUCCESS(
      tessera_quantize(runtime_.get(), model_.c_str(), nullptr, &plan, nullptr, nullptr, nullptr, &info, error));
  EXPECT_TRUE(names_in(folder_).empty());
  auto written = sized<tessera_written_info>();
  EXPECT_SUCCESS(quantize(options_of("Q8_0"), path("out.gguf"), error, &written));
  for (const tessera_written_info& of : {info, written}) {
    EXPECT_EQ(of.n_files, 1u);
    EXPECT_EQ(of.n_tensors, 48u);
    EXPECT_EQ(of.n_values, 292'800u);
    EXPECT_EQ(of.n_bytes_before, std::filesystem::file_size(model_));
    EXPECT_EQ(of.n_bytes, std::filesystem::file_size(path("out.gguf")));
    EXPECT_EQ(std::string(of.type), "Q8_0");
  }
  std::filesystem::remove(path("out.gguf"));
  EXPECT_SUCCESS(quantize(options_of("COPY"), path("copy.gguf"), error, &written));
  EXPECT_EQ(std::string(written.type), "F32");
  ASSERT_EQ(run_program({"quantize", model_, path("theirs.gguf"), "COPY"}).status, 0);
  EXPECT_TRUE(read_all(path("copy.gguf")) == read_all(path("theirs.gguf")));
}

TEST_F(CapiQuantize, StopsWithoutAFile) {
  const auto options = options_of("Q8_0");
  Shares shares{.values = {}, .stop_at = 2};
  EXPECT_STATUS(tessera_quantize(runtime_.get(), model_.c_str(), path("out.gguf").c_str(), &options, Shares::note,
                                 &shares, nullptr, nullptr, error),
                TESSERA_CANCELLED, "");
  EXPECT_EQ(shares.values.size(), 2u);
  EXPECT_TRUE(names_in(folder_).empty());
  const CancelHandle cancel = create_cancel_handle(true);
  for (const float bits : {0.0f, 9.0f}) {
    auto sized_options = options;
    sized_options.bits_per_value = bits;
    EXPECT_STATUS(tessera_quantize(runtime_.get(), model_.c_str(), path("out.gguf").c_str(), &sized_options, nullptr,
                                   nullptr, cancel.get(), nullptr, error),
                  TESSERA_CANCELLED, "");
    EXPECT_TRUE(names_in(folder_).empty());
  }
}

TEST_F(CapiQuantize, RefusesWrongOptions) {
  expect_refused(options_of(nullptr), "type: is NULL: set type, max_bytes or bits_per_value");
  expect_refused(options_of("Q9"), "type: 'Q9' is not a type of files, such as Q4_K_M or COPY");
  auto options = options_of("Q8_0");
  options.flags = 64;
  expect_refused(options, "flags: 0x40, known are 0x3f");
  options = options_of("Q8_0");
  options.n_threads = -1;
  expect_refused(options, "n_threads: -1, want 0 or more");
  options.n_threads = 513;
  expect_refused(options, "513");
  options = options_of("Q8_0");
  for (const char* rule : {"attn_v", "=q8_0"}) {
    options.tensor_types = rule;
    expect_refused(options, "tensor_types: '" + std::string(rule) + "': want REGEX=TYPE");
  }
  options.tensor_types = "a=q8_0\nb=q99";
  expect_refused(options, "tensor_types: 'q99' is not a type of weights, such as q6_K");
  options.tensor_types = "(=q8_0";
  expect_refused(options, "tensor_types: ");
  options = options_of("Q8_0");
  options.output_type = "i32";
  expect_refused(options, "output_type: 'i32' is not");
  options = options_of("Q8_0");
  options.embedding_type = "";
  expect_refused(options, "embedding_type: '' is not");
  for (const float bits : {-1.0f, 32.5f, std::numeric_limits<float>::quiet_NaN()}) {
    options = options_of("Q8_0");
    options.bits_per_value = bits;
    expect_refused(options, "bits_per_value: ");
  }
  options = options_of("Q8_0");
  options.bits_per_value = 32;
  options.max_bytes = 1;
  expect_refused(options, "max_bytes and bits_per_value: set one of them");
  options = options_of("COPY");
  options.max_bytes = 1;
  expect_refused(options, "not together with COPY and TESSERA_QUANTIZE_PURE");
  options = options_of("Q8_0");
  options.max_bytes = 1;
  options.flags = TESSERA_QUANTIZE_PURE;
  expect_refused(options, "not together with COPY");
  options.flags = 0;
  expect_refused(options, "", TESSERA_LIMIT);
  options = options_of("Q8_0");
  options.importance = "attn";
  expect_refused(options, "importance and unimportant require imatrix");
  options.importance = nullptr;
  options.unimportant = "attn";
  expect_refused(options, "importance and unimportant require imatrix");
  options = options_of("Q8_0");
  options.imatrix = "/none.imatrix";
  expect_refused(options, "/none.imatrix", TESSERA_NOT_FOUND);
  options = options_of("Q8_0");
  options.size = 2;
  expect_refused(options, "options: size is 2");
}

TEST_F(CapiQuantize, RefusesWrongArguments) {
  const auto options = options_of("Q8_0");
  const std::string to = path("out.gguf");
  const CancelHandle cancel = create_cancel_handle();
  const auto call = [&](tessera_runtime* runtime, const char* input, const char* output, tessera_cancel* stop,
                        tessera_written_info* info, tessera_error* error) {
    return tessera_quantize(runtime, input, output, &options, nullptr, nullptr, stop, info, error);
  };
  const char* const from = model_.c_str();
  EXPECT_STATUS(call(nullptr, from, to.c_str(), nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "runtime: is NULL");
  EXPECT_STATUS(call(as_other<tessera_runtime>(cancel.get()), from, to.c_str(), nullptr, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "runtime: is a handle of another kind");
  tessera_runtime* const r = runtime_.get();
  EXPECT_STATUS(call(r, nullptr, to.c_str(), nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "input: is NULL");
  EXPECT_STATUS(call(r, "", to.c_str(), nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "input: is empty");
  EXPECT_STATUS(call(r, from, nullptr, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "output: is NULL");
  EXPECT_STATUS(call(r, from, to.c_str(), reinterpret_cast<tessera_cancel*>(r), nullptr, error),
                TESSERA_INVALID_ARGUMENT, "cancel: is a handle of another kind");
  tessera_written_info info{};
  EXPECT_STATUS(call(r, from, to.c_str(), nullptr, &info, error), TESSERA_INVALID_ARGUMENT, "info: size is 0");
  EXPECT_STATUS(call(r, "/none.gguf", to.c_str(), nullptr, nullptr, error), TESSERA_NOT_FOUND, "/none.gguf");
  EXPECT_STATUS(call(r, from, "/nowhere/out.gguf", nullptr, nullptr, error), TESSERA_NOT_FOUND, "/nowhere/");
  EXPECT_STATUS(tessera_quantize(r, from, to.c_str(), nullptr, nullptr, nullptr, nullptr, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "type: is NULL");
  EXPECT_TRUE(names_in(folder_).empty());
  // The input stays as it is.
  const std::string copy = write_temporary("same.gguf", read_all(model_));
  EXPECT_STATUS(call(r, copy.c_str(), copy.c_str(), nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "is the input, ");
  EXPECT_TRUE(read_all(copy) == read_all(model_));
}

TEST_F(CapiQuantize, WarnsInTheLogOfTheRuntime) {
  std::vector<std::string> lines;
  auto runtime_options = made(tessera_runtime_options_init);
  runtime_options.log_user = &lines;
  runtime_options.log = [](void* user, int32_t level, const char* text) {
    static_cast<std::vector<std::string>*>(user)->push_back(std::to_string(level) + text);
  };
  tessera_runtime* runtime = nullptr;
  EXPECT_SUCCESS(tessera_runtime_create(&runtime_options, &runtime, error));
  const RuntimeHandle owner(runtime, tessera_runtime_release);
  EXPECT_SUCCESS(quantize(options_of("Q8_0"), path("q8.gguf"), error));
  const auto again = options_of("Q4_0");
  EXPECT_SUCCESS(tessera_quantize(runtime, path("q8.gguf").c_str(), path("q4.gguf").c_str(), &again, nullptr, nullptr,
                                  nullptr, nullptr, error));
  ASSERT_FALSE(lines.empty());
  for (const std::string& line : lines) EXPECT_TRUE(line.starts_with("2")) << line;
}

TEST_F(CapiQuantize, KeepsTheFilesOfASplitModel) {
  const auto split = made(tessera_split_options_init);
  auto limits = split;
  limits.max_file_tensors = 30;
  EXPECT_SUCCESS(tessera_split(model_.c_str(), path("in").c_str(), &limits, nullptr, nullptr, nullptr, nullptr, error));
  const std::string first = path("in-00001-of-00002.gguf");
  auto options = options_of("Q8_0");
  options.flags = TESSERA_QUANTIZE_KEEP_SPLIT;
  auto info = sized<tessera_written_info>();
  EXPECT_SUCCESS(tessera_quantize(runtime_.get(), first.c_str(), path("ours").c_str(), &options, nullptr, nullptr,
                                  nullptr, &info, error));
  EXPECT_EQ(info.n_files, 2u);
  ASSERT_EQ(run_program({"quantize", first, path("theirs"), "Q8_0", "--keep-split"}).status, 0);
  for (const std::string part : {"-00001-of-00002.gguf", "-00002-of-00002.gguf"})
    EXPECT_TRUE(read_all(path("ours" + part)) == read_all(path("theirs" + part)));
}

}  // namespace
}  // namespace tessera
