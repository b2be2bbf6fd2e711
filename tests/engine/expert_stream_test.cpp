// Models whose experts stay in the file: the bits of the model in memory, the planned bytes, settings that fit, and
// files that change.
#include <filesystem>

#include "tessera/engine/expert_files.h"
#include "tests/cpu/smaps.h"
#include "tests/engine/fit_support.h"
#include "tests/support/arch_files.h"
#include "tests/support/expert_model.h"

namespace tessera {
namespace {

using namespace testing;

bool has_streamable_experts(const std::string& path) {
  const auto registry = create_registry("").value();
  return Engine::open(*registry, path, {}).value()->can_stream_experts();
}

EngineOptions with_cache(uint64_t bytes) { return {.placement = {.expert_cache = bytes}}; }

// A prompt, single tokens, and a second sequence beside them.
Result<std::vector<float>> logits_of_model(const std::string& path, const EngineOptions& options, int n_threads) {
  TESSERA_ASSIGN(const auto engine, load_engine(path, options));
  TESSERA_ASSIGN(
      const auto session,
      Session::create(engine, {.n_ctx = 64, .n_sequences = 2, .n_outputs = 24, .threads = {.n_threads = n_threads}}));
  const std::vector<int32_t> tokens = token_ids(*engine, 30);
  TESSERA_ASSIGN(std::vector<float> logits, logits_of(*session, std::span(tokens).first(20)));
  for (int32_t i = 20; i < 30 && engine->model().info().is_causal; ++i) {
    TESSERA_TRY(session->decode(all_logits(std::span(tokens).subspan(static_cast<size_t>(i), 1), i)));
    logits.insert(logits.end(), session->logits(0).begin(), session->logits(0).end());
  }
  TESSERA_TRY(session->decode(all_logits(std::span(tokens).first(3), 0, 1)));
  const std::vector<float> rows = all_rows(*session);
  logits.insert(logits.end(), rows.begin(), rows.end());
  if (options.placement.expert_cache && engine->stream_counts()->n_misses == 0)
    return fail(ErrorCode::mismatch, "no experts were read");
  return logits;
}

class ExpertStream : public ::testing::TestWithParam<const char*> {};

std::vector<const char*> files_with_experts() {
  std::vector<const char*> files(std::begin(kArchFiles), std::end(kArchFiles));
  // The last two are of architectures that do not use the experts of a file.
  std::erase_if(files, [](std::string_view name) {
    return !name.ends_with("-moe") || name == "ernie4_5-moe" || name == "refact-moe";
  });
  return files;
}

INSTANTIATE_TEST_SUITE_P(Models, ExpertStream, ::testing::ValuesIn(files_with_experts()), arch_file_name);

TEST_P(ExpertStream, GivesTheBitsOfTheModelInMemory) {
  const std::string path = arch_model(GetParam());
  ASSERT_TRUE(has_streamable_experts(path));
  ASSERT_OK_AND_ASSIGN(const auto want, logits_of_model(path, {}, 1));
  for (const int n_threads : {1, 3})
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 19, uint64_t{1} << 40})
      for (const ExpertReads reads : {ExpertReads::direct, ExpertReads::cached}) {
        EngineOptions options = with_cache(bytes);
        options.placement.expert_reads = reads;
        ASSERT_OK_AND_ASSIGN(const auto got, logits_of_model(path, options, n_threads));
        EXPECT_TRUE(same_bits(got, want)) << bytes << " bytes, " << n_threads << " threads";
      }
}

TEST(ExpertStreams, WorkWithEveryWayToOpenAModel) {
  const std::string path = arch_model("qwen3moe-moe");
  ASSERT_OK_AND_ASSIGN(const auto want, logits_of_model(path, {}, 2));
  EngineOptions options = with_cache(0);
  options.load = LoadMode::read;
  EXPECT_TRUE(same_bits(logits_of_model(path, options, 2).value(), want));
  options.pack_weights = false;
  EXPECT_TRUE(same_bits(logits_of_model(path, options, 2).value(), want));
  options.check_tensors = true;
  options.load = LoadMode::mmap;
  EXPECT_TRUE(same_bits(logits_of_model(path, options, 2).value(), want));

  const std::string bytes = read_all(path);
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Registry> registry, create_registry(""));
  ASSERT_OK_AND_ASSIGN(LoadedModel model,
                       open_model(registry, {.bytes = std::as_bytes(std::span(bytes)), .engine = with_cache(0)}));
  ASSERT_OK(load_session(model, {.n_ctx = 64, .n_outputs = 20}));
  ASSERT_OK_AND_ASSIGN(const auto logits, logits_of(*model.session, token_ids(*model.engine, 20)));
  EXPECT_TRUE(same_bits(logits, std::span(want).first(logits.size())));
}

