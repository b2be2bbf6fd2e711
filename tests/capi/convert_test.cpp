// Checkpoints that are converted by tessera.h: the same bytes as those of the command, and nothing where a call fails.
#include "tests/capi/files_support.h"
#include "tests/convert/hub_folder.h"
#include "tests/convert/lora_folder.h"

namespace tessera {
namespace {

using namespace testing;

class CapiConvert : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(::testing::UnitTest::GetInstance()->current_test_info()->name());
    hub_ = hub_llama().write(::testing::UnitTest::GetInstance()->current_test_info()->name() + std::string(".hub"));
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  tessera_status convert(const std::string& output, tessera_error* error, tessera_written_info* info = nullptr) const {
    return tessera_convert(runtime_.get(), hub_.c_str(), output.c_str(), &options_, nullptr, nullptr, nullptr, info,
                           error);
  }
  void set_type(const char* type) {
    mix_.type = type;
    options_.mix = &mix_;
  }
  void expect_same(const std::vector<std::string>& flags, const std::string& ending = ".gguf") const {
    EXPECT_SUCCESS(convert(path("ours.gguf"), error));
    std::vector<std::string> arguments = {"convert", hub_, "-o", path("theirs.gguf")};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const auto output = run_program(arguments);
    ASSERT_EQ(output.status, 0) << output.err;
    EXPECT_TRUE(read_all(path("ours" + ending)) == read_all(path("theirs" + ending)));
  }
  void expect_refused(const std::string& text, tessera_status status = TESSERA_INVALID_ARGUMENT) const {
    EXPECT_STATUS(convert(path("out.gguf"), error), status, text);
    EXPECT_TRUE(names_in(folder_).empty());
  }

