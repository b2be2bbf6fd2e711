// Adapters of tessera.h.
#include <limits>

#include "tessera/capi/objects.h"
#include "tests/capi/capi_support.h"
#include "tests/support/lora_support.h"

namespace tessera {
namespace {

using namespace testing;

std::string write_directions(const std::string& name) {
  AdapterFile file = AdapterFile::control_vector();
  for (const int layer : {1, 3}) file.add_random("direction." + std::to_string(layer), {64}, 1.0f);
  return file.write(name);
}

class CapiAdapter : public ::testing::Test {
 protected:
  AdapterHandle open_lora(uint64_t seed, bool loads = true) const {
    tessera_adapter* adapter = nullptr;
    const std::string path = write_lora(story_model(), "lora" + std::to_string(seed) + ".gguf", 4, 8, seed);
    EXPECT_SUCCESS(tessera_adapter_open_lora(model_.get(), path.c_str(), &adapter, error));
    if (loads) EXPECT_SUCCESS(tessera_adapter_load(adapter, error));
    return {adapter, tessera_adapter_release};
  }
  SessionHandle create(const std::vector<tessera_adapter*>& adapters, const std::vector<float>& scales = {}) const {
    tessera_session_options options;
    tessera_session_options_init(&options, sizeof options);
    options.n_ctx = 128;
    options.n_sequences = 3;
    options.n_outputs = 3;
    options.adapters = adapters.data();
    options.adapter_scales = scales.empty() ? nullptr : scales.data();
    options.n_adapters = adapters.size();
    return create_session_handle(model_.get(), &options);
  }
  std::vector<float> logits(tessera_session* session, int32_t sequence = 0) const {
    EXPECT_SUCCESS(tessera_sequence_remove(session, sequence, 0, -1, error));
    EXPECT_SUCCESS(tessera_session_append(session, sequence, tokens_.data(), tokens_.size(), TESSERA_WANTS_OUTPUT,
                                          nullptr, error));
    uint64_t n = 0;
    const float* row = tessera_session_output(session, 0, &n);
    return {row, row + n};
  }

  RuntimeHandle runtime_ = create_runtime_handle();
  ModelHandle model_ = open_story(runtime_.get());
  std::vector<int32_t> tokens_ = tokens_of(model_.get(), "Once upon a time, there was a girl");
};

TEST_F(CapiAdapter, SequencesUseAdaptersWithTheirScales) {
  const AdapterHandle first = open_lora(1), second = open_lora(2);
  const std::vector<float> plain = logits(create({}).get());
  // What the engine gives for the same files.
  const auto of_engine = [&](std::vector<SessionAdapter> adapters) {
    const auto session = Session::create(model_->engine, {.n_ctx = 128, .adapters = std::move(adapters)});
    EXPECT_OK(session);
    EXPECT_OK((*session)->decode(Batch::prompt(tokens_, 0, 0)));
    const auto row = (*session)->logits(0);
    return std::vector<float>(row.begin(), row.end());
  };
  const std::vector<float> with_first = of_engine({{first->adapter, 1}});
  const std::vector<float> with_both = of_engine({{first->adapter, 0.5f}, {second->adapter, -2}});
  EXPECT_NE(with_first, plain);
  EXPECT_EQ(logits(create({first.get()}).get()), with_first);
  EXPECT_EQ(logits(create({first.get(), second.get()}, {0.5f, -2}).get()), with_both);

  const SessionHandle session = create({first.get(), second.get()}, {0, 0});
  EXPECT_EQ(logits(session.get()), plain);
  tessera_adapter* list[] = {second.get(), first.get()};
  const float scales[] = {-2, 0.5f};
  EXPECT_SUCCESS(tessera_session_set_adapters(session.get(), 1, list, scales, 2, error));
  EXPECT_EQ(logits(session.get(), 0), plain);
  EXPECT_EQ(logits(session.get(), 1), with_both);
  EXPECT_SUCCESS(tessera_session_set_adapters(session.get(), 1, list + 1, nullptr, 1, error));
  EXPECT_EQ(logits(session.get(), 1), with_first);
  EXPECT_SUCCESS(tessera_session_set_adapters(session.get(), 1, nullptr, nullptr, 0, error));
  EXPECT_EQ(logits(session.get(), 1), plain);
}

TEST_F(CapiAdapter, ControlVectorsAreAddedInTheirLayers) {
  const std::string path = write_directions("directions.gguf");
  const std::vector<float> plain = logits(create({}).get());
  std::vector<std::vector<float>> rows;
  for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, -1}, {1, 1}, {2, 3}, {1, 3}}) {
    tessera_adapter* opened = nullptr;
    EXPECT_SUCCESS(tessera_adapter_open_control_vector(model_.get(), path.c_str(), first, last, &opened, error));
    const AdapterHandle adapter(opened, tessera_adapter_release);
    EXPECT_SUCCESS(tessera_adapter_load(opened, error));
    EXPECT_SUCCESS(tessera_adapter_load(opened, error));  // loaded already
    rows.push_back(logits(create({opened}).get()));
    EXPECT_NE(rows.back(), plain);
  }
  EXPECT_EQ(rows[0], rows[3]);
  EXPECT_NE(rows[0], rows[1]);
  EXPECT_NE(rows[1], rows[2]);
  tessera_adapter* none = nullptr;
  const auto refuse = [&](int64_t first, int64_t last, const std::string& text) {
    EXPECT_STATUS(tessera_adapter_open_control_vector(model_.get(), path.c_str(), first, last, &none, error),
                  TESSERA_INVALID_ARGUMENT, text);
  };
  refuse(4, -1, "no direction for layers 4 to ");
  refuse(2, 2, "no direction for layers 2 to 2");
  refuse(-1, 2, "layers: -1 to 2");
  refuse(2, 1, "layers: 2 to 1");
  refuse(0, -2, "layers: 0 to -2");
  EXPECT_EQ(none, nullptr);
}