TEST(ExpertStreams, TakeThePlannedBytes) {
  const std::string path = arch_model("qwen3moe-moe");
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Registry> registry, create_registry(""));
  size_t before = 0;
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{9} << 20, uint64_t{1} << 40}) {
    ASSERT_OK_AND_ASSIGN(const auto engine, Engine::open(*registry, path, with_cache(bytes)));
    const auto planned = engine->planned_memory();
    EXPECT_TRUE(engine->allocated_memory().empty() || engine->allocated_memory().front().bytes == 0);
    ASSERT_OK(engine->load({}));
    const auto allocated = engine->allocated_memory();
    ASSERT_EQ(planned.size(), allocated.size());
    size_t cache = 0;
    for (size_t i = 0; i < planned.size(); ++i) {
      EXPECT_EQ(planned[i].buffer, allocated[i].buffer);
      EXPECT_EQ(planned[i].bytes, allocated[i].bytes) << planned[i].buffer;
      if (planned[i].buffer == "cpu-experts") cache = planned[i].bytes;
    }
    EXPECT_EQ(cache, engine->stream_bytes());
    if (bytes == 9 << 20) {
      EXPECT_LE(cache, bytes);
    }
    EXPECT_GE(cache, before);
    before = cache;
  }
}

// Pages of the mapped file would be memory beside the plan. The system maps a few more around those in use.
TEST(ExpertStreams, KeepNoPagesOfTheFileInMemory) {
  const std::string path = many_experts_model("pages.gguf");
  for (const bool checks : {false, true})
    for (const bool streams : {false, true}) {
      EngineOptions options;
      options.check_tensors = checks;
      if (streams) options.placement.expert_cache = 0;
      ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path, options));
      const std::span<const std::byte> file = engine->files().files()[0]->bytes();
      std::istringstream line(mapping_line(file.data(), "Rss:"));
      std::string key;
      size_t kib = 0;
      ASSERT_TRUE(line >> key >> kib);
      EXPECT_LT(kib << 10, file.size() / 2)
          << "of " << file.size() << " bytes, checks " << checks << ", streams " << streams;
    }
}

TEST(ExpertStreams, ModelsWithoutExpertsIgnoreThem) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(story_model(), with_cache(1 << 20)));
  EXPECT_FALSE(engine->can_stream_experts());
  EXPECT_EQ(engine->stream_bytes(), 0);
  EXPECT_FALSE(engine->stream_counts().has_value());
}

TEST(ExpertStreams, AFileThatIsCutOffIsAnError) {
  const std::string path = temporary_path("cut.gguf");
  for (const ExpertReads reads : {ExpertReads::direct, ExpertReads::cached}) {
    std::filesystem::copy_file(arch_model("qwen3moe-moe"), path, std::filesystem::copy_options::overwrite_existing);
    EngineOptions options = with_cache(0);
    options.load = LoadMode::read;
    options.placement.expert_reads = reads;
    ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path, options));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 64, .n_outputs = 20}));
    std::filesystem::resize_file(path, 4096);
    const auto cut = logits_of(*session, token_ids(*engine, 20));
    EXPECT_ERROR(cut, "cut.gguf: ends at byte");
    EXPECT_EQ(cut.error().code(), ErrorCode::io);
  }
}

// divide_slots() on three weights: slots of 1, 1 and 2 panels of 64 floats.
TEST(ExpertStreams, DivideTheCacheEvenly) {
  const auto device = cpu::create_device("").value();
  const StreamedBufferType& type = *device->streamed_buffer_type();
  std::vector<Tensor> tensors;
  for (const Shape& shape : {Shape{64, 16, 8}, Shape{64, 16, 3}, Shape{64, 32, 8}})
    tensors.push_back({{DType::f32, contiguous_layout(DType::f32, shape).value()}, "w"});
  const Tensor* weights[] = {&tensors[0], &tensors[1], &tensors[2]};
  const auto slots = [&](uint64_t bytes) {
    std::vector<int64_t> n;
    const auto divided = divide_slots(type, weights, bytes).value();
    for (const StreamedWeight& one : divided) n.push_back(one.n_slots);
    return n;
  };
  using Counts = std::vector<int64_t>;
  const size_t unit = type.slot_bytes(DType::f32, {64, 16, 8}).value();
  const auto least = type.cache_bytes(divide_slots(type, weights, 0).value()).value();
  EXPECT_EQ(slots(0), (Counts{2, 2, 2}));
  EXPECT_EQ(slots(least + unit - 1), (Counts{2, 2, 2}));
  EXPECT_EQ(slots(least + unit), (Counts{3, 2, 2}));
  EXPECT_EQ(slots(least + 2 * unit), (Counts{3, 3, 2}));
  EXPECT_EQ(slots(least + 4 * unit), (Counts{3, 3, 3}));
  EXPECT_EQ(slots(least + 7 * unit), (Counts{4, 3, 4}));
  EXPECT_EQ(slots(UINT64_MAX), (Counts{8, 3, 8}));
}