  RuntimeHandle runtime_ = create_runtime_handle();
  tessera_convert_options options_ = made(tessera_convert_options_init);
  tessera_quantize_options mix_ = made(tessera_quantize_options_init);
  std::string folder_, hub_;
};

TEST_F(CapiConvert, BytesAreThoseOfTheCommand) {
  expect_same({});
  set_type("Q4_K_M");
  mix_.tensor_types = "attn_v=q8_0";
  expect_same({"--type", "Q4_K_M", "-tt", "attn_v=q8_0"});
  mix_ = made(tessera_quantize_options_init);
  mix_.max_bytes = 60'000;
  expect_same({"--size", "60000"});
  mix_.max_bytes = 0;
  set_type("F32");
  options_.max_file_tensors = 8;
  for (const std::string ending : {"-00001-of-00003.gguf", "-00003-of-00003.gguf"})
    expect_same({"--type", "f32", "--split-max-tensors", "8"}, ending);
  options_.max_file_tensors = 0;
  options_.max_file_bytes = 100'000;
  options_.flags = TESSERA_CONVERT_KEYS_FIRST;
  auto info = sized<tessera_written_info>();
  EXPECT_SUCCESS(convert(path("keys.gguf"), error, &info));
  EXPECT_EQ(info.n_files, 4u);
  EXPECT_EQ(info.n_tensors, 21u);
  EXPECT_EQ(info.n_bytes_before, std::filesystem::file_size(hub_ + "/model.safetensors"));
  EXPECT_EQ(std::string(info.type), "F32");
  uint64_t n_bytes = 0;
  for (const std::string& name : names_in(folder_))
    if (name.starts_with("keys")) n_bytes += std::filesystem::file_size(path(name));
  EXPECT_EQ(info.n_bytes, n_bytes);
}

TEST_F(CapiConvert, PlansWithoutAFile) {
  set_type("Q8_0");
  mix_.flags = TESSERA_QUANTIZE_PLAN;
  auto plan = sized<tessera_written_info>(), written = plan;
  EXPECT_SUCCESS(
      tessera_convert(runtime_.get(), hub_.c_str(), nullptr, &options_, nullptr, nullptr, nullptr, &plan, error));
  EXPECT_TRUE(names_in(folder_).empty());
  mix_.flags = 0;
  Shares shares;
  EXPECT_SUCCESS(tessera_convert(runtime_.get(), hub_.c_str(), path("out.gguf").c_str(), &options_, Shares::note,
                                 &shares, nullptr, &written, error));
  EXPECT_TRUE(shares.is_complete());
  EXPECT_EQ(plan.n_bytes, written.n_bytes);
  EXPECT_EQ(plan.n_bytes, std::filesystem::file_size(path("out.gguf")));
}

TEST_F(CapiConvert, StopsAndResumes) {
  set_type("Q8_0");
  const auto convert_until = [&](size_t stop_at, tessera_error* error) {
    Shares shares{.values = {}, .stop_at = stop_at};
    return tessera_convert(runtime_.get(), hub_.c_str(), path("out.gguf").c_str(), &options_, Shares::note, &shares,
                           nullptr, nullptr, error);
  };
  EXPECT_STATUS(convert_until(3, error), TESSERA_CANCELLED, "");
  EXPECT_TRUE(names_in(folder_).empty());
  options_.flags = TESSERA_CONVERT_RESUME;
  EXPECT_STATUS(convert_until(3, error), TESSERA_CANCELLED, "");
  ASSERT_EQ(names_in(folder_).size(), 1u);
  EXPECT_TRUE(names_in(folder_)[0].ends_with(".part"));
  EXPECT_SUCCESS(convert_until(0, error));
  EXPECT_EQ(names_in(folder_), std::vector<std::string>{"out.gguf"});
  ASSERT_EQ(run_program({"convert", hub_, "-o", temporary_path("whole.gguf"), "--type", "q8_0"}).status, 0);
  EXPECT_TRUE(read_all(path("out.gguf")) == read_all(temporary_path("whole.gguf")));
  const CancelHandle cancel = create_cancel_handle(true);
  EXPECT_STATUS(tessera_convert(runtime_.get(), hub_.c_str(), path("other.gguf").c_str(), nullptr, nullptr, nullptr,
                                cancel.get(), nullptr, error),
                TESSERA_CANCELLED, "");
  EXPECT_FALSE(std::filesystem::exists(path("other.gguf")));
}

TEST_F(CapiConvert, WarnsAndChecksValues) {
  HubFolder folder = hub_llama("F32");
  folder.find("model.layers.0.mlp.up_proj.weight").bytes.replace(0, 4, number_bytes(1e6f));
  hub_ = folder.write("overflow.hub");
  set_type("F16");
  std::vector<std::string> lines;
  auto runtime_options = made(tessera_runtime_options_init);
  runtime_options.log_user = &lines;
  runtime_options.log = [](void* user, int32_t, const char* text) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(text);
  };
  tessera_runtime* runtime = nullptr;
  EXPECT_SUCCESS(tessera_runtime_create(&runtime_options, &runtime, error));
  const RuntimeHandle owner(runtime, tessera_runtime_release);
  EXPECT_SUCCESS(tessera_convert(runtime, hub_.c_str(), path("out.gguf").c_str(), &options_, nullptr, nullptr, nullptr,
                                 nullptr, error));
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back(), "1 value too large for F16: infinite in the output");
  std::filesystem::remove(path("out.gguf"));
  options_.flags = TESSERA_CONVERT_CHECK_TENSORS;
  expect_refused("element 0 is inf", TESSERA_FORMAT);
}