// The memory of adapters counts for the runtime's budget once, when they are loaded.
TEST_F(CapiAdapter, TakesItsShareOfTheBudget) {
  const uint64_t before = tessera_runtime_memory(runtime_.get());
  AdapterHandle adapter = open_lora(1, false);
  EXPECT_EQ(tessera_runtime_memory(runtime_.get()), before);
  EXPECT_SUCCESS(tessera_adapter_load(adapter.get(), error));
  EXPECT_SUCCESS(tessera_adapter_load(adapter.get(), error));
  const uint64_t with_adapter = tessera_runtime_memory(runtime_.get());
  uint64_t n_bytes = 0;
  for (const MemoryPart& part : adapter->adapter->allocated_memory()) n_bytes += part.bytes;
  EXPECT_EQ(with_adapter, before + n_bytes);
  SessionHandle session = create({adapter.get()});
  uint64_t of_session = 0;
  for (const MemoryPart& part : session->session->allocated_memory().parts)
    if (part.kind != MemoryPart::Kind::weights) of_session += part.bytes;
  EXPECT_EQ(tessera_runtime_memory(runtime_.get()), with_adapter + of_session);
  session.reset();
  adapter.reset();
  EXPECT_EQ(tessera_runtime_memory(runtime_.get()), before);
}

// In any order: an adapter keeps its model, a session its adapters.
TEST_F(CapiAdapter, ReferencesKeepObjects) {
  AdapterHandle adapter = open_lora(1);
  const std::vector<float> want = logits(create({adapter.get()}).get());
  EXPECT_EQ(tessera_adapter_retain(adapter.get()), adapter.get());
  tessera_adapter_release(adapter.get());
  SessionHandle session = create({adapter.get()});
  model_.reset();
  runtime_.reset();
  adapter.reset();
  EXPECT_EQ(logits(session.get()), want);
  session.reset();
  EXPECT_EQ(tessera_adapter_retain(nullptr), nullptr);
  tessera_adapter_release(nullptr);
}

TEST_F(CapiAdapter, KeepsItsModel) {
  AdapterHandle adapter = open_lora(1, false);
  model_.reset();
  runtime_.reset();
  EXPECT_SUCCESS(tessera_adapter_load(adapter.get(), error));
}

