// Well-formed but wrong model files, many of them and in process: every hyperparameter over its range and type,
// truncated files, flipped bits. The result is a typed error that names the file, or a model that loads and decodes.
#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "tessera/app/app.h"
#include "tessera/engine/session.h"
#include "tests/support/editable_model.h"

namespace tessera {
namespace {

using testing::EditableModel;

constexpr size_t kLargestLoaded = size_t{64} << 20;

enum class Depth { open, decode };

class HostileModels : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(registry_, create_registry("")); }

  /// Opens and plans, and if that succeeds, loads and decodes.
  Result<> use(const std::string& path, Depth depth) const {
    TESSERA_ASSIGN(const auto engine, Engine::open(*registry_, path, {}));
    SessionOptions options;
    options.n_ctx = 64;
    options.n_ubatch = 8;
    TESSERA_ASSIGN(const MemoryReport report, Session::plan(*engine, options));
    if (depth == Depth::open || report.total() > kLargestLoaded) return {};
    TESSERA_TRY(engine->load({}));
    TESSERA_ASSIGN(const auto session, Session::create(engine, options));
    return session->decode(Batch::prompt(std::vector<int32_t>{0}, 0, 0));
  }

  void expect_error_or_use(const std::string& path, Depth depth) const {
    const auto used = use(path, depth);
    if (used) return;
    EXPECT_NE(used.error().code(), ErrorCode::internal) << used.error().message();
    EXPECT_NE(used.error().message().find(path), std::string::npos) << used.error().message();
  }

  std::unique_ptr<Registry> registry_;
};

TEST_F(HostileModels, IntegersOverTheirRangeAndOfOtherTypes) {
  const std::string model = testing::story_model();
  const EditableModel original(model);
  const std::vector<std::string> needed = {"context_length",       "embedding_length",        "feed_forward_length",
                                           "attention.head_count", "attention.head_count_kv", "block_count",
                                           "rope.dimension_count"};
  std::vector<std::string> all = {"attention.key_length", "attention.value_length",
                                  "vocab_size",           "expert_count",
                                  "expert_used_count",    "rope.scaling.original_context_length"};
  all.insert(all.end(), needed.begin(), needed.end());
  for (const std::string& key : all) {
    const auto with = [&](const auto& value) {
      EditableModel edited = original;
      edited.builder.set("llama." + key, value);
      return edited.write("swept.gguf");
    };
    // Values at and above each bound of the models (512 layers, 4096 heads, 2^20 columns, 2^24 ids and positions).
    for (const uint32_t value : {0u, 1u, 2u, 3u, 512u, 513u, 4096u, 4097u, 1u << 20, (1u << 20) + 1, 1u << 24,
                                 (1u << 24) + 1, 1u << 31, ~0u}) {
      SCOPED_TRACE("llama." + key + " = " + std::to_string(value));
      expect_error_or_use(with(value), Depth::decode);
    }
    for (const std::string& path : {with(int32_t{-1}), with(~uint64_t{0}), with(std::numeric_limits<int64_t>::min())})
      expect_error_or_use(path, Depth::decode);
  }
  for (const std::string& key : needed) {
    EditableModel text = original, real = original, list = original;
    text.builder.set("llama." + key, "8");
    real.builder.set("llama." + key, 8.0f);
    list.builder.set_array("llama." + key, std::vector<std::string>(5, "8"));
    for (const EditableModel& edited : {text, real, list})
      EXPECT_ERROR(use(edited.write("typed.gguf"), Depth::open), "key 'llama." + key + "': ");
  }
}

TEST_F(HostileModels, RealsOverTheirRangeAndOfOtherTypes) {
  const std::string model = testing::story_model();
  const EditableModel original(model);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::string key : {"attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.factor",
                                "rope.scale_linear", "rope.scaling.attn_factor"}) {
    for (const float value : {0.0f, -1.0f, 1e-38f, 1.0f, 1e38f, inf, -inf, nan}) {
      SCOPED_TRACE("llama." + key + " = " + std::to_string(value));
      EditableModel edited = original;
      edited.builder.set("llama." + key, value);
      const std::string path = edited.write("swept.gguf");
      expect_error_or_use(path, Depth::decode);
      if (std::isfinite(value)) continue;
      EXPECT_ERROR(use(path, Depth::open), "key 'llama." + key + "': ");
    }
    EditableModel edited = original;
    edited.builder.set("llama." + key, 1u);
    EXPECT_ERROR(use(edited.write("typed.gguf"), Depth::open), "key 'llama." + key + "': ");
  }
}

TEST_F(HostileModels, EveryCutIsAnError) {
  const std::string model = testing::story_model();
  const std::string path = testing::write_temporary("cut.gguf", testing::read_all(model));
  size_t n_needed = 0;
  {
    ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::open(path));
    for (const GgufTensor& tensor : file->tensors())
      n_needed = std::max<size_t>(n_needed, tensor.file_offset + tensor.n_bytes);
  }
  for (size_t n = n_needed; n-- > 0;) {
    if (n > 4096) n = n / 997 * 997;  // every byte of the first 4 KiB, a sample of the others
    std::filesystem::resize_file(path, n);
    EXPECT_ERROR(use(path, Depth::open), "truncated at byte " + std::to_string(n));
  }
}

TEST_F(HostileModels, FlippedBitsAreAnErrorOrAModelThatDecodes) {
  const std::string model = testing::story_model();
  const std::string whole = testing::read_all(model), path = testing::write_temporary("flipped.gguf", whole);
  const int fd = ::open(path.c_str(), O_WRONLY);
  ASSERT_GE(fd, 0);
  for (size_t at = 0; at < whole.size(); at += testing::all_or_few(1, 12) * (at < 4096 ? 1 : 2503)) {
    const char flipped = static_cast<char>(whole[at] ^ (1 << at % 8));
    ASSERT_EQ(::pwrite(fd, &flipped, 1, static_cast<off_t>(at)), 1);
    SCOPED_TRACE(at);
    expect_error_or_use(path, at % 8 == 0 ? Depth::decode : Depth::open);
    ASSERT_EQ(::pwrite(fd, &whole[at], 1, static_cast<off_t>(at)), 1);
  }
  ::close(fd);
}

}  // namespace
}  // namespace tessera
