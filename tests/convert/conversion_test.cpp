// Conversions of small models: types, tied layers, values that a type cannot hold, and what is refused.
#include "tessera/convert/conversion.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>

#include "tests/convert/hub_folder.h"
#include "tests/convert/quantize_support.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

struct ConversionSettings {
  std::optional<FileType> type{};
  int n_threads = 2;
  bool checks_copies = false;
};

struct ConvertedFile {
  std::string path{};
  uint64_t n_overflows = 0;
  std::vector<std::string> warnings{};
};

Result<ConvertedFile> convert_checkpoint(const std::string& folder, const std::string& output,
                                         const ConversionSettings& settings = {}) {
  QuantizeOptions options;
  options.checks_copies = settings.checks_copies;
  if (settings.type) options.mix.file_type = *settings.type;
  TESSERA_ASSIGN(const auto conversion, Conversion::open(folder, settings.type));
  conversion->apply_to(options);
  TESSERA_ASSIGN(const auto plan, plan_quantize(conversion->files(), options));
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = settings.n_threads}));
  const auto progress = [](float) { return true; };
  TESSERA_ASSIGN(const uint64_t n_bytes, output_bytes(conversion->files(), plan, options));
  ConvertedFile file{.path = temporary_path(output), .warnings = conversion->warnings()};
  TESSERA_TRY(write_quantized(conversion->files(), plan, options, file.path, {*threads, nullptr, progress}));
  EXPECT_EQ(std::filesystem::file_size(file.path), n_bytes);
  file.n_overflows = conversion->rows().n_overflows();
  return file;
}

std::string conversion_refusal(const HubFolder& folder) {
  const auto opened = Conversion::open(folder.write("refused"), FileType::bf16);
  return opened ? "opened" : opened.error().message();
}

void expect_part(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message << "\nwant " << part;
}

std::string type_of_tensor(const ModelFiles& files, const char* name) {
  const ModelFiles::Tensor* tensor = files.find_tensor(name);
  return tensor == nullptr ? "none" : std::string(info(tensor->info.dtype).name);
}

TEST(Conversion, MatricesHaveTheSourceTypeOf16Bits) {
  const std::pair<const char*, const char*> types[] = {{"BF16", "bf16"}, {"F16", "f16"}, {"F32", "bf16"}};
  for (const auto& [source, result] : types) {
    ASSERT_OK_AND_ASSIGN(const auto file, convert_checkpoint(hub_llama(source).write("plain"), "plain.gguf"));
    ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(file.path));
    EXPECT_EQ(type_of_tensor(*files, "blk.1.ffn_up.weight"), result) << source;
    EXPECT_EQ(type_of_tensor(*files, "token_embd.weight"), result) << source;
    EXPECT_EQ(type_of_tensor(*files, "blk.1.ffn_norm.weight"), "f32") << source;
    EXPECT_EQ(files->metadata().get<uint32_t>("general.file_type").value(),
              *source == 'F' && source[1] == '1' ? 1 : 32);
    EXPECT_EQ(files->metadata().get<std::string_view>("general.name").value(), "plain");
  }
}

// A snapshot in the cache of a hub's tools has the name of its repository.
TEST(Conversion, SnapshotsHaveTheNameOfTheirRepository) {
  namespace fs = std::filesystem;
  const std::pair<const char*, const char*> folders[] = {{"models--me--tiny-1--b/snapshots/0123", "b"},
                                                         {"models--me--tiny/snapshots/0123/", "tiny"},
                                                         {"models--me--tiny/other/0123", "0123"},
                                                         {"datasets--me--tiny/snapshots/0123", "0123"}};
  for (const auto& [folder, name] : folders) {
    const fs::path path = testing::temporary_path("cache") + "/" + folder;
    fs::create_directories(path);
    fs::copy(hub_llama().write("snapshot"), path, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    ASSERT_OK_AND_ASSIGN(const auto file, convert_checkpoint(path, "named.gguf"));
    ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(file.path));
    EXPECT_EQ(files->metadata().get<std::string_view>("general.name").value(), name) << folder;
  }
}

