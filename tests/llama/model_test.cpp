// Models of llama.h.
#include <cstring>

#include "tessera/llama/api.h"
#include "tests/llama/llama_support.h"
#include "tests/support/editable_model.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

std::string meta_value(const llama_model* model, const char* key) {
  char value[100];
  const int32_t n = llama_model_meta_val_str(model, key, value, sizeof value);
  return n < 0 ? "none" : value;
}

TEST(LlamaModel, TellsWhatItIs) {
  const LlamaModel model = load_llama(story_model());
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(llama_model_n_ctx_train(model.get()), 2048);
  EXPECT_EQ(llama_n_ctx_train(model.get()), 2048);
  EXPECT_EQ(llama_model_n_embd(model.get()), 64);
  EXPECT_EQ(llama_n_embd(model.get()), 64);
  EXPECT_EQ(llama_model_n_embd_inp(model.get()), 64);
  EXPECT_EQ(llama_model_n_embd_out(model.get()), 64);
  EXPECT_EQ(llama_model_n_layer(model.get()), 5);
  EXPECT_EQ(llama_n_layer(model.get()), 5);
  EXPECT_EQ(llama_model_n_layer_nextn(model.get()), 0);
  EXPECT_EQ(llama_model_n_head(model.get()), 8);
  EXPECT_EQ(llama_n_head(model.get()), 8);
  EXPECT_EQ(llama_model_n_head_kv(model.get()), 4);
  EXPECT_EQ(llama_model_n_swa(model.get()), 0);
  EXPECT_EQ(llama_model_rope_type(model.get()), 0);
  EXPECT_EQ(llama_model_rope_freq_scale_train(model.get()), 1.0f);
  EXPECT_EQ(llama_model_n_cls_out(model.get()), 1u);
  EXPECT_EQ(llama_model_cls_label(model.get(), 0), nullptr);
  EXPECT_EQ(llama_model_ftype(model.get()), 0);
  EXPECT_EQ(llama_model_size(model.get()), 4u * 292'800);
  EXPECT_EQ(llama_model_n_params(model.get()), 292'800u);
  EXPECT_EQ(llama_model_decoder_start_token(model.get()), -1);
  EXPECT_FALSE(llama_model_has_encoder(model.get()));
  EXPECT_TRUE(llama_model_has_decoder(model.get()));
  EXPECT_FALSE(llama_model_is_recurrent(model.get()) || llama_model_is_hybrid(model.get()));
  EXPECT_FALSE(llama_model_is_diffusion(model.get()));
  EXPECT_EQ(llama_model_chat_template(model.get(), nullptr), nullptr);
  char text[64];
  EXPECT_EQ(llama_model_desc(model.get(), text, sizeof text), 16);
  EXPECT_STREQ(text, "llama ?B all F32");
  EXPECT_EQ(llama_model_desc(model.get(), text, 6), 16);
  EXPECT_STREQ(text, "llama");
}

TEST(LlamaModel, KnowsRecurrentAndHybridModels) {
  const LlamaModel mamba = load_llama(arch_model("mamba-dense")), jamba = load_llama(arch_model("jamba-dense"));
  EXPECT_TRUE(llama_model_is_recurrent(mamba.get()));
  EXPECT_FALSE(llama_model_is_hybrid(mamba.get()));
  EXPECT_EQ(llama_model_rope_type(mamba.get()), -1);
  EXPECT_FALSE(llama_model_is_recurrent(jamba.get()));
  EXPECT_TRUE(llama_model_is_hybrid(jamba.get()));
  const LlamaModel qwen = load_llama(arch_model("qwen2-dense"));
  EXPECT_EQ(llama_model_rope_type(qwen.get()), 2);
  const LlamaModel glm = load_llama(arch_model("glm4-dense"));
  EXPECT_EQ(llama_model_rope_type(glm.get()), 8);  // with sections for images
  EditableModel edited{arch_model("glm4-dense")};
  edited.builder.remove("glm4.rope.dimension_sections");
  EXPECT_EQ(llama_model_rope_type(load_llama(edited.write("glm4.gguf")).get()), 0);
  EXPECT_EQ(llama_model_rope_type(load_llama(arch_model("qwen2vl-dense")).get()), 8);
  EXPECT_EQ(llama_model_rope_type(load_llama(arch_model("qwen3vl-dense")).get()), 40);  // in turns
  const LlamaModel gemma = load_llama(arch_model("gemma2-dense"));
  EXPECT_GT(llama_model_n_swa(gemma.get()), 0);
  EXPECT_TRUE(llama_model_is_hybrid(load_llama(arch_model("falcon-h1-dense")).get()));
  EXPECT_TRUE(llama_model_is_hybrid(load_llama(arch_model("kimi-linear-moe")).get()));
  EXPECT_TRUE(llama_model_is_diffusion(load_llama(arch_model("dream-dense")).get()));
}

TEST(LlamaModel, ListsItsMetadataWithoutArrays) {
  const LlamaModel model = load_llama(story_model());
  ASSERT_EQ(llama_model_meta_count(model.get()), 23);
  EXPECT_EQ(meta_value(model.get(), "general.architecture"), "llama");
  EXPECT_EQ(meta_value(model.get(), "llama.attention.layer_norm_rms_epsilon"), "0.000010");
  EXPECT_EQ(meta_value(model.get(), "tokenizer.ggml.add_bos_token"), "true");
  EXPECT_EQ(meta_value(model.get(), "tokenizer.ggml.add_eos_token"), "false");
  EXPECT_EQ(meta_value(model.get(), "llama.block_count"), "5");
  EXPECT_EQ(meta_value(model.get(), "tokenizer.ggml.tokens"), "none");
  EXPECT_EQ(meta_value(model.get(), "no.such.key"), "none");
  char key[100], value[100];
  for (int32_t i = 0; i < 23; ++i) {
    const int32_t n_key = llama_model_meta_key_by_index(model.get(), i, key, sizeof key);
    const int32_t n_value = llama_model_meta_val_str_by_index(model.get(), i, value, sizeof value);
    EXPECT_EQ(n_key, static_cast<int32_t>(std::strlen(key)));
    EXPECT_EQ(n_value, static_cast<int32_t>(std::strlen(value)));
    EXPECT_EQ(meta_value(model.get(), key), value);
  }
  for (const int32_t i : {-1, 23}) {
    std::strcpy(key, "x");
    EXPECT_EQ(llama_model_meta_key_by_index(model.get(), i, key, sizeof key), -1);
    EXPECT_STREQ(key, "");
    EXPECT_EQ(llama_model_meta_val_str_by_index(model.get(), i, value, sizeof value), -1);
  }
  EXPECT_EQ(llama_model_meta_val_str(model.get(), "general.name", key, 3), 5);
  EXPECT_STREQ(key, "st");
  EXPECT_EQ(llama_model_meta_val_str(model.get(), "general.name", nullptr, 0), 5);
  const LogLines log;
  EXPECT_EQ(llama_model_meta_val_str(model.get(), nullptr, key, sizeof key), -1);
}

TEST(LlamaModel, LoadsAVocabularyAlone) {
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  const LlamaModel model = load_llama(story_model(), params);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(llama_vocab_n_tokens(llama_model_get_vocab(model.get())), 512);
  EXPECT_EQ(llama_model_n_embd(model.get()), 0);
  EXPECT_EQ(llama_model_size(model.get()), 4u * 292'800);  // those of the file
  EXPECT_EQ(llama_model_n_params(model.get()), 292'800u);
  EXPECT_EQ(llama_model_rope_freq_scale_train(model.get()), 0);
  EXPECT_EQ(tokenize(model.get(), "Once upon a time").size(), 7u);
  LogLines log;
  EXPECT_EQ(create_llama(model.get()), nullptr);
  EXPECT_EQ(log.take(), "llama_init_from_model: model: only its vocabulary is loaded\n");
}

TEST(LlamaModel, LoadsInEachMode) {
  for (const int32_t mode : {-1, 0, 1, 4})
    for (const bool packs : {false, true}) {
      llama_model_params params = llama_model_default_params();
      params.load_mode = mode;
      params.use_extra_bufts = packs;
      params.check_tensors = packs;
      params.n_gpu_layers = packs ? 0 : -1;
      EXPECT_NE(load_llama(story_model(), params), nullptr) << mode;
    }
  LogLines log;
  for (const int32_t mode : {-2, 5}) {
    llama_model_params params = llama_model_default_params();
    params.load_mode = mode;
    EXPECT_EQ(load_llama(story_model(), params), nullptr);
    EXPECT_NE(log.take().find("load_mode: " + std::to_string(mode) + ", want -1 to 4"), std::string::npos);
  }
}

TEST(LlamaModel, ReportsProgressAndStops) {
  std::vector<float> shares;
  llama_model_params params = llama_model_default_params();
  params.progress_callback_user_data = &shares;
  params.progress_callback = [](float share, void* user) {
    static_cast<std::vector<float>*>(user)->push_back(share);
    return true;
  };
  EXPECT_NE(load_llama(story_model(), params), nullptr);
  ASSERT_FALSE(shares.empty());
  EXPECT_EQ(shares.back(), 1.0f);
  params.progress_callback = [](float, void*) { return false; };
  const LogLines log;
  EXPECT_EQ(load_llama(story_model(), params), nullptr);
}

TEST(LlamaModel, OpensWithoutWeights) {
  llama_model_params params = llama_model_default_params();
  params.no_alloc = true;
  const LlamaModel model = load_llama(story_model(), params);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(llama_model_n_params(model.get()), 292'800u);
  LogLines log;
  EXPECT_EQ(create_llama(model.get()), nullptr);
  EXPECT_NE(log.take().find("its weights are not loaded"), std::string::npos);
}

TEST(LlamaModel, RefusesParametersThatItCannotHonour) {
  LogLines log;
  const auto refused = [&](auto&& change, const std::string& text) {
    llama_model_params params = llama_model_default_params();
    change(params);
    EXPECT_EQ(load_llama(story_model(), params), nullptr) << text;
    const std::string line = log.take();
    EXPECT_NE(line.find(text), std::string::npos) << line;
  };
  llama_model_kv_override overrides[2] = {};
  std::strcpy(overrides[0].key, "llama.block_count");
  refused([&](auto& params) { params.kv_overrides = overrides; },
          "kv_overrides: replacing keys of the file is not "
          "supported, such as 'llama.block_count'");
  const char* pattern[] = {"blk", nullptr};
  refused([&](auto& params) { params.tensor_buft_overrides = pattern; }, "tensor_buft_overrides");
  refused([](auto& params) { params.split_mode = 3; }, "split_mode: 3, want 0 to 2");
  refused([](auto& params) { params.split_mode = -1; }, "split_mode: -1");
  void* devices[] = {not_a_handle(), nullptr};
  refused([&](auto& params) { params.devices = devices; }, "devices: the process has no ggml library");
  // Empty lists ask for nothing.
  llama_model_params params = llama_model_default_params();
  overrides[0].key[0] = '\0';
  pattern[0] = nullptr;
  devices[0] = nullptr;
  params.kv_overrides = overrides;
  params.tensor_buft_overrides = pattern;
  params.devices = devices;
  EXPECT_NE(load_llama(story_model(), params), nullptr);
}

TEST(LlamaModel, FindsDevicesByTheirNamesInGgml) {
  LogLines log;
  void* devices[] = {not_a_handle(), nullptr};
  llama::ModelParams params;
  params.devices = devices;
  const auto load = [&](llama::DeviceName name) {
    params.device_name = name;
    return LlamaModel(tessera_llama_layout_load(story_model().c_str(), &params), llama_model_free);
  };
  EXPECT_NE(load([](void*) { return "CPU"; }), nullptr);
  EXPECT_EQ(load([](void*) { return "CUDA77"; }), nullptr);
  EXPECT_NE(log.take().find("cuda:77"), std::string::npos);
  EXPECT_EQ(load([](void*) -> const char* { return nullptr; }), nullptr);
  EXPECT_NE(log.take().find("devices: a device without a name"), std::string::npos);
  params.n_gpu_layers = 0;  // then the devices do not matter
  EXPECT_NE(load(nullptr), nullptr);
}

TEST(LlamaModel, RefusesWrongFiles) {
  LogLines log;
  EXPECT_EQ(load_llama("/no/such/file"), nullptr);
  EXPECT_NE(log.take().find("llama_model_load_from_file: /no/such/file: "), std::string::npos);
  EXPECT_EQ(llama_model_load_from_file(nullptr, llama_model_default_params()), nullptr);
  EXPECT_EQ(log.take(), "llama_model_load_from_file: path: is NULL\n");
  EXPECT_EQ(llama_load_model_from_file("/no/such/file", llama_model_default_params()), nullptr);
  const std::string bytes = read_all(story_model());
  for (const size_t n : {0u, 3u, 4u, 23u, 24u, 100u, 3000u, 12000u, 20000u, 1'000'000u}) {
    const std::string path = write_temporary("cut.gguf", bytes.substr(0, n));
    EXPECT_EQ(load_llama(path), nullptr) << n;
    EXPECT_NE(log.take(), "");
  }
  // Every byte of the header in turn, so that all kinds of damage occur: an error or a model, but no abort.
  for (size_t at = 4; at < 2000; at += 23) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    llama_model_params params = llama_model_default_params();
    params.vocab_only = at % 2 == 0;
    load_llama(write_temporary("damaged.gguf", damaged), params);
  }
}

TEST(LlamaModel, LoadsPartsByTheirNames) {
  LogLines log;
  const llama_model_params params = llama_model_default_params();
  const std::string story = story_model();
  const char* one[] = {story.c_str()};
  const LlamaModel model(llama_model_load_from_splits(one, 1, params), llama_model_free);
  EXPECT_NE(model, nullptr);
  EXPECT_EQ(llama_model_load_from_splits(nullptr, 1, params), nullptr);
  EXPECT_EQ(llama_model_load_from_splits(one, 0, params), nullptr);
  EXPECT_NE(log.take().find("paths: is empty"), std::string::npos);
  const char* two[] = {story.c_str(), story.c_str()};
  EXPECT_EQ(llama_model_load_from_splits(two, 2, params), nullptr);
  EXPECT_NE(log.take().find("is not named as part 1 of 2"), std::string::npos);
  const char* parts[] = {"/x/m-00001-of-00002.gguf", "/x/n-00002-of-00002.gguf"};
  EXPECT_EQ(llama_model_load_from_splits(parts, 2, params), nullptr);
  EXPECT_NE(log.take().find("/x/n-00002-of-00002.gguf is not named as part 2 of 2"), std::string::npos);
}

TEST(LlamaModel, StaysUntilItsContextsAreGone) {
  LlamaModel model = load_llama(story_model());
  const LlamaContext context = create_llama(model.get());
  const auto tokens = tokenize(model.get(), "Once");
  model.reset();
  EXPECT_EQ(decode_all(context.get(), tokens), 0);
  EXPECT_EQ(llama_model_n_embd(llama_get_model(context.get())), 64);
}

TEST(LlamaModel, QuantizesAndSaves) {
  LogLines log;
  const std::string story = story_model(), path = temporary_path("quantized.gguf");
  llama_model_quantize_params params = llama_model_quantize_default_params();
  EXPECT_EQ(llama_model_quantize(story.c_str(), path.c_str(), &params), 0u);
  const LlamaModel quantized = load_llama(path);
  ASSERT_NE(quantized, nullptr);
  EXPECT_EQ(llama_model_ftype(quantized.get()), 7);
  EXPECT_LT(llama_model_size(quantized.get()), 600'000u);
  const std::string again = temporary_path("again.gguf");
  EXPECT_EQ(llama_model_quantize(path.c_str(), again.c_str(), nullptr), 0u);  // all of it is Q8_0 already
  params.ftype = 2;
  EXPECT_EQ(llama_model_quantize(path.c_str(), again.c_str(), &params), 1u);
  EXPECT_NE(log.take().find("q8_0 already (see allow_requantize)"), std::string::npos);
  params.allow_requantize = true;
  EXPECT_EQ(llama_model_quantize(path.c_str(), again.c_str(), &params), 0u);
  params.dry_run = true;
  EXPECT_EQ(llama_model_quantize(path.c_str(), temporary_path("dry.gguf").c_str(), &params), 0u);
  EXPECT_FALSE(std::filesystem::exists(temporary_path("dry.gguf")));
  params.ftype = 4;
  EXPECT_EQ(llama_model_quantize(story.c_str(), again.c_str(), &params), 1u);
  EXPECT_NE(log.take().find("ftype: 4"), std::string::npos);
  params = llama_model_quantize_default_params();
  params.imatrix = not_a_handle();
  EXPECT_EQ(llama_model_quantize(story.c_str(), again.c_str(), &params), 1u);
  EXPECT_NE(log.take().find("imatrix: not supported here"), std::string::npos);
  EXPECT_EQ(llama_model_quantize(nullptr, again.c_str(), nullptr), 1u);
  EXPECT_EQ(llama_model_quantize(story.c_str(), nullptr, nullptr), 1u);
  EXPECT_EQ(llama_model_quantize(story.c_str(), story.c_str(), nullptr), 1u);
  log.take();
  const std::string saved = temporary_path("saved.gguf");
  const LlamaModel model = load_llama(story);
  llama_model_save_to_file(model.get(), saved.c_str());
  EXPECT_EQ(log.take(), "");
  const LlamaModel copy = load_llama(saved);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(llama_model_n_params(copy.get()), 292'800u);
  llama_model_save_to_file(model.get(), nullptr);
  EXPECT_NE(log.take(), "");
}

}  // namespace
}  // namespace tessera
