// Adapters in sessions: sequences with different adapters in a batch have the same bits as alone, sequences without
// adapters have the bits of the plain model, and control vectors equal biases.
#include "tessera/engine/adapter.h"

#include <algorithm>

#include "tests/support/editable_model.h"
#include "tests/support/engine_support.h"
#include "tests/support/lora_support.h"

namespace tessera {
namespace {

using namespace testing;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Result<SessionAdapter> load_lora(const Engine& engine, const std::string& path, float scale = 1.0f) {
  TESSERA_ASSIGN(auto adapter, Adapter::open_lora(engine, path));
  TESSERA_TRY(adapter->load());
  return SessionAdapter{std::move(adapter), scale};
}

Result<SessionAdapter> load_control_vector(const Engine& engine, const std::string& path, float scale,
                                           const LayerSpan& span = {}) {
  TESSERA_ASSIGN(auto adapter, Adapter::open_control_vector(engine, path, span));
  TESSERA_TRY(adapter->load());
  return SessionAdapter{std::move(adapter), scale};
}

double relative_error(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double error = 0, most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error = std::max(error, std::abs(double{a[i]} - double{b[i]}));
    most = std::max(most, std::abs(double{b[i]}));
  }
  return error / most;
}

class AdapterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = story_model();
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(path_));
    tokens_ = token_ids(*engine_, 24);
  }

  Result<std::unique_ptr<Session>> open(std::vector<SessionAdapter> adapters, int64_t n_ubatch = 512) const {
    return Session::create(engine_, {.n_ctx = 256,
                                     .n_ubatch = n_ubatch,
                                     .n_sequences = 4,
                                     .n_outputs = 128,
                                     .threads = {.n_threads = 2},
                                     .adapters = std::move(adapters)});
  }
  // Returns the logits of the tokens in a session of their own.
  std::vector<float> alone(std::vector<SessionAdapter> adapters) const {
    const auto session = open(std::move(adapters));
    EXPECT_OK(session);
    if (!session) return {};
    auto rows = logits_of(**session, tokens_);
    EXPECT_OK(rows);
    return rows.value_or(std::vector<float>());
  }

  std::string path_;
  std::shared_ptr<Engine> engine_;
  std::vector<int32_t> tokens_;
};

TEST_F(AdapterTest, SequencesOfABatchHaveTheirOwnAdaptersAndTheBitsTheyHaveAlone) {
  ASSERT_OK_AND_ASSIGN(const auto first, load_lora(*engine_, write_lora(path_, "first.gguf", 4, 8, 1), 0));
  ASSERT_OK_AND_ASSIGN(const auto second, load_lora(*engine_, write_lora(path_, "second.gguf", 3, 0, 2), 0));
  const auto with = [&](const SessionAdapter& adapter, float scale) { return SessionAdapter{adapter.adapter, scale}; };
  const std::vector<std::vector<float>> want = {alone({}), alone({with(first, 1)}),
                                                alone({with(first, 0.5f), with(second, -2)}), alone({with(second, 1)})};
  for (size_t i = 1; i < want.size(); ++i) EXPECT_GT(relative_error(want[i], want[0]), 1e-2) << i;
  for (const int64_t n_ubatch : {512, 7, 1}) {
    ASSERT_OK_AND_ASSIGN(const auto session, open({first, second}, n_ubatch));
    const auto set = [&](int32_t sequence, std::vector<AdapterScale> scales) {
      return session->set_adapters(sequence, scales);
    };
    ASSERT_OK(set(1, {{.adapter = 0, .scale = 1}}));
    ASSERT_OK(set(2, {{.adapter = 1, .scale = -2}, {.adapter = 0, .scale = 0.5f}}));
    ASSERT_OK(set(3, {{.adapter = 1}}));
    Batch batch;  // tokens of the sequences alternate
    for (size_t i = 0; i < tokens_.size(); ++i)
      for (int32_t sequence = 0; sequence < 4; ++sequence)
        batch.add(
            {.token = tokens_[i], .position = static_cast<int32_t>(i), .sequence = sequence, .wants_logits = true});
    ASSERT_OK(session->decode(batch));
    for (size_t i = 0; i < tokens_.size(); ++i)
      for (size_t sequence = 0; sequence < 4; ++sequence) {
        const auto n_vocab = static_cast<size_t>(engine_->model().info().n_vocab);
        ASSERT_TRUE(same_bits(session->logits(static_cast<int64_t>(4 * i + sequence)),
                              std::span(want[sequence]).subspan(i * n_vocab, n_vocab)))
            << "token " << i << " of sequence " << sequence << ", micro-batches of " << n_ubatch;
      }
  }
}