TEST(Conversion, SmallTensorsStayExact) {
  EXPECT_EQ(type_in_gguf("blk.0.attn_q.weight", 2, DType::f16), DType::f16);
  EXPECT_EQ(type_in_gguf("blk.0.attn_q.bias", 1, DType::f16), DType::f32);
  EXPECT_EQ(type_in_gguf("blk.0.attn_q_norm.weight", 2, DType::f16), DType::f32);
  EXPECT_EQ(type_in_gguf("blk.0.ssm_a", 2, DType::f16), DType::f32);
  EXPECT_EQ(type_in_gguf("blk.0.ffn_gate_inp.weight", 2, DType::f16), DType::f32);
  EXPECT_EQ(type_in_gguf("blk.0.ffn_gate_exps.weight", 3, DType::f16), DType::f16);
  EXPECT_EQ(type_in_gguf("position_embd.weight", 2, DType::f16), DType::f32);
  EXPECT_EQ(type_in_gguf("token_embd.weight", 2, DType::f16), DType::f16);
  EXPECT_EQ(type_in_gguf("x.weight", 1, DType::f16), DType::f32);
  EXPECT_EQ(type_in_gguf("blk.0.hc_ffn_fn.weight", 2, DType::f16), DType::f32);
  EXPECT_EQ(type_in_gguf("blk.0.indexer_compressor_ape.weight", 2, DType::f16), DType::f32);
}

// Also where the source has floats of 32 bits: these are quantized, not their roundings to 16.
TEST(Conversion, QuantizedAtOnceHasTheBytesOfTwoSteps) {
  for (const char* source : {"BF16", "F16", "F32"}) {
    const std::string folder = hub_llama(source).write("steps");
    const std::optional<FileType> own = std::string_view(source) == "F32" ? std::optional(FileType::f32) : std::nullopt;
    for (const FileType type : {FileType::q4_k_m, FileType::q8_0}) {
      ASSERT_OK_AND_ASSIGN(const auto plain, convert_checkpoint(folder, "plain.gguf", {.type = own}));
      QuantizeOptions options;
      options.mix.file_type = type;
      ASSERT_OK(quantize_file(plain.path, temporary_path("two.gguf"), options));
      ASSERT_OK_AND_ASSIGN(const auto at_once, convert_checkpoint(folder, "once.gguf", {.type = type, .n_threads = 1}));
      EXPECT_TRUE(read_all(at_once.path) == read_all(temporary_path("two.gguf"))) << source;
      ASSERT_OK_AND_ASSIGN(const auto again, convert_checkpoint(folder, "again.gguf", {.type = type, .n_threads = 5}));
      EXPECT_TRUE(read_all(at_once.path) == read_all(again.path)) << source;
    }
  }
}

TEST(Conversion, AnOutputLayerThatIsTheEmbeddingIsLeftOut) {
  HubFolder folder = hub_llama("BF16", R"("tie_word_embeddings": true,)");
  ASSERT_OK_AND_ASSIGN(const auto apart, convert_checkpoint(folder.write("tied"), "tied.gguf"));
  ASSERT_EQ(apart.warnings.size(), 2u);
  expect_part(apart.warnings[0], "both are written");
  expect_part(apart.warnings[1], "the model has no vocabulary");
  ASSERT_OK_AND_ASSIGN(const auto two, ModelFiles::open(apart.path));
  EXPECT_EQ(type_of_tensor(*two, "output.weight"), "bf16");

  folder.find("lm_head.weight").bytes = folder.find("model.embed_tokens.weight").bytes;
  ASSERT_OK_AND_ASSIGN(const auto tied, convert_checkpoint(folder.write("tied"), "tied.gguf"));
  EXPECT_EQ(tied.warnings.size(), 1u);
  ASSERT_OK_AND_ASSIGN(const auto one, ModelFiles::open(tied.path));
  EXPECT_EQ(type_of_tensor(*one, "output.weight"), "none");

  HubFolder untied = hub_llama();
  untied.find("lm_head.weight").bytes = untied.find("model.embed_tokens.weight").bytes;
  ASSERT_OK_AND_ASSIGN(const auto kept, convert_checkpoint(untied.write("tied"), "tied.gguf"));
  ASSERT_OK_AND_ASSIGN(const auto both, ModelFiles::open(kept.path));
  EXPECT_EQ(type_of_tensor(*both, "output.weight"), "bf16");
}

