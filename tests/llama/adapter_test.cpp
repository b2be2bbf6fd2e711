// LoRA adapters of llama.h.
#include "tests/llama/llama_support.h"
#include "tests/support/engine_support.h"
#include "tests/support/lora_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

class LlamaAdapters : public ::testing::Test {
 protected:
  LlamaAdapter open(const std::string& path) const {
    return {llama_adapter_lora_init(model_.get(), path.c_str()), llama_adapter_lora_free};
  }
  std::vector<float> row_with(std::vector<llama_adapter_lora*> adapters, std::vector<float> scales) {
    EXPECT_EQ(llama_set_adapters_lora(context_.get(), adapters.data(), adapters.size(), scales.data()), 0);
    llama_memory_clear(llama_get_memory(context_.get()), true);
    EXPECT_EQ(decode_all(context_.get(), tokens_), 0);
    return row_of(context_.get(), -1);
  }

  LlamaModel model_ = load_llama(story_model());
  LlamaContext context_ = create_llama(model_.get(), small_context(512, 2));
  std::vector<llama_token> tokens_ = tokenize(model_.get(), "Once upon a time");
  std::string path_ = write_lora(story_model(), "one.gguf", 2, 4.0f, 1);
  std::string other_path_ = write_lora(story_model(), "two.gguf", 2, 4.0f, 2);
};

TEST_F(LlamaAdapters, ChangeTheLogits) {
  const auto plain = row_with({}, {});
  LlamaAdapter adapter = open(path_);
  ASSERT_NE(adapter, nullptr);
  const LlamaAdapter other = open(other_path_);
  const auto adapted = row_with({adapter.get()}, {1});
  EXPECT_NE(adapted, plain);
  EXPECT_NE(row_with({adapter.get()}, {0.5f}), adapted);
  const auto both = row_with({adapter.get(), other.get()}, {1, 1});
  EXPECT_NE(both, adapted);
  EXPECT_EQ(row_with({adapter.get()}, {1}), adapted);
  EXPECT_EQ(row_with({}, {}), plain);
  EXPECT_EQ(row_with({adapter.get()}, {0}), plain);
  llama_adapter_lora* one[] = {adapter.get()};
  EXPECT_EQ(llama_set_adapters_lora(context_.get(), one, 1, nullptr), 0);  // a scale of 1
  llama_memory_clear(llama_get_memory(context_.get()), true);
  ASSERT_EQ(decode_all(context_.get(), tokens_), 0);
  EXPECT_EQ(row_of(context_.get(), -1), adapted);
  adapter.reset();  // the context keeps it
  llama_memory_clear(llama_get_memory(context_.get()), true);
  ASSERT_EQ(decode_all(context_.get(), tokens_), 0);
  EXPECT_EQ(row_of(context_.get(), -1), adapted);
}

TEST_F(LlamaAdapters, GiveTheLogitsOfTheEngine) {
  const LlamaAdapter adapter = open(path_);
  const auto adapted = row_with({adapter.get()}, {0.5f});
  const auto engine = load_engine(story_model());
  ASSERT_OK(engine);
  auto lora = Adapter::open_lora(**engine, path_);
  ASSERT_OK(lora);
  ASSERT_OK((*lora)->load());
  auto session = Session::create(*engine, {.n_ctx = 256, .adapters = {{*lora, 0.5f}}});
  ASSERT_OK(session);
  ASSERT_OK((*session)->decode(Batch::prompt(tokens_, 0, 0)));
  EXPECT_TRUE(std::ranges::equal(adapted, (*session)->logits(0)));
}

// A new adapter needs a session that has it, which takes over what is stored.
TEST_F(LlamaAdapters, KeepWhatIsStored) {
  ASSERT_EQ(decode_all(context_.get(), {tokens_.begin(), tokens_.end() - 1}), 0);
  const LlamaAdapter adapter = open(path_);
  llama_adapter_lora* one[] = {adapter.get()};
  float none[] = {0};
  ASSERT_EQ(llama_set_adapters_lora(context_.get(), one, 1, none), 0);
  ASSERT_EQ(decode_all(context_.get(), {tokens_.back()}), 0);
  const auto row = row_of(context_.get(), -1);
  EXPECT_EQ(row, row_with({}, {}));
}

TEST_F(LlamaAdapters, TellTheirMetadata) {
  const LlamaAdapter adapter = open(path_);
  char key[80], value[80];
  const int32_t n = llama_adapter_meta_count(adapter.get());
  EXPECT_GE(n, 3);
  EXPECT_EQ(llama_adapter_meta_val_str(adapter.get(), "general.architecture", value, sizeof value), 5);
  EXPECT_STREQ(value, "llama");
  EXPECT_EQ(llama_adapter_meta_val_str(adapter.get(), "adapter.lora.alpha", value, sizeof value), 8);
  EXPECT_STREQ(value, "4.000000");
  EXPECT_GT(llama_adapter_meta_key_by_index(adapter.get(), 0, key, sizeof key), 0);
  EXPECT_GT(llama_adapter_meta_val_str_by_index(adapter.get(), 0, value, sizeof value), 0);
  EXPECT_EQ(llama_adapter_meta_key_by_index(adapter.get(), n, key, sizeof key), -1);
  EXPECT_EQ(llama_adapter_meta_val_str(adapter.get(), "no.key", value, sizeof value), -1);
  EXPECT_EQ(llama_adapter_get_alora_n_invocation_tokens(adapter.get()), 0u);
  EXPECT_EQ(llama_adapter_get_alora_invocation_tokens(adapter.get()), nullptr);
}

