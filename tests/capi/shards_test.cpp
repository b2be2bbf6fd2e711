// Models in one file or several, by tessera.h.
#include "tests/capi/files_support.h"

namespace tessera {
namespace {

using namespace testing;

class CapiShards : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(::testing::UnitTest::GetInstance()->current_test_info()->name());
    model_ = story_model();
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_, model_;
};

TEST_F(CapiShards, FilesAreThoseOfTheCommands) {
  auto options = made(tessera_split_options_init);
  options.max_file_tensors = 20;
  Shares shares;
  auto info = sized<tessera_written_info>();
  EXPECT_SUCCESS(
      tessera_split(model_.c_str(), path("ours").c_str(), &options, Shares::note, &shares, nullptr, &info, error));
  EXPECT_TRUE(shares.is_complete());
  EXPECT_EQ(info.n_files, 3u);
  EXPECT_EQ(info.n_tensors, 48u);
  EXPECT_EQ(info.n_values, 292'800u);
  EXPECT_EQ(info.n_bytes, 4 * 292'800u);
  EXPECT_EQ(info.n_bytes_before, std::filesystem::file_size(model_));
  EXPECT_EQ(std::string(info.type), "F32");
  ASSERT_EQ(run_program({"split", model_, path("theirs"), "--split-max-tensors", "20"}).status, 0);
  for (const std::string part : {"-00001-of-00003.gguf", "-00002-of-00003.gguf", "-00003-of-00003.gguf"})
    EXPECT_TRUE(read_all(path("ours" + part)) == read_all(path("theirs" + part))) << part;

  shares.values.clear();
  const std::string first = path("ours-00001-of-00003.gguf");
  EXPECT_SUCCESS(
      tessera_merge(first.c_str(), path("merged.gguf").c_str(), nullptr, Shares::note, &shares, nullptr, &info, error));
  EXPECT_TRUE(shares.is_complete());
  EXPECT_EQ(info.n_files, 1u);
  EXPECT_EQ(info.n_tensors, 48u);
  EXPECT_EQ(info.n_bytes, std::filesystem::file_size(path("merged.gguf")));
  EXPECT_GT(info.n_bytes_before, info.n_bytes);  // the keys of the split
  ASSERT_EQ(run_program({"merge", first, path("theirs.gguf")}).status, 0);
  EXPECT_TRUE(read_all(path("merged.gguf")) == read_all(path("theirs.gguf")));
}

TEST_F(CapiShards, LimitsHaveTheirDefaults) {
  auto options = made(tessera_split_options_init);
  options.flags = TESSERA_SPLIT_PLAN;
  auto info = sized<tessera_written_info>();
  const auto n_files = [&] {
    EXPECT_SUCCESS(tessera_split(model_.c_str(), nullptr, &options, nullptr, nullptr, nullptr, &info, error));
    return info.n_files;
  };
  EXPECT_EQ(n_files(), 1u);  // 128 tensors fit
  options.flags |= TESSERA_SPLIT_KEYS_FIRST;
  EXPECT_EQ(n_files(), 2u);
  options.flags = TESSERA_SPLIT_PLAN;
  options.max_file_bytes = 300'000;
  EXPECT_EQ(n_files(), 5u);
  options.max_file_tensors = 1;
  EXPECT_EQ(n_files(), 48u);
  EXPECT_TRUE(names_in(folder_).empty());
}

TEST_F(CapiShards, StopWithoutAFile) {
  Shares shares{.values = {}, .stop_at = 1};
  EXPECT_STATUS(
      tessera_split(model_.c_str(), path("out").c_str(), nullptr, Shares::note, &shares, nullptr, nullptr, error),
      TESSERA_CANCELLED, "");
  const CancelHandle cancel = create_cancel_handle(true);
  EXPECT_STATUS(
      tessera_split(model_.c_str(), path("out").c_str(), nullptr, nullptr, nullptr, cancel.get(), nullptr, error),
      TESSERA_CANCELLED, "");
  EXPECT_TRUE(names_in(folder_).empty());
  auto options = made(tessera_split_options_init);
  options.max_file_tensors = 30;
  EXPECT_SUCCESS(
      tessera_split(model_.c_str(), path("in").c_str(), &options, nullptr, nullptr, nullptr, nullptr, error));
  const std::string first = path("in-00001-of-00002.gguf");
  EXPECT_STATUS(
      tessera_merge(first.c_str(), path("out.gguf").c_str(), nullptr, nullptr, nullptr, cancel.get(), nullptr, error),
      TESSERA_CANCELLED, "");
  EXPECT_EQ(names_in(folder_).size(), 2u);
}

TEST_F(CapiShards, RefuseWrongArguments) {
  const std::string to = path("out");
  const char *const in = model_.c_str(), *const out = to.c_str();
  auto options = made(tessera_split_options_init);
  const RuntimeHandle runtime = create_runtime_handle();
  auto* const other = reinterpret_cast<tessera_cancel*>(runtime.get());
  tessera_written_info unset{};
  const auto split = [&](const char* input, const char* prefix, tessera_error* error, tessera_cancel* cancel = nullptr,
                         tessera_written_info* info = nullptr) {
    return tessera_split(input, prefix, &options, nullptr, nullptr, cancel, info, error);
  };
  EXPECT_STATUS(split(nullptr, out, error), TESSERA_INVALID_ARGUMENT, "input: is NULL");
  EXPECT_STATUS(split(in, nullptr, error), TESSERA_INVALID_ARGUMENT, "prefix: is NULL");
  EXPECT_STATUS(split(in, "", error), TESSERA_INVALID_ARGUMENT, "prefix: is empty");
  EXPECT_STATUS(split(in, out, error, other), TESSERA_INVALID_ARGUMENT, "cancel: is a handle of another kind");
  EXPECT_STATUS(split(in, out, error, nullptr, &unset), TESSERA_INVALID_ARGUMENT, "info: size is 0");
  EXPECT_STATUS(split("/none.gguf", out, error), TESSERA_NOT_FOUND, "/none.gguf");
  options.flags = 4;
  EXPECT_STATUS(split(in, out, error), TESSERA_INVALID_ARGUMENT, "flags: 0x4, known are 0x3");
  options.size = 3;
  EXPECT_STATUS(split(in, out, error), TESSERA_INVALID_ARGUMENT, "options: size is 3");

  auto merge_options = made(tessera_merge_options_init);
  const auto merge = [&](const char* first, const char* output, tessera_error* error, tessera_cancel* cancel = nullptr,
                         tessera_written_info* info = nullptr) {
    return tessera_merge(first, output, &merge_options, nullptr, nullptr, cancel, info, error);
  };
  EXPECT_STATUS(merge(nullptr, out, error), TESSERA_INVALID_ARGUMENT, "first: is NULL");
  EXPECT_STATUS(merge(in, nullptr, error), TESSERA_INVALID_ARGUMENT, "output: is NULL");
  EXPECT_STATUS(merge(in, out, error, other), TESSERA_INVALID_ARGUMENT, "cancel: is a handle of another kind");
  EXPECT_STATUS(merge(in, out, error, nullptr, &unset), TESSERA_INVALID_ARGUMENT, "info: size is 0");
  EXPECT_STATUS(merge(in, out, error), TESSERA_INVALID_ARGUMENT, "");  // it is not split
  EXPECT_STATUS(merge("/none.gguf", out, error), TESSERA_NOT_FOUND, "/none.gguf");
  merge_options.flags = 1;
  EXPECT_STATUS(merge(in, out, error), TESSERA_INVALID_ARGUMENT, "flags: 0x1, known are 0x0");
  merge_options.size = 0;
  EXPECT_STATUS(merge(in, out, error), TESSERA_INVALID_ARGUMENT, "options: size is 0");
  EXPECT_TRUE(names_in(folder_).empty());
}

TEST_F(CapiShards, ReplaceNoFile) {
  auto options = made(tessera_split_options_init);
  options.max_file_tensors = 30;
  const std::string prefix = path("in"), first = path("in-00001-of-00002.gguf");
  EXPECT_SUCCESS(tessera_split(model_.c_str(), prefix.c_str(), &options, nullptr, nullptr, nullptr, nullptr, error));
  const std::string before = read_all(first);
  EXPECT_STATUS(tessera_split(model_.c_str(), prefix.c_str(), &options, nullptr, nullptr, nullptr, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "in-00001-of-00002.gguf");
  EXPECT_STATUS(tessera_merge(first.c_str(), first.c_str(), nullptr, nullptr, nullptr, nullptr, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "in-00001-of-00002.gguf");
  EXPECT_TRUE(read_all(first) == before);
}

}  // namespace
}  // namespace tessera