TEST(ExpertStreams, AreChosenIfTheBoundIsTooSmallForTheModel) {
  const std::string path = many_experts_model("bound.gguf");
  const SessionOptions asked{.n_ctx = 256, .n_ubatch = 16, .type_k = DType::q8_0, .type_v = DType::q8_0};
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Registry> registry, create_registry(""));
  const auto open = [&] { return open_model(registry, {.path = path}).value(); };
  const uint64_t whole = Session::plan(*open().engine, asked).value().total();
  ASSERT_OK_AND_ASSIGN(const Fitted in_memory, fit(*open().engine, {}, asked, {.most_bytes = whole}));
  EXPECT_EQ(in_memory.choice, "");

  const LoadedModel model = open();
  const uint64_t most = whole / 2;
  ASSERT_OK_AND_ASSIGN(const Fitted fitted, fit(*model.engine, {}, asked, {.most_bytes = most}));
  EXPECT_LE(fitted.report.total(), most);
  EXPECT_GT(fitted.report.total(), most - (256 << 10));  // at most one expert less than fits
  EXPECT_EQ(fitted.report.total(), Session::plan(*model.engine, fitted.session).value().total());
  EXPECT_EQ(fitted.session.n_ctx, 256);
  EXPECT_NE(fitted.choice.find("fit: experts stay in the file, option expert_cache "), std::string::npos);
  ASSERT_OK(model.engine->load({}));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(model.engine, fitted.session));
  EXPECT_EQ(session->allocated_memory().total(), fitted.report.total());
  EXPECT_OK(session->decode(all_logits(std::vector<int32_t>{5})));

  const auto too_little = fit(*open().engine, {}, asked, {.most_bytes = whole / 20});
  EXPECT_ERROR(too_little, "nothing fits");
  EXPECT_EQ(too_little.error().code(), ErrorCode::out_of_memory);
}

// A cache of experts is worth more than a long context that nobody asked for.
TEST(ExpertStreams, LeaveAShortContextIfNoneWasAskedFor) {
  const std::string path = many_experts_model("context.gguf");
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Registry> registry, create_registry(""));
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, open_model(registry, {.path = path}));
  ASSERT_OK_AND_ASSIGN(const Fitted fitted,
                       fit(*model.engine, {}, {}, {.least_ctx = 512, .most_bytes = uint64_t{10} << 20}));
  EXPECT_EQ(fitted.session.n_ctx, 512);
  EXPECT_GT(model.engine->stream_bytes(), 0);
}

TEST(ExpertStreams, AreChosenIfTheMachineHasTooLittleMemory) {
  const std::string path = many_experts_model("machine.gguf");
  const SessionOptions asked{.n_ctx = 256, .n_ubatch = 16};
  const auto registry = std::make_shared<Registry>();
  registry->add(std::make_unique<FakeDevice>(
      FakeDevice::Options{.name = "cpu", .kind = DeviceKind::cpu, .limit_bytes = 8 << 20}));
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, open_model(registry, {.path = path}));
  ASSERT_OK_AND_ASSIGN(const Fitted fitted, fit(*model.engine, {}, asked, {.margin_bytes = 1 << 20}));
  const size_t taken = fitted.report.bytes_of("cpu"), budget = (8 << 20) - (8 << 20) / 16;
  EXPECT_LE(taken, budget);
  EXPECT_GT(taken, budget - (256 << 10));
  EXPECT_NE(fitted.choice.find("experts stay in the file"), std::string::npos) << fitted.choice;
  EXPECT_NE(fitted.choice.find("8388608 available on cpu"), std::string::npos) << fitted.choice;
  // Without --fit nothing is chosen.
  ASSERT_OK_AND_ASSIGN(const LoadedModel fixed, open_model(registry, {.path = path}));
  EXPECT_ERROR(fit(*fixed.engine, {}, asked, {.is_on = false}), "available on cpu");
  EXPECT_EQ(fixed.engine->stream_bytes(), 0);
}

TEST(ExpertStreams, NeedExpertsOnTheCpu) {
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Registry> registry, create_registry(""));
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, open_model(registry, {.path = story_model()}));
  EXPECT_ERROR(stream_experts(*model.engine, {}, {}, 1 << 20, {}), "no experts that can stay in the file");
  // A device that is not the CPU keeps its experts in its memory.
  ASSERT_OK_AND_ASSIGN(const Opened opened, open_with(many_experts_model("device.gguf"), uint64_t{1} << 40));
  EXPECT_FALSE(opened.model.engine->can_stream_experts());
}

TEST(ExpertStreams, AFailedSearchLeavesThePlacement) {
  const std::string path = many_experts_model("failed.gguf");
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Registry> registry, create_registry(""));
  ASSERT_OK_AND_ASSIGN(const LoadedModel model, open_model(registry, {.path = path}));
  EXPECT_ERROR(stream_experts(*model.engine, {}, {.n_ctx = 256}, 1 << 20, {}), "with two experts of each layer");
  EXPECT_EQ(model.engine->stream_bytes(), 0);
}

}  // namespace
}  // namespace tessera