TEST_F(CapiAdapter, WrongArgumentsAreRefused) {
  tessera_adapter* none = nullptr;
  const std::string lora = write_lora(story_model(), "lora.gguf", 4, 8, 1);
  EXPECT_STATUS(tessera_adapter_open_lora(nullptr, lora.c_str(), &none, error), TESSERA_INVALID_ARGUMENT,
                "model: is NULL");
  EXPECT_STATUS(tessera_adapter_open_lora(as_handle<tessera_model>(runtime_.get()), lora.c_str(), &none, error),
                TESSERA_INVALID_ARGUMENT, "model: is a handle of another kind");
  EXPECT_STATUS(tessera_adapter_open_lora(model_.get(), nullptr, &none, error), TESSERA_INVALID_ARGUMENT,
                "path: is NULL");
  EXPECT_STATUS(tessera_adapter_open_lora(model_.get(), lora.c_str(), nullptr, error), TESSERA_INVALID_ARGUMENT,
                "adapter: is NULL");
  EXPECT_STATUS(tessera_adapter_open_lora(model_.get(), "/no/such", &none, error), TESSERA_NOT_FOUND, "/no/such");
  EXPECT_STATUS(tessera_adapter_open_lora(model_.get(), story_model().c_str(), &none, error), TESSERA_UNSUPPORTED,
                "story.gguf");
  EXPECT_STATUS(tessera_adapter_open_control_vector(nullptr, "x", 0, -1, &none, error), TESSERA_INVALID_ARGUMENT,
                "model: is NULL");
  EXPECT_STATUS(tessera_adapter_open_control_vector(model_.get(), nullptr, 0, -1, &none, error),
                TESSERA_INVALID_ARGUMENT, "path: is NULL");
  EXPECT_STATUS(tessera_adapter_open_control_vector(model_.get(), "x", 0, -1, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "adapter: is NULL");
  EXPECT_STATUS(tessera_adapter_open_control_vector(model_.get(), lora.c_str(), 0, -1, &none, error), TESSERA_MISMATCH,
                "control vector");
  EXPECT_STATUS(tessera_adapter_load(nullptr, error), TESSERA_INVALID_ARGUMENT, "adapter: is NULL");
  EXPECT_STATUS(tessera_adapter_load(as_handle<tessera_adapter>(model_.get()), error), TESSERA_INVALID_ARGUMENT,
                "adapter: is a handle of another kind");
  const ModelHandle unloaded = open_story(runtime_.get(), false);
  EXPECT_SUCCESS(tessera_adapter_open_lora(unloaded.get(), lora.c_str(), &none, error));
  const AdapterHandle of_unloaded(none, tessera_adapter_release);
  EXPECT_STATUS(tessera_adapter_load(none, error), TESSERA_INVALID_ARGUMENT, "model: call tessera_model_load() first");
}

TEST_F(CapiAdapter, SessionsRefuseWhatTheyCannotUse) {
  const AdapterHandle loaded = open_lora(1), other = open_lora(2), unloaded = open_lora(3, false);
  tessera_session* none = nullptr;
  tessera_session_options options;
  tessera_session_options_init(&options, sizeof options);
  options.n_ctx = 64;
  const auto refuse = [&](tessera_adapter* adapter, const float* scales, tessera_status status,
                          const std::string& text) {
    options.adapters = &adapter;
    options.adapter_scales = scales;
    options.n_adapters = 1;
    EXPECT_STATUS(tessera_session_create(model_.get(), &options, &none, error), status, text);
  };
  const float infinite = std::numeric_limits<float>::infinity();
  refuse(unloaded.get(), nullptr, TESSERA_INVALID_ARGUMENT, "lora3.gguf: call tessera_adapter_load() first");
  refuse(nullptr, nullptr, TESSERA_INVALID_ARGUMENT, "adapters: is NULL");
  refuse(as_handle<tessera_adapter>(model_.get()), nullptr, TESSERA_INVALID_ARGUMENT,
         "adapters: is a handle of another kind");
  refuse(loaded.get(), &infinite, TESSERA_INVALID_ARGUMENT, "scale inf");
  const ModelHandle second = open_story(runtime_.get());
  tessera_adapter* adapter = loaded.get();
  options.adapters = &adapter;
  options.adapter_scales = nullptr;
  EXPECT_STATUS(tessera_session_create(second.get(), &options, &none, error), TESSERA_MISMATCH, "another model");
  options.adapters = nullptr;
  EXPECT_STATUS(tessera_session_create(model_.get(), &options, &none, error), TESSERA_INVALID_ARGUMENT,
                "adapters: is NULL");
  const std::vector<tessera_adapter*> many(65, adapter);
  options.adapters = many.data();
  options.n_adapters = 65;
  EXPECT_STATUS(tessera_session_create(model_.get(), &options, &none, error), TESSERA_LIMIT, "65 adapters, limit 64");
  EXPECT_EQ(none, nullptr);

  // The plan has the adapters, which need not be loaded for it.
  uint64_t n = 0;
  tessera_adapter* planned = unloaded.get();
  options.adapters = &planned;
  options.n_adapters = 1;
  std::vector<tessera_memory_part> parts(32);
  EXPECT_SUCCESS(tessera_session_plan(model_.get(), &options, parts.data(), parts.size(), &n, error));
  const uint64_t n_with = n;
  options.n_adapters = 0;
  EXPECT_SUCCESS(tessera_session_plan(model_.get(), &options, parts.data(), parts.size(), &n, error));
  EXPECT_GT(n_with, n);

  const SessionHandle session = create({adapter});
  const std::vector<float> want = logits(session.get());
  const auto refuse_set = [&](int32_t sequence, tessera_adapter* one, const float* scales, const std::string& text) {
    EXPECT_STATUS(tessera_session_set_adapters(session.get(), sequence, &one, scales, 1, error),
                  TESSERA_INVALID_ARGUMENT, text);
  };
  refuse_set(3, adapter, nullptr, "sequence: 3, want 0 to 2");
  refuse_set(-1, adapter, nullptr, "sequence: -1");
  refuse_set(0, other.get(), nullptr, "lora2.gguf: not an adapter of this session");
  refuse_set(0, nullptr, nullptr, "adapters: is NULL");
  refuse_set(0, adapter, &infinite, "scale inf");
  EXPECT_STATUS(tessera_session_set_adapters(session.get(), 0, nullptr, nullptr, 1, error), TESSERA_INVALID_ARGUMENT,
                "adapters: is NULL");
  EXPECT_STATUS(tessera_session_set_adapters(nullptr, 0, &adapter, nullptr, 1, error), TESSERA_INVALID_ARGUMENT,
                "session: is NULL");
  EXPECT_EQ(logits(session.get()), want);
}

}  // namespace
}  // namespace tessera
