// The promise that a result does not depend on the CPU: every vector instruction set computes the same bits, for each
// architecture and each format of weights. (The scalar set has no fused multiply-add, so its bits differ.)
#include "tessera/isa/sets.h"
#include "tests/support/arch_files.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

std::vector<std::string> vector_isas() {
  std::vector<std::string> isas = isa::usable_isas();
  std::erase(isas, "scalar");
  return isas;
}

/// Computes the logits of 40 tokens in one batch, then of one more token if tokens attend only to earlier ones.
Result<std::vector<float>> logits_on(const std::string& isa, const std::string& path) {
  TESSERA_ASSIGN(const auto engine, load_engine(path, {}, isa));
  TESSERA_ASSIGN(const auto session,
                 Session::create(engine, {.n_ctx = 64, .n_outputs = 41, .threads = {.n_threads = 1}}));
  const std::vector<int32_t> tokens = token_ids(*engine, 41);
  TESSERA_ASSIGN(std::vector<float> logits, logits_of(*session, std::span(tokens).first(40)));
  if (!engine->model().info().is_causal) return logits;
  TESSERA_TRY(session->decode(all_logits(std::span(tokens).last(1), 40)));
  logits.insert(logits.end(), session->logits(0).begin(), session->logits(0).end());
  return logits;
}

void expect_same_bits(const std::string& path) {
  std::vector<float> expected;
  for (const std::string& isa : vector_isas()) {
    ASSERT_OK_AND_ASSIGN(const std::vector<float> logits, logits_on(isa, path));
    if (expected.empty()) expected = logits;
    EXPECT_TRUE(same_bits(logits, expected)) << isa << " and " << vector_isas().front();
  }
}

class SameBitsOnIsas : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, SameBitsOnIsas, ::testing::ValuesIn(kArchFiles), arch_file_name);

TEST_P(SameBitsOnIsas, InEveryFormatOfWeights) {
  if (vector_isas().size() < 2) GTEST_SKIP() << "fewer than two vector instruction sets here";
  const std::string name = GetParam(), original = arch_model(name);
  for (const DTypeInfo& type : all_dtypes()) {
    if (!type.is_format) continue;
    if (!runs_all_cases() && name != "llama-dense" && type.dtype != DType::f32 && type.dtype != DType::q4_k) continue;
    SCOPED_TRACE(type.name);
    ASSERT_OK_AND_ASSIGN(const std::string path, requantize(original, type.dtype, "isas.gguf"));
    expect_same_bits(path);
  }
}

}  // namespace
}  // namespace tessera