// If only some tokens need logits, the last layer uses the scales of these tokens.
TEST_F(AdapterTest, WantedTokensHaveTheirOwnScales) {
  ASSERT_OK_AND_ASSIGN(const auto lora, load_lora(*engine_, write_lora(path_, "some.gguf", 4, 4, 3)));
  const std::vector<float> plain = alone({}), adapted = alone({lora});
  ASSERT_OK_AND_ASSIGN(const auto session, open({lora}));
  ASSERT_OK(session->set_adapters(0, {}));
  Batch batch;
  const auto n = static_cast<int32_t>(tokens_.size());
  for (const int32_t sequence : {0, 1})
    for (int32_t i = 0; i < n; ++i)
      batch.add({.token = tokens_[static_cast<size_t>(i)],
                 .position = i,
                 .sequence = sequence,
                 .wants_logits = i == n - 1 || (sequence == 1 && i == 3)});
  ASSERT_OK(session->decode(batch));
  const auto n_vocab = static_cast<size_t>(engine_->model().info().n_vocab);
  const auto row = [&](const std::vector<float>& rows, size_t i) {
    return std::span(rows).subspan(i * n_vocab, n_vocab);
  };
  EXPECT_TRUE(same_bits(session->logits(0), row(plain, tokens_.size() - 1)));
  EXPECT_TRUE(same_bits(session->logits(1), row(adapted, 3)));
  EXPECT_TRUE(same_bits(session->logits(2), row(adapted, tokens_.size() - 1)));
}

TEST_F(AdapterTest, AdaptersAreChangedBetweenBatches) {
  ASSERT_OK_AND_ASSIGN(const auto lora, load_lora(*engine_, write_lora(path_, "swap.gguf", 5, 10, 4)));
  const std::vector<float> plain = alone({}), adapted = alone({lora});
  ASSERT_OK_AND_ASSIGN(const auto session, open({lora}));
  const std::vector<AdapterScale> on = {{.adapter = 0}};
  for (const bool is_on : {true, false, true, false}) {
    ASSERT_OK(session->clear());
    ASSERT_OK(session->set_adapters(0, is_on ? std::span<const AdapterScale>(on) : std::span<const AdapterScale>()));
    ASSERT_OK_AND_ASSIGN(const auto rows, logits_of(*session, tokens_));
    EXPECT_TRUE(same_bits(rows, is_on ? adapted : plain)) << is_on;
  }
}

TEST_F(AdapterTest, MatricesMayBeOfAnyType) {
  // Rows of b have `rank` elements, and 32 is a whole block.
  const std::string exact = write_lora(path_, "exact.gguf", 32, 16, 5);
  ASSERT_OK_AND_ASSIGN(const auto f32, load_lora(*engine_, exact));
  const std::vector<float> want = alone({f32});
  const auto leave_out = [](std::string_view name) { return name.find("ffn_down") != std::string_view::npos; };
  for (const auto& [dtype, bound] : {std::pair{DType::f16, 2e-2}, {DType::bf16, 1e-1}, {DType::q8_0, 1e-1}}) {
    const std::string path = write_lora(path_, "typed.gguf", 32, 16, 5, leave_out, dtype);
    const std::string same = write_lora(path_, "same.gguf", 32, 16, 5, leave_out);
    ASSERT_OK_AND_ASSIGN(const auto typed, load_lora(*engine_, path));
    ASSERT_OK_AND_ASSIGN(const auto untyped, load_lora(*engine_, same));
    // Rounding to the type's bits, and to 8-bit activations for types that use them.
    EXPECT_LT(relative_error(alone({typed}), alone({untyped})), bound) << info(dtype).name;
  }
  EXPECT_GT(relative_error(want, alone({})), 1e-2);
}

