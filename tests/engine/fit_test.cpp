// --fit: for every amount of free memory, a plan that fits or an error with both numbers. The planned memory is the
// allocated memory.
#include "tessera/engine/fit.h"

#include <fmt/format.h>

#include "tests/engine/fit_support.h"

namespace tessera {
namespace {

using namespace testing;

TEST(Fit, LeavesWhatFitsAsItWasAsked) {
  const std::string path = story_model();
  ASSERT_OK_AND_ASSIGN(const Opened opened, open_with(path, uint64_t{1} << 40));
  ASSERT_OK_AND_ASSIGN(const Fitted fitted, fit(*opened.model.engine, {}, {}, {.fits_ubatch = true}));
  EXPECT_EQ(fitted.choice, "");
  EXPECT_EQ(fitted.session.n_ctx, 2048);
  EXPECT_EQ(opened.model.engine->placement().n_offloaded(), 6);
}

TEST(Fit, ShortensTheContextFirst) {
  const std::string path = story_model();
  const uint64_t limit = full_bytes(path, {.n_ctx = 1024});
  ASSERT_OK_AND_ASSIGN(const Opened opened, open_with(path, limit));
  const FitOptions options{.margin_bytes = 0, .least_ctx = 512};
  ASSERT_OK_AND_ASSIGN(const Fitted fitted, fit(*opened.model.engine, {}, {}, options));
  EXPECT_EQ(fitted.session.n_ctx, 1024);
  EXPECT_EQ(opened.model.engine->placement().n_offloaded(), 6);
  EXPECT_EQ(fitted.choice, fmt::format("fit: option n_ctx 1024 (of 2048): fake:0 has {} bytes free, {} were wanted",
                                       limit, full_bytes(path, {.n_ctx = 2048})));
}

TEST(Fit, TakesLayersFromTheDeviceNext) {
  const std::string path = story_model();
  const SessionOptions asked{.n_ctx = 512, .n_ubatch = 1};  // weights and cache need most of the memory
  const uint64_t full = full_bytes(path, asked);
  ASSERT_OK_AND_ASSIGN(const Opened opened, open_with(path, full - 1));
  ASSERT_OK_AND_ASSIGN(const Fitted fitted, fit(*opened.model.engine, {}, asked, {.margin_bytes = 0}));
  EXPECT_EQ(opened.model.engine->placement().n_offloaded(), 5);
  EXPECT_NE(fitted.choice.find("fit: option n_gpu_layers 5 (of 6): fake:0 has "), std::string::npos) << fitted.choice;
  // The margin stays free.
  ASSERT_OK_AND_ASSIGN(const Opened wide, open_with(path, full + 999));
  ASSERT_OK(fit(*wide.model.engine, {}, asked, {.margin_bytes = 1000}));
  EXPECT_EQ(wide.model.engine->placement().n_offloaded(), 5);
}

TEST(Fit, TakesExpertsBeforeLayers) {
  const std::string path = arch_model("llama-moe");
  const SessionOptions asked{.n_ctx = 128, .n_ubatch = 16};
  ASSERT_OK_AND_ASSIGN(const Opened opened, open_with(path, full_bytes(path, asked) - 1));
  ASSERT_OK_AND_ASSIGN(const Fitted fitted, fit(*opened.model.engine, {}, asked, {.margin_bytes = 0}));
  EXPECT_EQ(opened.model.engine->placement_options().n_cpu_expert_layers, 1);
  EXPECT_EQ(opened.model.engine->placement().n_offloaded(), opened.model.engine->placement().n_entries());
  EXPECT_NE(fitted.choice.find("option n_cpu_expert_layers 1"), std::string::npos) << fitted.choice;
}

TEST(Fit, ChangesNothingThatTheUserSet) {
  const std::string path = story_model();
  const SessionOptions asked{.n_ctx = 512};
  ASSERT_OK_AND_ASSIGN(const Opened opened, open_with(path, 100'000, {.n_gpu_layers = 3}));
  const auto fitted = fit(*opened.model.engine, {}, asked, {.margin_bytes = 0});
  EXPECT_ERROR(fitted, "100000 available on fake:0");
  EXPECT_EQ(fitted.error().code(), ErrorCode::out_of_memory);
  ASSERT_OK_AND_ASSIGN(const Opened off, open_with(path, 100'000));
  EXPECT_ERROR(fit(*off.model.engine, {}, asked, {.is_on = false}), "100000 available on fake:0");
}

TEST(FitWithin, TakesTheLargestContextThatFits) {
  ASSERT_OK_AND_ASSIGN(const Opened opened, open_with(story_model(), uint64_t{1} << 40));
  const Engine& engine = *opened.model.engine;
  const auto bytes = [&](const SessionOptions& options) { return Session::plan(engine, options).value().total(); };
  EXPECT_EQ(fit_within(engine, {}, uint64_t{1} << 40).value().session.n_ctx, 2048);
  const uint64_t limit = bytes({.n_ctx = 1024, .n_ubatch = 16});
  ASSERT_OK_AND_ASSIGN(const Fitted fitted, fit_within(engine, {.n_ubatch = 16}, limit));
  EXPECT_EQ(fitted.session.n_ctx, 1024);
  EXPECT_EQ(fitted.report.total(), limit);
  const uint64_t least = bytes({.n_ctx = 256, .n_ubatch = 16});
  EXPECT_EQ(fit_within(engine, {.n_ubatch = 16}, least).value().session.n_ctx, 256);
  EXPECT_ERROR(fit_within(engine, {.n_ubatch = 16}, least - 1),
               fmt::format("nothing fits in {} bytes: the least that was found takes {}", least - 1, least));
  // A requested context does not shrink.
  EXPECT_ERROR(fit_within(engine, {.n_ctx = 1024, .n_ubatch = 16}, limit - 1), "nothing fits");
}

TEST(FitWithin, ShrinksTheMicroBatchAndThenTheCacheTypes) {
  ASSERT_OK_AND_ASSIGN(const Opened opened, open_with(arch_model("llama-dense"), uint64_t{1} << 40));
  const Engine& engine = *opened.model.engine;
  const uint64_t half = Session::plan(engine, {.n_ctx = 4096, .n_ubatch = 256}).value().total();
  ASSERT_OK_AND_ASSIGN(const Fitted by_ubatch, fit_within(engine, {.n_ctx = 4096}, half));
  EXPECT_EQ(by_ubatch.session.n_ubatch, 256);
  EXPECT_EQ(by_ubatch.session.type_k, DType::f16);
  const uint64_t least_f16 = Session::plan(engine, {.n_ctx = 4096, .n_ubatch = 16}).value().total();
  ASSERT_OK_AND_ASSIGN(const Fitted by_type, fit_within(engine, {.n_ctx = 4096}, least_f16 - 1));
  EXPECT_EQ(by_type.session.type_k, DType::q8_0);
  EXPECT_EQ(by_type.session.n_ctx, 4096);
}

}  // namespace
}  // namespace tessera