TEST_F(CapiConvert, VocabulariesOfOtherFolders) {
  const std::string vocabulary = write_folder(
      "capi.vocabulary",
      {{"tokenizer.json",
        R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Whitespace"},{"type":"ByteLevel"}]},)"
        R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})"}});
  options_.vocabulary = vocabulary.c_str();
  expect_refused("the pre-tokenizer is not known (option pre names one)", TESSERA_UNSUPPORTED);
  options_.pre = "gpt-2";
  expect_same({"--vocab", vocabulary, "--pre", "gpt-2"});
}

TEST_F(CapiConvert, AdaptersHaveABase) {
  const HubFolder model = hub_llama("F32");
  const std::string base = model.write("capi.base");
  HubFolder merged = model;
  LoraFolder lora;
  lora.add(merged, "model.layers.1.self_attn.q_proj", 4, 1.0f);
  hub_ = lora.write("capi.lora");
  expect_refused("names no base model: set base", TESSERA_NOT_FOUND);
  options_.base = base.c_str();
  expect_same({"--base", base});
  const std::string bytes = read_all(path("ours.gguf"));
  options_.base = nullptr;
  lora.config["base_model_name_or_path"] = base;
  lora.write("capi.lora");
  for (const std::string& input : {hub_, hub_ + "/adapter_model.safetensors"}) {
    EXPECT_SUCCESS(tessera_convert(runtime_.get(), input.c_str(), path("named.gguf").c_str(), nullptr, nullptr, nullptr,
                                   nullptr, nullptr, error));
    EXPECT_TRUE(read_all(path("named.gguf")) == bytes);
  }
  options_.base = "";
  EXPECT_STATUS(convert(path("x.gguf"), error), TESSERA_INVALID_ARGUMENT, "base: is empty");
}

TEST_F(CapiConvert, LeavesOutLaterLayers) {
  options_.flags = TESSERA_CONVERT_DROP_LATER;  // this model has none
  expect_same({"--no-mtp"});
}

TEST_F(CapiConvert, RefusesWrongOptions) {
  options_.flags = 16;
  expect_refused("flags: 0x10, known are 0xf");
  options_.flags = TESSERA_CONVERT_KEYS_FIRST;
  expect_refused("TESSERA_CONVERT_KEYS_FIRST requires max_file_tensors or max_file_bytes");
  options_ = made(tessera_convert_options_init);
  options_.base = hub_.c_str();
  expect_refused("is no adapter with adapter_config.json");
  options_ = made(tessera_convert_options_init);
  set_type("COPY");
  expect_refused("mix: COPY and TESSERA_QUANTIZE_KEEP_SPLIT: not for a checkpoint");
  set_type("Q8_0");
  mix_.flags = TESSERA_QUANTIZE_KEEP_SPLIT;
  expect_refused("mix: COPY and TESSERA_QUANTIZE_KEEP_SPLIT: not for a checkpoint");
  mix_ = made(tessera_quantize_options_init);
  mix_.output_type = "q8_0";
  for (const char* type : {static_cast<const char*>(nullptr), "BF16"}) {
    mix_.type = type;
    expect_refused("mix: options for single weights require a quantized type, max_bytes or bits_per_value");
  }
  mix_ = made(tessera_quantize_options_init);
  mix_.type = "Q99";
  expect_refused("type: 'Q99' is not a type of files");
  mix_.size = 1;
  expect_refused("options: size is 1");
  options_.size = 0;
  expect_refused("options: size is 0");
}

TEST_F(CapiConvert, RefusesWrongArguments) {
  const CancelHandle cancel = create_cancel_handle();
  const std::string to = path("out.gguf");
  tessera_written_info unset{};
  const auto call = [&](tessera_runtime* runtime, const char* input, const char* output, tessera_cancel* stop,
                        tessera_written_info* info, tessera_error* error) {
    return tessera_convert(runtime, input, output, nullptr, nullptr, nullptr, stop, info, error);
  };
  tessera_runtime* const r = runtime_.get();
  const char *const in = hub_.c_str(), *const out = to.c_str();
  EXPECT_STATUS(call(nullptr, in, out, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "runtime: is NULL");
  EXPECT_STATUS(call(as_other<tessera_runtime>(cancel.get()), in, out, nullptr, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "runtime: is a handle of another kind");
  EXPECT_STATUS(call(r, nullptr, out, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "input: is NULL");
  EXPECT_STATUS(call(r, in, nullptr, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "output: is NULL");
  EXPECT_STATUS(call(r, in, out, reinterpret_cast<tessera_cancel*>(r), nullptr, error), TESSERA_INVALID_ARGUMENT,
                "cancel: is a handle of another kind");
  EXPECT_STATUS(call(r, in, out, nullptr, &unset, error), TESSERA_INVALID_ARGUMENT, "info: size is 0");
  EXPECT_STATUS(call(r, "/none", out, nullptr, nullptr, error), TESSERA_NOT_FOUND, "/none");
  EXPECT_TRUE(names_in(folder_).empty());
  // The checkpoint stays as it is.
  const std::string weights = hub_ + "/model.safetensors", before = read_all(weights);
  EXPECT_STATUS(call(r, in, weights.c_str(), nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "is the input, ");
  EXPECT_TRUE(read_all(weights) == before);
}

}  // namespace
}  // namespace tessera