TEST_F(AdapterTest, MemoryIsPlannedAndAllocatedToTheByte) {
  const std::string path = write_lora(path_, "memory.gguf", 8, 8, 6);
  ASSERT_OK_AND_ASSIGN(auto adapter, Adapter::open_lora(*engine_, path));
  const SessionOptions options{.n_ctx = 128, .n_ubatch = 32, .adapters = {{adapter, 1.0f}}};
  ASSERT_OK_AND_ASSIGN(const MemoryReport plan, Session::plan(*engine_, options));
  ASSERT_OK_AND_ASSIGN(const MemoryReport plain, Session::plan(*engine_, {.n_ctx = 128, .n_ubatch = 32}));
  using Kind = MemoryPart::Kind;
  EXPECT_GT(plan.bytes(Kind::weights), plain.bytes(Kind::weights));
  EXPECT_GT(plan.bytes(Kind::compute), plain.bytes(Kind::compute));
  EXPECT_ERROR(Session::create(engine_, options), "the adapter is not loaded");
  ASSERT_OK(adapter->load());
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine_, options));
  EXPECT_EQ(session->allocated_memory().total(), plan.total());
  EXPECT_EQ(session->allocated_memory().bytes(Kind::weights), plan.bytes(Kind::weights));
}

TEST_F(AdapterTest, ScalesAreChecked) {
  ASSERT_OK_AND_ASSIGN(const auto lora, load_lora(*engine_, write_lora(path_, "scales.gguf", 2, 2, 7)));
  ASSERT_OK_AND_ASSIGN(const auto session, open({lora}));
  const auto set = [&](int32_t sequence, AdapterScale scale) { return session->set_adapters(sequence, {&scale, 1}); };
  EXPECT_ERROR(set(-1, {}), "sequence -1, want 0 to 3");
  EXPECT_ERROR(set(4, {}), "sequence 4, want 0 to 3");
  EXPECT_ERROR(set(0, {.adapter = 1}), "adapter 1, the session has 1");
  EXPECT_ERROR(set(0, {.scale = kNaN}), "scale nan");
  EXPECT_ERROR(open({{lora.adapter, kNaN}}), "scale nan");
  EXPECT_ERROR(open(std::vector<SessionAdapter>(65, lora)), "65 adapters, limit 64");
  ASSERT_OK_AND_ASSIGN(const auto other, load_engine(path_));
  EXPECT_ERROR(Session::create(other, {.n_ctx = 64, .adapters = {lora}}), "opened for another model");
}

TEST_F(AdapterTest, RefusesWeightsThatItCannotFollow) {
  AdapterFile file = AdapterFile::lora("llama", 1);
  file.add_random("blk.0.attn_norm.weight.lora_a", {64, 1}, 1);
  file.add_random("blk.0.attn_norm.weight.lora_b", {1, 1}, 1);
  EXPECT_ERROR(Adapter::open_lora(*engine_, file.write("norm.gguf")), "cannot follow");
}

TEST_F(AdapterTest, RefusesValuesThatAreNotFinite) {
  AdapterFile file = AdapterFile::lora("llama", 1);
  std::vector<float> values(64 * 2, 0.5f);
  values[77] = kNaN;
  file.add("blk.1.attn_q.weight.lora_a", {64, 2}, values);
  file.add_random("blk.1.attn_q.weight.lora_b", {2, 64}, 1);
  ASSERT_OK_AND_ASSIGN(auto adapter, Adapter::open_lora(*engine_, file.write("nan.gguf")));
  EXPECT_ERROR(adapter->load(), "tensor blk.1.attn_q.weight.lora_a: block 77: value 0 is nan");
}

