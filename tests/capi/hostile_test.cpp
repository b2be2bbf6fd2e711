// Hostile files through tessera.h: a status with a line of text, never an abort, and never an output.
#include <limits>

#include "tests/capi/files_support.h"
#include "tests/convert/checkpoint_folder.h"
#include "tests/gguf/hostile_files.h"
#include "tests/support/editable_model.h"

namespace tessera {
namespace {

using namespace testing;

class CapiHostile : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = fresh_folder(::testing::UnitTest::GetInstance()->current_test_info()->name()); }

  /// The calls that read a file, by name.
  std::vector<std::pair<std::string, tessera_status>> statuses_of(const std::string& path,
                                                                  std::vector<std::string>& texts) const {
    const std::string out = folder_ + "/out";
    auto quantize = made(tessera_quantize_options_init);
    quantize.type = "Q8_0";
    quantize.n_threads = 1;
    auto convert = made(tessera_convert_options_init);
    convert.mix = &quantize;
    auto verify = made(tessera_verify_options_init);
    verify.n_threads = 1;
    const char* const files[] = {path.c_str()};
    auto imatrix = made(tessera_imatrix_options_init);
    imatrix.merged = files;
    imatrix.n_merged = 1;
    tessera_runtime* const r = runtime_.get();
    const char *const in = path.c_str(), *const to = out.c_str();
    tessera_model* model = nullptr;
    std::vector<std::pair<std::string, tessera_status>> found;
    CallError e;
    const auto note = [&](const char* name, tessera_status status) {
      found.emplace_back(name, status);
      texts.push_back(e.text());
    };
    note("open", tessera_model_open(r, in, nullptr, &model, e));
    tessera_model_release(model);
    note("verify", tessera_verify(r, in, &verify, nullptr, nullptr, nullptr, nullptr, e));
    note("quantize", tessera_quantize(r, in, to, &quantize, nullptr, nullptr, nullptr, nullptr, e));
    std::filesystem::remove(out);
    note("split", tessera_split(in, to, nullptr, nullptr, nullptr, nullptr, nullptr, e));
    std::filesystem::remove(out + "-00001-of-00001.gguf");
    note("merge", tessera_merge(in, to, nullptr, nullptr, nullptr, nullptr, nullptr, e));
    note("imatrix", tessera_imatrix_collect(nullptr, nullptr, 0, to, &imatrix, nullptr, nullptr, nullptr, nullptr, e));
    std::filesystem::remove(out);
    note("convert", tessera_convert(r, in, to, &convert, nullptr, nullptr, nullptr, nullptr, e));
    std::filesystem::remove(out);
    return found;
  }

  /// Either way is right for a changed file, but a failure has a line of text, and leaves nothing.
  size_t count_refusals(const std::string& path) const {
    std::vector<std::string> texts;
    const auto statuses = statuses_of(path, texts);
    EXPECT_TRUE(names_in(folder_).empty());
    size_t n_refused = 0;
    for (size_t i = 0; i < statuses.size(); ++i) {
      const auto& [name, status] = statuses[i];
      EXPECT_NE(status, TESSERA_INTERNAL) << name << ": " << texts[i];
      EXPECT_EQ(status == TESSERA_OK, texts[i].empty()) << name << ": " << texts[i];
      EXPECT_EQ(texts[i].find('\n'), std::string::npos) << name << ": " << texts[i];
      n_refused += status == TESSERA_OK ? 0 : 1;
    }
    return n_refused;
  }

  RuntimeHandle runtime_ = create_runtime_handle(1);
  std::string folder_;
};

constexpr size_t kCalls = 7;

TEST_F(CapiHostile, MalformedFilesAreRefusedByEveryCall) {
  for (const HostileFile& c : kHostileFiles) {
    SCOPED_TRACE(c.name);
    const std::string path = write_temporary("hostile.gguf", c.bytes());
    EXPECT_EQ(count_refusals(path), kCalls);
    std::vector<std::string> texts;
    statuses_of(path, texts);
    const std::string_view message = c.message.starts_with("f.gguf: ") ? c.message.substr(8) : c.message;
    for (size_t call = 0; call < 5; ++call) {  // those that read models; the others know further formats
      EXPECT_NE(texts[call].find(message), std::string::npos) << texts[call];
      EXPECT_TRUE(texts[call].starts_with(path + ": offset ")) << texts[call];
    }
  }
}

