// Checks of model files by tessera.h.
#include <cstring>
#include <limits>

#include "tests/capi/files_support.h"
#include "tests/support/editable_model.h"

namespace tessera {
namespace {

using namespace testing;

class CapiVerify : public ::testing::Test {
 protected:
  tessera_status verify(const std::string& path, tessera_error* error, tessera_verify_info* info = nullptr) const {
    return tessera_verify(runtime_.get(), path.c_str(), &options_, nullptr, nullptr, nullptr, info, error);
  }
  /// The logits of some tokens, in the form of `tessera logits`; `added` changes the last one.
  std::string reference_file(float added) const {
    const ModelHandle model = open_story(runtime_.get());
    const SessionHandle session = create_session_handle(model.get());
    const std::vector<int32_t> ids = {1, 7, 9};
    const std::vector<int32_t> head = {3, 512, 1, 7, 9};
    std::string text(reinterpret_cast<const char*>(head.data()), head.size() * 4);
    for (const int32_t id : ids) {
      EXPECT_SUCCESS(tessera_session_append(session.get(), 0, &id, 1, TESSERA_WANTS_OUTPUT, nullptr, error));
      uint64_t n = 0;
      const float* const row = tessera_session_output(session.get(), 0, &n);
      text.append(reinterpret_cast<const char*>(row), n * sizeof(float));
    }
    float last = 0;
    std::memcpy(&last, text.data() + text.size() - 4, 4);
    last += added;
    std::memcpy(text.data() + text.size() - 4, &last, 4);
    return write_temporary("reference.logits", text);
  }

  RuntimeHandle runtime_ = create_runtime_handle();
  tessera_verify_options options_ = made(tessera_verify_options_init);
};

TEST_F(CapiVerify, CountsWhatIsChecked) {
  auto info = sized<tessera_verify_info>();
  Shares shares;
  EXPECT_SUCCESS(
      tessera_verify(runtime_.get(), story_model().c_str(), nullptr, Shares::note, &shares, nullptr, &info, error));
  EXPECT_TRUE(shares.is_complete());
  EXPECT_EQ(info.n_tensors, 48u);
  EXPECT_EQ(info.n_bytes, 4 * 292'800u);
  EXPECT_EQ(info.n_blocks, 292'800u);
  EXPECT_EQ(info.n_tokens, 512u);
  EXPECT_GT(info.n_round_trips, 250u);
  EXPECT_NE(std::string(info.tokenizer), "");
  EXPECT_EQ(info.n_reference_tokens, 0u);
  const auto output = run_program({"verify", story_model(), "--json"});
  for (const auto& [name, value] :
       {std::pair("n_tensors", info.n_tensors), std::pair("n_blocks", info.n_blocks),
        std::pair("n_tokens", info.n_tokens), std::pair("n_round_trips", info.n_round_trips)})
    EXPECT_NE(output.out.find('"' + std::string(name) + "\": " + std::to_string(value)), std::string::npos)
        << name << output.out;
}

TEST_F(CapiVerify, ComparesLogitsWithAReference) {
  const std::string same = reference_file(0);
  options_.reference = same.c_str();
  auto info = sized<tessera_verify_info>();
  EXPECT_SUCCESS(verify(story_model(), error, &info));
  EXPECT_EQ(info.n_reference_tokens, 3u);
  EXPECT_EQ(info.nmse, 0.0);
  const std::string other = reference_file(100);
  EXPECT_STATUS(verify(story_model(), error), TESSERA_MISMATCH, "limit 0.01 (worst: ");
  options_.max_nmse = 1e6f;
  EXPECT_SUCCESS(verify(story_model(), error, &info));
  EXPECT_GT(info.nmse, 0.01);
  options_.reference = "/none.logits";
  EXPECT_STATUS(verify(story_model(), error), TESSERA_NOT_FOUND, "/none.logits");
}

TEST_F(CapiVerify, NamesTheFirstFault) {
  EditableModel edited(story_model());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(edited.tensor("blk.1.attn_q.weight").data() + 40, &nan, sizeof nan);
  const std::string path = edited.write("nan.gguf");
  auto info = sized<tessera_verify_info>();
  EXPECT_STATUS(verify(path, error, &info), TESSERA_FORMAT, "tensor blk.1.attn_q.weight: element 10");
  EXPECT_EQ(info.n_tensors, 0u);  // nothing is filled after an error
}

TEST_F(CapiVerify, StopsAndRefusesWrongArguments) {
  const CancelHandle cancel = create_cancel_handle(true);
  const std::string model = story_model();
  tessera_runtime* const r = runtime_.get();
  const auto call = [&](tessera_runtime* runtime, const char* path, tessera_cancel* stop, tessera_verify_info* info,
                        tessera_error* error) {
    return tessera_verify(runtime, path, &options_, nullptr, nullptr, stop, info, error);
  };
  EXPECT_STATUS(call(r, model.c_str(), cancel.get(), nullptr, error), TESSERA_CANCELLED, "");
  EXPECT_STATUS(call(nullptr, model.c_str(), nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "runtime: is NULL");
  EXPECT_STATUS(call(as_other<tessera_runtime>(cancel.get()), model.c_str(), nullptr, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "runtime: is a handle of another kind");
  EXPECT_STATUS(call(r, nullptr, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "path: is NULL");
  EXPECT_STATUS(call(r, model.c_str(), reinterpret_cast<tessera_cancel*>(r), nullptr, error), TESSERA_INVALID_ARGUMENT,
                "cancel: is a handle of another kind");
  tessera_verify_info unset{};
  EXPECT_STATUS(call(r, model.c_str(), nullptr, &unset, error), TESSERA_INVALID_ARGUMENT, "info: size is 0");
  options_.n_threads = -2;
  EXPECT_STATUS(verify(model, error), TESSERA_INVALID_ARGUMENT, "n_threads: -2, want 0 or more");
  options_.n_threads = 1;
  EXPECT_SUCCESS(verify(model, error));
  for (const float wrong : {-1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    options_.max_nmse = wrong;
    EXPECT_STATUS(verify(model, error), TESSERA_INVALID_ARGUMENT, "max_nmse: ");
  }
  options_.size = 1;
  EXPECT_STATUS(verify(model, error), TESSERA_INVALID_ARGUMENT, "options: size is 1");
}

}  // namespace
}  // namespace tessera