TEST_F(LlamaAdapters, AreRefused) {
  LogLines log;
  EXPECT_EQ(open("/no/such/file"), nullptr);
  EXPECT_NE(log.take().find("llama_adapter_lora_init: /no/such/file"), std::string::npos);
  EXPECT_EQ(open(story_model()), nullptr);
  EXPECT_EQ(llama_adapter_lora_init(model_.get(), nullptr), nullptr);
  llama_adapter_lora* bad[] = {nullptr};
  float scale = 1;
  EXPECT_EQ(llama_set_adapters_lora(context_.get(), bad, 1, &scale), -1);
  EXPECT_EQ(llama_set_adapters_lora(context_.get(), nullptr, 1, &scale), -1);
  const LlamaModel other = load_llama(story_model());
  const LlamaAdapter of_other(llama_adapter_lora_init(other.get(), path_.c_str()), llama_adapter_lora_free);
  llama_adapter_lora* wrong[] = {of_other.get()};
  log.take();
  EXPECT_EQ(llama_set_adapters_lora(context_.get(), wrong, 1, &scale), -1);
  EXPECT_NE(log.take().find("adapter 0: of another model"), std::string::npos);
  llama_adapter_lora* adapters[] = {of_other.get()};
  float nan = std::numeric_limits<float>::quiet_NaN();
  const LlamaContext of_other_context = create_llama(other.get());
  EXPECT_EQ(llama_set_adapters_lora(of_other_context.get(), adapters, 1, &nan), -1);
  EXPECT_EQ(decode_all(of_other_context.get(), tokens_), 0);
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  const LlamaModel vocab = load_llama(story_model(), params);
  EXPECT_EQ(llama_adapter_lora_init(vocab.get(), path_.c_str()), nullptr);
}

TEST_F(LlamaAdapters, AreControlVectorsAsWell) {
  LogLines log;
  const auto plain = row_with({}, {});
  std::vector<float> directions(4 * 64);
  Rng rng(3);
  for (float& value : directions) value = rng.next_float(-0.5f, 0.5f);
  const auto set = [&](size_t n, int32_t first, int32_t last, int32_t n_embd = 64) {
    return llama_set_adapter_cvec(context_.get(), directions.data(), n, n_embd, first, last);
  };
  const auto row = [&] {
    llama_memory_clear(llama_get_memory(context_.get()), true);
    EXPECT_EQ(decode_all(context_.get(), tokens_), 0);
    return row_of(context_.get(), -1);
  };
  ASSERT_EQ(set(directions.size(), 2, 3), 0) << log.take();
  const auto steered = row();
  // The same directions from a file.
  const auto engine = load_engine(story_model());
  ASSERT_OK(engine);
  GgufBuilder builder;
  builder.set("general.architecture", std::string("controlvector"));
  std::vector<std::span<const std::byte>> bytes;
  for (size_t layer = 1; layer <= 4; ++layer) {
    ASSERT_OK(builder.add_tensor("direction." + std::to_string(layer), DType::f32, Shape{64}));
    bytes.push_back(std::as_bytes(std::span(directions).subspan((layer - 1) * 64, 64)));
  }
  const auto written = gguf_to_bytes(builder, bytes);
  ASSERT_OK(written);
  const std::string path =
      write_temporary("vector.gguf", {reinterpret_cast<const char*>(written->data()), written->size()});
  auto vector = Adapter::open_control_vector(**engine, path, {.first = 2, .last = 3});
  ASSERT_OK(vector);
  ASSERT_OK((*vector)->load());
  auto session = Session::create(*engine, {.n_ctx = 256, .adapters = {{*vector, 1.0f}}});
  ASSERT_OK(session);
  ASSERT_OK((*session)->decode(Batch::prompt(tokens_, 0, 0)));
  EXPECT_TRUE(std::ranges::equal(steered, (*session)->logits(0)));
  EXPECT_NE(steered, plain);
  // With a LoRA adapter beside it, and alone again.
  const LlamaAdapter adapter = open(path_);
  EXPECT_NE(row_with({adapter.get()}, {1}), steered);
  EXPECT_EQ(row_with({}, {}), steered);
  ASSERT_EQ(set(directions.size(), 1, 100), 0);
  EXPECT_NE(row(), steered);
  EXPECT_EQ(log.take(), "");
  EXPECT_EQ(set(directions.size(), 2, 3, 32), -1);
  EXPECT_NE(log.take().find("n_embd: 32, the model has 64"), std::string::npos);
  EXPECT_EQ(set(directions.size(), 0, 3), -1);
  EXPECT_EQ(set(directions.size(), 3, 2), -1);
  EXPECT_EQ(set(63, 1, 3), -1);
  EXPECT_EQ(set(64, 2, 3), -1);
  EXPECT_EQ(llama_set_adapter_cvec(context_.get(), nullptr, 0, 0, 0, 0), 0);
  EXPECT_EQ(row(), plain);
}

}  // namespace
}  // namespace tessera