// A graph that reads a weight in another way than by a product would ignore the adapter.
TEST_F(AdapterTest, RefusesAGraphThatPassesItBy) {
  ASSERT_OK_AND_ASSIGN(const auto lora, load_lora(*engine_, write_lora(path_, "passed.gguf", 2, 2, 8)));
  ASSERT_OK_AND_ASSIGN(const AdapterSet set, AdapterSet::create(*engine_, {lora}, 1));
  const auto& weights = engine_->model().weights().weights();
  const auto weight = std::ranges::find(weights, Op::mul_mat, &Weight::use);
  ASSERT_NE(weight, weights.end());
  GraphBuilder b;
  b.output(b.cast(b.tensor(weight->tensor), DType::f32), "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).finish());
  EXPECT_ERROR(set.require_terms(graph), "cannot follow what the model does with " + weight->tensor.name);
}

// --- control vectors

// A vector added to the output of a layer equals a bias of its last product.
TEST_F(AdapterTest, ControlVectorsAreBiasesOfTheLayersThatTheyName) {
  AdapterFile file = AdapterFile::control_vector(), other = AdapterFile::control_vector();
  other.rng = Rng(5);
  EditableModel biased(path_);
  const auto add_bias = [&](int64_t layer, const std::vector<float>& values) {
    EXPECT_OK(biased.builder.add_tensor("blk." + std::to_string(layer) + ".ffn_down.bias", DType::f32, {64}));
    const auto bytes = std::as_bytes(std::span(values));
    biased.data.emplace_back(bytes.begin(), bytes.end());
  };
  for (int64_t layer = 1; layer < 5; ++layer) {
    std::vector<float> first = file.random(64, 0.5f), second = other.random(64, 0.5f);
    file.add("direction." + std::to_string(layer), {64}, first);
    if (layer < 3) other.add("direction." + std::to_string(layer), {64}, second);
    for (size_t i = 0; i < first.size(); ++i) first[i] = 1.5f * first[i] + (layer < 3 ? -0.5f * second[i] : 0.0f);
    if (layer >= 2) add_bias(layer, first);
  }
  const LayerSpan span{.first = 2, .last = 4};
  ASSERT_OK_AND_ASSIGN(const auto one, load_control_vector(*engine_, file.write("one.gguf"), 1.5f, span));
  ASSERT_OK_AND_ASSIGN(const auto two, load_control_vector(*engine_, other.write("two.gguf"), -0.5f, span));
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(biased.write("biased.gguf")));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 64, .n_outputs = 64}));
  ASSERT_OK_AND_ASSIGN(const auto want, logits_of(*session, tokens_));
  const std::vector<float> got = alone({one, two});
  EXPECT_LT(relative_error(got, want), 1e-5);  // the order of three additions
  EXPECT_GT(relative_error(got, alone({})), 1e-2);
  EXPECT_GT(relative_error(alone({one}), want), 1e-3);
}

TEST_F(AdapterTest, ControlVectorsOfOtherModelsAreRefused) {
  const auto refused = [&](AdapterFile file, const LayerSpan& span, const char* why) {
    EXPECT_ERROR(Adapter::open_control_vector(*engine_, file.write("bad.gguf"), span), why);
  };
  const auto with = [](const std::string& name, const Shape& shape, DType dtype = DType::f32) {
    AdapterFile file = AdapterFile::control_vector();
    file.add_random(name, shape, 1, dtype);
    return file;
  };
  refused(with("direction.1", {63}), {}, "'direction.1' is f32 [63], the model ");
  refused(with("direction.1", {64}, DType::f16), {}, "is f16 [64]");
  refused(with("direction.1", {64, 2}), {}, "[64, 2]");
  refused(with("direction.0", {64}), {}, "takes direction.1 to 4");
  refused(with("direction.5", {64}), {}, "takes direction.1 to 4");
  refused(with("direction.99999999999999999999", {64}), {}, "want names like direction.1");
  refused(with("direction.-1", {64}), {}, "takes direction.1 to 4");
  refused(with("direction.x", {64}), {}, "want names like direction.1");
  refused(with("output.weight", {64}), {}, "want names like direction.1");
  refused(with("direction.1", {64}), {.first = 2}, "no direction for layers 2 to");
  refused(AdapterFile::control_vector(), {}, "without directions");
  AdapterFile hinted = with("direction.1", {64});
  hinted.builder.set("controlvector.model_hint", "qwen2");
  refused(std::move(hinted), {}, "a control vector for architecture 'qwen2'");
  refused(AdapterFile::lora("llama", 1), {}, "architecture 'llama', a control vector's is");
}

}  // namespace
}  // namespace tessera