TEST(Conversion, ValuesTooLargeForF16BecomeInfiniteOrAreRefused) {
  HubFolder folder = hub_llama("F32");
  std::string& bytes = folder.find("model.layers.1.mlp.up_proj.weight").bytes;
  bytes.replace(64 * 4, 4, number_bytes(65520.0f));
  bytes.replace(65 * 4, 4, number_bytes(-1e30f));
  bytes.replace(66 * 4, 4, number_bytes(65504.0f));
  const std::string path = folder.write("large");
  ASSERT_OK_AND_ASSIGN(const auto file, convert_checkpoint(path, "large.gguf", {.type = FileType::f16}));
  EXPECT_EQ(file.n_overflows, 2u);
  std::filesystem::remove(file.path);
  const auto refused = convert_checkpoint(path, "large.gguf", {.type = FileType::f16, .checks_copies = true});
  ASSERT_FALSE(refused.has_value());
  expect_part(refused.error().message(), "tensor 'blk.1.ffn_up.weight': element 64 is inf");
  EXPECT_EQ(count_files_like(temporary_path("large.gguf")), 0u);
}

TEST(Conversion, ValuesThatAreNotFiniteAreCopiedUnlessTheyAreChecked) {
  HubFolder folder = hub_llama();
  folder.find("model.norm.weight").bytes.replace(2, 2, number_bytes(uint16_t{0x7fc0}));
  const std::string path = folder.write("finite");
  ASSERT_OK_AND_ASSIGN(const auto file, convert_checkpoint(path, "finite.gguf"));
  EXPECT_EQ(file.n_overflows, 0u);
  const auto checked = convert_checkpoint(path, "finite.gguf", {.checks_copies = true});
  ASSERT_FALSE(checked.has_value());
  expect_part(checked.error().message(), "tensor 'output_norm.weight': element 1 is nan");
  const auto quantized = convert_checkpoint(path, "finite.gguf", {.type = FileType::q8_0});
  ASSERT_FALSE(quantized.has_value());
  expect_part(quantized.error().message(), "element 1 is nan");
}

TEST(Conversion, ModelsThatCannotBeLoadedAreRefused) {
  HubFolder folder = hub_llama();
  folder.remove("model.layers.1.mlp.up_proj.weight");
  expect_part(conversion_refusal(folder), "blk.1.ffn_up.weight");
  folder = hub_llama();
  folder.add("model.layers.1.mlp.other_proj.weight", {2, 2});
  expect_part(conversion_refusal(folder), "no rule for tensor \"model.layers.1.mlp.other_proj.weight\"");
  folder = hub_llama();
  folder.add("model.layers.2.input_layernorm.weight", {64});
  EXPECT_EQ(conversion_refusal(folder), "opened");  // layers past the last one are for other programs
  folder = hub_llama();
  folder.add("model.layers.0.block_sparse_moe.gate.weight", {4, 64});
  expect_part(conversion_refusal(folder), "tensor blk.0.ffn_gate_inp.weight: models of llama have none of this name");
  folder = hub_llama();
  folder.find("model.layers.0.self_attn.v_proj.weight").shape = {64, 32};
  expect_part(conversion_refusal(folder), "blk.0.attn_v.weight");
  folder = hub_llama();
  folder.config = R"({"architectures": ["OtherForCausalLM"]})";
  expect_part(conversion_refusal(folder), "config.json: models of class \"OtherForCausalLM\" are not converted");
  folder.config = "{}";
  expect_part(conversion_refusal(folder), "models of class \"\" are not converted");
  folder = hub_llama("BF16", R"("quantization_config": {"quant_method": "other"},)");
  expect_part(conversion_refusal(folder), "\"other\"");
  folder = hub_llama();
  folder.find("model.embed_tokens.weight") = {
      "model.embed_tokens.weight", "BF16", {40, 1, 1, 1, 64}, std::string(5120, 'x')};
  expect_part(conversion_refusal(folder), "tensor token_embd.weight: 5 dimensions, limit 4");
}

TEST(Conversion, AnOutputIsNoInputAndFitsOnTheDisk) {
  const std::string folder = hub_llama().write("places");
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(folder));
  EXPECT_OK(check_output(checkpoint, std::vector<std::string>{folder + "/out.gguf"}, 1000));
  const auto same = check_output(checkpoint, std::vector<std::string>{folder + "/./model.safetensors"}, 1000);
  ASSERT_FALSE(same.has_value());
  expect_part(same.error().message(), "is the input");
  const auto full =
      check_output(checkpoint, std::vector<std::string>{folder + "/out.gguf"}, std::numeric_limits<uint64_t>::max());
  ASSERT_FALSE(full.has_value());
  expect_part(full.error().message(), "needs 18446744073709551615 bytes, ");
  const auto absent = check_output(checkpoint, std::vector<std::string>{folder + "/none/out.gguf"}, 1);
  ASSERT_FALSE(absent.has_value());
  EXPECT_EQ(absent.error().code(), ErrorCode::io);
}

}  // namespace
}  // namespace tessera::convert
