// Timelines of sessions by tessera.h.
#include <nlohmann/json.hpp>

#include "tests/capi/files_support.h"

namespace tessera {
namespace {

using namespace testing;
using nlohmann::json;

// The names of the events on the track of tokens, and the number of all operations.
struct Events {
  std::vector<std::string> phases;
  int n_nodes = 0;
};

Events events_of(const std::string& text) {
  Events found;
  const json trace = json::parse(text);
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") continue;
    if (event["tid"] == 1) found.phases.push_back(event["name"]);
    if (event["cat"] == "node") ++found.n_nodes;
  }
  return found;
}

class CapiTrace : public ::testing::Test {
 protected:
  std::string end_trace() const {
    uint64_t needed = 0;
    EXPECT_STATUS(tessera_trace_end(session_.get(), nullptr, 0, &needed, error), TESSERA_LIMIT, "buffer: ");
    std::string text(needed, '\0');
    EXPECT_SUCCESS(tessera_trace_end(session_.get(), text.data(), text.size(), &needed, error));
    EXPECT_EQ(needed, text.size());
    text.pop_back();
    return text;
  }

  RuntimeHandle runtime_ = create_runtime_handle();
  ModelHandle model_ = open_story(runtime_.get());
  SessionHandle session_ = create_session_handle(model_.get());
};

TEST_F(CapiTrace, TellsWhatTheCommandTells) {
  const SamplerHandle sampler = create_greedy(model_.get());
  auto options = made(tessera_generation_options_init);
  options.n_predict = 5;
  tessera_generation* generation = nullptr;
  EXPECT_SUCCESS(tessera_generation_create(session_.get(), sampler.get(), 0, &options, &generation, error));
  const GenerationHandle owner(generation, tessera_generation_release);
  EXPECT_SUCCESS(tessera_trace_begin(session_.get(), error));
  EXPECT_STATUS(tessera_trace_begin(session_.get(), error), TESSERA_INVALID_ARGUMENT, "session: is recorded already");
  const std::vector<int32_t> prompt = tokens_of(model_.get(), "Once upon a time");
  EXPECT_SUCCESS(tessera_generation_start(generation, prompt.data(), prompt.size(), nullptr, error));
  tessera_generated next{};
  do EXPECT_SUCCESS(tessera_generation_next(generation, &next, nullptr, error));
  while (next.token >= 0);
  const Events ours = events_of(end_trace());
  EXPECT_STATUS(tessera_trace_end(session_.get(), nullptr, 0, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "session: nothing is recorded");

  const std::string path = temporary_path("trace.json");
  ASSERT_EQ(run_program({"trace", "-m", story_model(), "-p", "Once upon a time", "--temp", "0", "-n", "5", "-o", path})
                .status,
            0);
  Events theirs = events_of(read_all(path));
  ASSERT_GT(theirs.phases.size(), 2u);
  ASSERT_EQ(theirs.phases.front(), "load");
  theirs.phases.erase(theirs.phases.begin(), theirs.phases.begin() + 2);  // before there was a session
  EXPECT_EQ(ours.phases, theirs.phases);
  EXPECT_EQ(ours.n_nodes, theirs.n_nodes);
  EXPECT_GT(ours.n_nodes, 100);
}

TEST_F(CapiTrace, ComesInPieces) {
  const std::vector<int32_t> tokens = tokens_of(model_.get(), "Once");
  EXPECT_SUCCESS(tessera_trace_begin(session_.get(), error));
  for (int i = 0; i < 20; ++i)
    EXPECT_SUCCESS(
        tessera_session_append(session_.get(), 0, tokens.data(), tokens.size(), TESSERA_WANTS_OUTPUT, nullptr, error));
  struct Pieces {
    std::string text;
    size_t n = 0, stop_at = 0, largest = 0;
    static int32_t add(void* user, const char* bytes, uint64_t n_bytes) {
      auto& of = *static_cast<Pieces*>(user);
      of.text.append(bytes, n_bytes);
      of.largest = std::max<size_t>(of.largest, n_bytes);
      return ++of.n == of.stop_at ? 7 : 0;
    }
  };
  Pieces stopped{.text = {}, .stop_at = 2};
  EXPECT_STATUS(tessera_trace_end_pieces(session_.get(), Pieces::add, &stopped, error), TESSERA_CANCELLED,
                "stopped by write");
  EXPECT_EQ(stopped.n, 2u);
  EXPECT_STATUS(tessera_trace_end_pieces(session_.get(), nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "write: is NULL");
  Pieces all;
  EXPECT_SUCCESS(tessera_trace_end_pieces(session_.get(), Pieces::add, &all, error));
  EXPECT_GT(all.n, 2u);
  EXPECT_EQ(all.largest, 65536u);
  EXPECT_EQ(events_of(all.text).phases.size(), 20u);
  EXPECT_STATUS(tessera_trace_end_pieces(session_.get(), Pieces::add, &all, error), TESSERA_INVALID_ARGUMENT,
                "nothing is recorded");
}

TEST_F(CapiTrace, IsOfOneSessionAndEndsWithIt) {
  const SessionHandle other = create_session_handle(model_.get());
  const std::vector<int32_t> tokens = tokens_of(model_.get(), "Once");
  EXPECT_SUCCESS(tessera_trace_begin(session_.get(), error));
  EXPECT_SUCCESS(tessera_session_append(other.get(), 0, tokens.data(), tokens.size(), 0, nullptr, error));
  EXPECT_EQ(events_of(end_trace()).n_nodes, 0);
  EXPECT_SUCCESS(tessera_trace_begin(session_.get(), error));
  session_.reset();
  for (tessera_session* const wrong :
       {static_cast<tessera_session*>(nullptr), reinterpret_cast<tessera_session*>(model_.get())}) {
    EXPECT_STATUS(tessera_trace_begin(wrong, error), TESSERA_INVALID_ARGUMENT, "session: is ");
    EXPECT_STATUS(tessera_trace_end(wrong, nullptr, 0, nullptr, error), TESSERA_INVALID_ARGUMENT, "session: is ");
    EXPECT_STATUS(tessera_trace_end_pieces(wrong, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "session: is ");
  }
}

}  // namespace
}  // namespace tessera
