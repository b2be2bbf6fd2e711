// Every architecture's file with each of its keys missing, 0, huge, of the opposite sign or not a number. The result is
// an error of one line that names the file, or a model that loads and decodes a token.
#include <cmath>
#include <limits>

#include "tessera/app/app.h"
#include "tessera/engine/session.h"
#include "tests/support/arch_files.h"
#include "tests/support/editable_model.h"
#include "tests/support/spec_model.h"
#include "tests/support/tiny_t5.h"

namespace tessera {
namespace {

using testing::EditableModel;

constexpr size_t kLargestLoaded = size_t{64} << 20;

class Sweep : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(registry_, create_registry("")); }

  Result<> open(const std::string& path) const {
    TESSERA_TRY(Engine::open(*registry_, path, {}));
    return {};
  }

  /// Opens and plans, and if that succeeds, loads and decodes.
  Result<> use(const std::string& path) const {
    TESSERA_ASSIGN(const auto engine, Engine::open(*registry_, path, {}));
    SessionOptions options;
    options.n_ctx = 64;
    options.n_ubatch = 8;
    TESSERA_ASSIGN(const MemoryReport report, Session::plan(*engine, options));
    if (report.total() > kLargestLoaded) return {};
    TESSERA_TRY(engine->load({}));
    TESSERA_ASSIGN(const auto session, Session::create(engine, options));
    const std::vector<int32_t> tokens{0, 1};
    if (session->has_encoder()) TESSERA_TRY(session->encode(0, tokens));
    return session->decode(Batch::prompt(tokens, 0, 0));
  }

  void expect_error_or_use(const std::string& path) const {
    const auto used = use(path);
    if (used) return;
    EXPECT_NE(used.error().code(), ErrorCode::internal) << used.error().message();
    EXPECT_NE(used.error().message().find(path), std::string::npos) << used.error().message();
    EXPECT_EQ(used.error().message().find('\n'), std::string::npos) << used.error().message();
  }

  void sweep_keys(const std::string& model) const;
  void sweep_tensors(const std::string& model) const;

  std::unique_ptr<Registry> registry_;
};

class HostileArchs : public Sweep, public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, HostileArchs, ::testing::ValuesIn(testing::kArchFiles), testing::arch_file_name);

void Sweep::sweep_keys(const std::string& model) const {
  const EditableModel original(model);
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::open(model));
  ASSERT_OK_AND_ASSIGN(const auto architecture, file->metadata().get<std::string_view>("general.architecture"));
  int n_read = 0;
  for (const auto& [key, value] : file->metadata().entries()) {
    if (!key.starts_with(std::string(architecture) + ".")) continue;
    const auto with = [&](const auto& other) {
      EditableModel edited = original;
      edited.builder.set(key, other);
      return edited.write("swept.gguf");
    };
    // A key that is never read may have any value.
    if (open(with("text"))) continue;
    ++n_read;
    SCOPED_TRACE(key);
    EditableModel without = original;
    without.builder.remove(key);
    expect_error_or_use(without.write("without.gguf"));
    if (value.type() == GgufType::f32) {
      const float inf = std::numeric_limits<float>::infinity();
      for (const float other : {0.0f, -1.0f, 1e-38f, 1e38f, inf, std::numeric_limits<float>::quiet_NaN()})
        expect_error_or_use(with(other));
    } else {
      for (const uint64_t other : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 31, uint64_t{1} << 63})
        expect_error_or_use(with(other));
      expect_error_or_use(with(int64_t{-1}));
    }
  }
  EXPECT_GE(n_read, 6);
}

// A file without one of its tensors is refused with the tensor's name, or works without it.
void Sweep::sweep_tensors(const std::string& model) const {
  const EditableModel original(model);
  for (size_t i = 0; i < original.data.size(); ++i) {
    const GgufBuilder::TensorEntry& dropped = original.builder.tensors()[i];
    const size_t layer = dropped.name.find("blk.");
    if (layer != std::string::npos && !dropped.name.substr(layer).starts_with("blk.0.")) continue;  // as layer 0's
    SCOPED_TRACE(dropped.name);
    const auto without = [&](int64_t more_rows) {
      EditableModel edited(model);
      edited.data.clear();
      GgufBuilder builder;
      EXPECT_OK(builder.set_all(GgufFile::open(model).value()->metadata()));
      for (size_t j = 0; j < original.data.size(); ++j) {
        const GgufBuilder::TensorEntry& entry = original.builder.tensors()[j];
        Shape shape = entry.shape;
        if (i == j && more_rows == 0) continue;
        if (i == j) shape[1] += more_rows;
        EXPECT_OK(builder.add_tensor(entry.name, entry.dtype, shape));
        edited.data.push_back(original.data[j]);
        if (i == j) edited.data.back().resize(nbytes(entry.dtype, shape).value());
      }
      edited.builder = builder;
      return edited.write("tensor.gguf");
    };
    expect_error_or_use(without(0));
    expect_error_or_use(without(8));
  }
}

TEST_P(HostileArchs, EveryKeyThatIsRead) { sweep_keys(testing::arch_model(GetParam())); }

TEST_P(HostileArchs, EveryTensor) { sweep_tensors(testing::arch_model(GetParam())); }

TEST_F(Sweep, T5) {
  testing::TinyT5 tiny("t5");
  const std::string model = tiny.write("whole.gguf");
  sweep_keys(model);
  sweep_tensors(model);
}

TEST_F(Sweep, T5Encoder) {
  testing::TinyT5 tiny("t5encoder");
  const std::string model = tiny.write("whole.gguf");
  sweep_keys(model);
}

}  // namespace
}  // namespace tessera