TEST_F(CapiHostile, CutsAndFlippedBitsAreErrorsOrFilesThatWork) {
  const std::string whole = small_gguf();
  size_t n_refused = 0;
  for (size_t n = 0; n < whole.size(); n += 7)
    n_refused += count_refusals(write_temporary("cut.gguf", whole.substr(0, n)));
  EXPECT_GT(n_refused, kCalls * whole.size() / 7 / 2);
  for (size_t bit = 3; bit < whole.size() * 8; bit += 61) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_GE(count_refusals(write_temporary("flipped.gguf", flipped)), 2u);  // it is no split model, and no checkpoint
  }
}

TEST_F(CapiHostile, WrongHyperparametersAreErrorsOrModelsThatWork) {
  const EditableModel original(story_model());
  const auto expect_status = [&](const std::string& key, const auto& value) {
    SCOPED_TRACE(key);
    EditableModel edited = original;
    edited.builder.set(key, value);
    count_refusals(edited.write("wrong.gguf"));
  };
  for (const std::string key : {"llama.block_count", "llama.attention.head_count", "llama.embedding_length",
                                "llama.rope.dimension_count", "tokenizer.ggml.bos_token_id"})
    for (const uint32_t value : {0u, 1u << 24, ~0u}) expect_status(key, value);
  expect_status("llama.attention.layer_norm_rms_epsilon", std::numeric_limits<float>::quiet_NaN());
  expect_status("general.architecture", "of the future");
  expect_status("tokenizer.ggml.model", "of the future");
  expect_status("split.count", uint16_t{65535});
}

TEST_F(CapiHostile, PathsThatAreNoFiles) {
  const std::string folder = temporary_dir().string();
  for (const std::string& path :
       {folder, std::string("/dev/null"), folder + "/none", folder + "/" + std::string(300, 'x')}) {
    SCOPED_TRACE(path);
    EXPECT_EQ(count_refusals(path), kCalls);
  }
}

TEST_F(CapiHostile, CheckpointsAreRefused) {
  const auto expect_refused = [&](const std::string& input, const std::string& text) {
    SCOPED_TRACE(text);
    CallError error;
    EXPECT_NE(tessera_convert(runtime_.get(), input.c_str(), (folder_ + "/out").c_str(), nullptr, nullptr, nullptr,
                              nullptr, nullptr, error),
              TESSERA_OK);
    EXPECT_NE(error.text().find(text), std::string::npos) << error.text();
    EXPECT_TRUE(names_in(folder_).empty());
  };
  const std::string config = R"({"architectures": ["LlamaForCausalLM"]})";
  const auto folder = [&](const std::string& file, const std::string& bytes, const std::string& settings) {
    return write_folder("hostile.hub", {{"config.json", settings}, {file, bytes}});
  };
  const std::string weights = "model.safetensors";
  expect_refused(folder(weights, "", config), "model.safetensors");
  expect_refused(folder(weights, safetensors_file("{", ""), config), "model.safetensors");
  expect_refused(folder(weights, std::string(8, '\xff'), config), "model.safetensors");
  const std::string lying = R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})";
  expect_refused(folder(weights, safetensors_file(lying, "1234"), config), "model.safetensors");
  const std::string huge = R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})";
  expect_refused(folder(weights, safetensors_file(huge, ""), config), "model.safetensors");
  expect_refused(folder(weights, safetensors_file("{}", ""), std::string(100'000, '[')), "config.json");
  expect_refused(folder(weights, safetensors_file("{}", ""), "{"), "config.json");
  expect_refused(folder("pytorch_model.bin", "PK\x03\x04" + std::string(60, 'x'), config), "pytorch_model.bin");
  expect_refused(folder("pytorch_model.bin", zip_archive({}), config), "pytorch_model.bin");
  expect_refused(folder("pytorch_model.bin", pickle::whole(pickle::global("os", "system")), config),
                 "pytorch_model.bin");
}

}  // namespace
}  // namespace tessera
