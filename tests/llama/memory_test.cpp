// The stored tokens of sequences, and their states.
#include <fstream>

#include "tests/llama/llama_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

class LlamaMemory : public ::testing::Test {
 protected:
  LlamaMemory() {
    EXPECT_EQ(decode_all(context_.get(), tokens_), 0);
    last_row_ = row_of(context_.get(), -1);
  }

  std::pair<llama_pos, llama_pos> range(llama_seq_id sequence) const {
    return {llama_memory_seq_pos_min(memory_, sequence), llama_memory_seq_pos_max(memory_, sequence)};
  }
  // The logits after one more token of a sequence.
  std::vector<float> next_row(llama_seq_id sequence, llama_token token = 300) {
    LlamaTokens batch;
    batch.add(token, range(sequence).second + 1, {sequence}, true);
    EXPECT_EQ(llama_decode(context_.get(), batch.batch()), 0);
    return row_of(context_.get(), 0);
  }
  using Range = std::pair<llama_pos, llama_pos>;

  LlamaModel model_ = load_llama(story_model());
  LlamaContext context_ = create_llama(model_.get(), small_context(768, 3));
  llama_memory_t memory_ = llama_get_memory(context_.get());
  std::vector<llama_token> tokens_ = tokenize(model_.get(), "Once upon a time");
  llama_pos last_ = static_cast<llama_pos>(tokens_.size()) - 1;
  std::vector<float> last_row_;
  LogLines log_;
};

TEST_F(LlamaMemory, RemovesPositions) {
  EXPECT_EQ(range(0), Range(0, last_));
  EXPECT_EQ(range(1), Range(-1, -1));
  EXPECT_TRUE(llama_memory_seq_rm(memory_, 0, last_, -1));
  EXPECT_EQ(range(0), Range(0, last_ - 1));
  EXPECT_EQ(decode_all(context_.get(), {tokens_.back()}), 0);
  EXPECT_EQ(row_of(context_.get(), -1), last_row_);
  EXPECT_TRUE(llama_memory_seq_rm(memory_, 0, 3, 3));
  EXPECT_TRUE(llama_memory_seq_rm(memory_, 0, 4, 2));
  EXPECT_EQ(range(0), Range(0, last_));
  EXPECT_TRUE(llama_memory_seq_rm(memory_, 0, -1, 2));
  EXPECT_EQ(range(0), Range(2, last_));
  EXPECT_TRUE(llama_memory_seq_rm(memory_, 0, -1, -1));
  EXPECT_EQ(range(0), Range(-1, -1));
}

TEST_F(LlamaMemory, RemovesFromAllSequences) {
  llama_memory_seq_cp(memory_, 0, 2, -1, -1);
  EXPECT_TRUE(llama_memory_seq_rm(memory_, -1, 3, -1));
  EXPECT_EQ(range(0), Range(0, 2));
  EXPECT_EQ(range(2), Range(0, 2));
  llama_memory_clear(memory_, false);
  EXPECT_EQ(range(0), Range(-1, -1));
  EXPECT_EQ(range(2), Range(-1, -1));
}

TEST_F(LlamaMemory, CopiesAndKeepsSequences) {
  const auto want = next_row(0);
  llama_memory_seq_rm(memory_, 0, last_ + 1, -1);
  llama_memory_seq_cp(memory_, 0, 1, 0, -1);
  EXPECT_EQ(range(1), Range(0, last_));
  EXPECT_EQ(next_row(1), want);
  llama_memory_seq_cp(memory_, 0, 2, 0, 3);
  EXPECT_EQ(range(2), Range(0, 2));
  llama_memory_seq_cp(memory_, 0, 2, -1, -1);  // in place of what is there
  EXPECT_EQ(range(2), Range(0, last_));
  EXPECT_EQ(next_row(2), want);
  llama_memory_seq_cp(memory_, 1, 1, -1, -1);
  llama_memory_seq_cp(memory_, 0, 1, 2, 2);
  EXPECT_EQ(log_.take(), "");
  llama_memory_seq_keep(memory_, 1);
  EXPECT_EQ(range(0), Range(-1, -1));
  EXPECT_EQ(range(1), Range(0, last_ + 1));
  EXPECT_EQ(range(2), Range(-1, -1));
}

TEST_F(LlamaMemory, ShiftsPositions) {
  EXPECT_TRUE(llama_memory_can_shift(memory_));
  llama_memory_seq_rm(memory_, 0, 1, 3);
  llama_memory_seq_add(memory_, 0, 3, -1, -2);
  EXPECT_EQ(range(0), Range(0, last_ - 2));
  llama_memory_seq_add(memory_, 0, -1, -1, 5);
  EXPECT_EQ(range(0), Range(5, last_ + 3));
  llama_memory_seq_add(memory_, 0, 5, 5, 1);
  llama_memory_seq_add(memory_, 0, 5, -1, 0);
  EXPECT_EQ(range(0), Range(5, last_ + 3));
  EXPECT_EQ(log_.take(), "");
  llama_memory_seq_add(memory_, 0, -1, -1, -6);
  EXPECT_NE(log_.take().find("llama_memory_seq_add: "), std::string::npos);
  EXPECT_EQ(range(0), Range(5, last_ + 3));
}

TEST_F(LlamaMemory, DividesNoPositions) {
  llama_memory_seq_div(memory_, 0, 0, -1, 1);
  llama_memory_seq_div(memory_, 0, 3, 3, 2);
  EXPECT_EQ(log_.take(), "");
  llama_memory_seq_div(memory_, 0, 0, -1, 2);
  EXPECT_NE(log_.take().find("llama_memory_seq_div: positions are not divided"), std::string::npos);
  EXPECT_EQ(range(0), Range(0, last_));
}

TEST_F(LlamaMemory, RefusesSequencesThatAreNone) {
  for (const llama_seq_id bad : {-1, 3}) {
    llama_memory_seq_cp(memory_, bad, 0, -1, -1);
    EXPECT_NE(log_.take().find("llama_memory_seq_cp: sequence "), std::string::npos);
    llama_memory_seq_cp(memory_, 0, bad, -1, -1);
    EXPECT_NE(log_.take(), "");
    llama_memory_seq_keep(memory_, bad);
    EXPECT_NE(log_.take(), "");
    llama_memory_seq_add(memory_, bad, 0, -1, 1);
    EXPECT_NE(log_.take(), "");
    EXPECT_EQ(llama_memory_seq_pos_min(memory_, bad), -1);
    EXPECT_EQ(llama_memory_seq_pos_max(memory_, bad), -1);
    EXPECT_NE(log_.take(), "");
  }
  EXPECT_FALSE(llama_memory_seq_rm(memory_, 3, 0, -1));
  EXPECT_EQ(range(0), Range(0, last_));
}

// --- states

TEST_F(LlamaMemory, RestoresASequenceFromMemory) {
  const auto want = next_row(0);
  llama_memory_seq_rm(memory_, 0, last_ + 1, -1);
  const size_t size = llama_state_seq_get_size(context_.get(), 0);
  EXPECT_EQ(llama_state_seq_get_size_ext(context_.get(), 0, 1), size);
  std::vector<uint8_t> state(size);
  EXPECT_EQ(llama_state_seq_get_data(context_.get(), state.data(), size, 0), size);
  std::vector<uint8_t> other(size + 9);
  EXPECT_EQ(llama_state_seq_get_data_ext(context_.get(), other.data(), size + 9, 0, 1), size);
  EXPECT_TRUE(std::equal(state.begin(), state.end(), other.begin()));
  EXPECT_EQ(llama_state_seq_set_data(context_.get(), state.data(), size, 2), size);
  EXPECT_EQ(range(2), Range(0, last_));
  EXPECT_EQ(next_row(2), want);
  EXPECT_EQ(llama_state_seq_set_data_ext(context_.get(), other.data(), other.size(), 1, 1), size);
  EXPECT_EQ(next_row(1), want);
  EXPECT_EQ(log_.take(), "");
  EXPECT_EQ(llama_state_seq_get_data(context_.get(), state.data(), size - 1, 0), 0u);
  EXPECT_NE(log_.take().find("the buffer has " + std::to_string(size - 1)), std::string::npos);
  EXPECT_EQ(llama_state_seq_get_data(context_.get(), nullptr, size, 0), 0u);
  EXPECT_EQ(llama_state_seq_get_size(context_.get(), 3), 0u);
  EXPECT_EQ(llama_state_seq_set_data(context_.get(), nullptr, size, 0), 0u);
  EXPECT_EQ(llama_state_seq_set_data(context_.get(), state.data(), size, 3), 0u);
}

TEST_F(LlamaMemory, KeepsSequencesWhenStatesAreDamaged) {
  const size_t size = llama_state_seq_get_size(context_.get(), 0);
  std::vector<uint8_t> state(size);
  ASSERT_EQ(llama_state_seq_get_data(context_.get(), state.data(), size, 0), size);
  ASSERT_EQ(decode_all(context_.get(), {300}), 0);
  for (size_t n = 0; n < size; n += 41) {
    EXPECT_EQ(llama_state_seq_set_data(context_.get(), state.data(), n, 0), 0u) << n;
    EXPECT_NE(log_.take().find("llama_state_seq_set_data: state: "), std::string::npos);
  }
  for (size_t at = 0; at < size; ++at) {
    state[at] ^= 1;
    ASSERT_EQ(llama_state_seq_set_data(context_.get(), state.data(), size, 0), 0u) << at;
    state[at] ^= 1;
  }
  EXPECT_EQ(range(0), Range(0, last_ + 1));
  const auto want = next_row(0, 301);
  EXPECT_EQ(llama_state_seq_set_data(context_.get(), state.data(), size, 0), size);
  EXPECT_EQ(range(0), Range(0, last_));
  ASSERT_EQ(decode_all(context_.get(), {300}), 0);
  EXPECT_EQ(next_row(0, 301), want);
}

// A whole state whose second sequence has no room: what was restored before it is taken back.
TEST_F(LlamaMemory, KeepsAllSequencesWhenAStateHasNoRoom) {
  const LlamaContext large = create_llama(model_.get(), small_context(1536, 3));
  for (int32_t sequence = 0; sequence < 2; ++sequence) {
    LlamaTokens batch;
    for (int32_t i = 0; i < 200; ++i) batch.add(300 + sequence, i, {sequence}, false);
    ASSERT_EQ(llama_decode(large.get(), batch.batch()), 0);
  }
  std::vector<uint8_t> state(llama_state_get_size(large.get()));
  ASSERT_EQ(llama_state_get_data(large.get(), state.data(), state.size()), state.size());
  llama_context_params params = small_context(256, 3);
  params.kv_unified = true;
  context_ = create_llama(model_.get(), params);
  memory_ = llama_get_memory(context_.get());
  ASSERT_EQ(decode_all(context_.get(), tokens_), 0);
  llama_memory_seq_cp(memory_, 0, 2, 0, 3);
  EXPECT_EQ(llama_state_set_data(context_.get(), state.data(), state.size()), 0u);
  EXPECT_NE(log_.take().find("llama_state_set_data: "), std::string::npos);
  EXPECT_EQ(range(0), Range(0, last_));
  EXPECT_EQ(range(1), Range(-1, -1));
  EXPECT_EQ(range(2), Range(0, 2));
  const auto found = next_row(0);
  context_ = create_llama(model_.get());
  memory_ = llama_get_memory(context_.get());
  ASSERT_EQ(decode_all(context_.get(), tokens_), 0);
  EXPECT_EQ(found, next_row(0));
}

TEST_F(LlamaMemory, RestoresAllSequences) {
  llama_memory_seq_cp(memory_, 0, 2, 0, 3);
  const size_t size = llama_state_get_size(context_.get());
  EXPECT_EQ(llama_get_state_size(context_.get()), size);
  std::vector<uint8_t> state(size), copy(size);
  EXPECT_EQ(llama_state_get_data(context_.get(), state.data(), size), size);
  EXPECT_EQ(llama_copy_state_data(context_.get(), copy.data()), size);
  EXPECT_EQ(state, copy);
  const LlamaContext other = create_llama(model_.get(), small_context(768, 3));
  const llama_memory_t memory = llama_get_memory(other.get());
  ASSERT_EQ(decode_all(other.get(), {5, 6}), 0);
  llama_memory_seq_cp(memory, 0, 1, -1, -1);
  EXPECT_EQ(llama_state_set_data(other.get(), state.data(), size), size);
  EXPECT_EQ(llama_memory_seq_pos_max(memory, 0), last_);
  EXPECT_EQ(llama_memory_seq_pos_max(memory, 1), -1);
  EXPECT_EQ(llama_memory_seq_pos_max(memory, 2), 2);
  llama_memory_clear(memory, true);
  EXPECT_EQ(llama_set_state_data(other.get(), state.data()), size);
  EXPECT_EQ(llama_memory_seq_pos_max(memory, 2), 2);
  // More sequences than the context has, or than a call takes.
  const LlamaContext small = create_llama(model_.get(), small_context(256, 1));
  ASSERT_EQ(decode_all(small.get(), tokens_), 0);
  EXPECT_EQ(llama_state_set_data(small.get(), state.data(), size), 0u);
  EXPECT_NE(log_.take().find("a state of 2 sequences, want one"), std::string::npos);
  EXPECT_EQ(llama_memory_seq_pos_max(llama_get_memory(small.get()), 0), last_);
  EXPECT_EQ(llama_state_seq_set_data(other.get(), state.data(), size, 1), 0u);
  EXPECT_NE(log_.take().find("a state of 2 sequences, want one"), std::string::npos);
  std::vector<uint8_t> zeros(64);
  EXPECT_EQ(llama_set_state_data(other.get(), zeros.data()), 0u);
  EXPECT_EQ(llama_set_state_data(other.get(), nullptr), 0u);
  EXPECT_EQ(llama_state_get_data(context_.get(), state.data(), size - 1), 0u);
}

TEST_F(LlamaMemory, RefusesStatesOfOtherModels) {
  const size_t size = llama_state_seq_get_size(context_.get(), 0);
  std::vector<uint8_t> state(size);
  ASSERT_EQ(llama_state_seq_get_data(context_.get(), state.data(), size, 0), size);
  const LlamaModel model = load_llama(arch_model("llama-dense"));
  const LlamaContext other = create_llama(model.get());
  ASSERT_EQ(decode_all(other.get(), {1, 2}), 0);
  EXPECT_EQ(llama_state_seq_set_data(other.get(), state.data(), size, 0), 0u);
  EXPECT_NE(log_.take(), "");
  EXPECT_EQ(llama_memory_seq_pos_max(llama_get_memory(other.get()), 0), 1);
}

TEST_F(LlamaMemory, RestoresFromFiles) {
  const std::string path = temporary_path("sequence.state");
  const size_t size = llama_state_seq_save_file(context_.get(), path.c_str(), 0, tokens_.data(), tokens_.size());
  EXPECT_EQ(size, std::filesystem::file_size(path));
  std::vector<llama_token> tokens(tokens_.size());
  size_t n = 0;
  EXPECT_EQ(llama_state_seq_load_file(context_.get(), path.c_str(), 1, tokens.data(), tokens.size(), &n), size);
  EXPECT_EQ(n, tokens_.size());
  EXPECT_EQ(tokens, tokens_);
  EXPECT_EQ(range(1), Range(0, last_));
  EXPECT_EQ(llama_state_seq_load_file(context_.get(), path.c_str(), 1, tokens.data(), tokens.size(), nullptr), size);
  EXPECT_EQ(llama_state_seq_load_file(context_.get(), path.c_str(), 1, tokens.data(), n - 1, &n), 0u);
  EXPECT_NE(log_.take().find("tokens, room is for "), std::string::npos);
  EXPECT_EQ(range(1), Range(-1, -1));
  EXPECT_EQ(llama_state_seq_load_file(context_.get(), path.c_str(), 3, tokens.data(), 100, &n), 0u);
  EXPECT_NE(log_.take().find("sequence 3, want 0 to 2"), std::string::npos);
  EXPECT_EQ(llama_state_seq_load_file(context_.get(), path.c_str(), 1, nullptr, 100, &n), 0u);
  EXPECT_EQ(llama_state_seq_load_file(context_.get(), "/no/such/file", 1, tokens.data(), 100, &n), 0u);
  EXPECT_EQ(llama_state_seq_load_file(context_.get(), nullptr, 1, tokens.data(), 100, &n), 0u);
  EXPECT_EQ(llama_state_seq_save_file(context_.get(), nullptr, 0, nullptr, 0), 0u);
  EXPECT_EQ(llama_state_seq_save_file(context_.get(), path.c_str(), 0, nullptr, 2), 0u);
  EXPECT_EQ(llama_state_seq_save_file(context_.get(), "/no/such/folder/x", 0, nullptr, 0), 0u);
  EXPECT_EQ(range(0), Range(0, last_));
}

TEST_F(LlamaMemory, RestoresAllSequencesFromFiles) {
  const std::string path = temporary_path("all.state");
  EXPECT_TRUE(llama_state_save_file(context_.get(), path.c_str(), tokens_.data(), tokens_.size()));
  EXPECT_TRUE(llama_save_session_file(context_.get(), path.c_str(), tokens_.data(), tokens_.size()));
  llama_memory_clear(memory_, true);
  std::vector<llama_token> tokens(tokens_.size());
  size_t n = 0;
  EXPECT_TRUE(llama_state_load_file(context_.get(), path.c_str(), tokens.data(), tokens.size(), &n));
  EXPECT_EQ(tokens, tokens_);
  EXPECT_EQ(range(0), Range(0, last_));
  EXPECT_TRUE(llama_load_session_file(context_.get(), path.c_str(), tokens.data(), tokens.size(), &n));
  EXPECT_EQ(log_.take(), "");
  EXPECT_FALSE(llama_state_load_file(context_.get(), path.c_str(), tokens.data(), 1, &n));
  EXPECT_NE(log_.take().find(path + ": 7 tokens, room is for 1"), std::string::npos);
  EXPECT_EQ(range(0), Range(0, last_));
  EXPECT_FALSE(llama_state_load_file(context_.get(), nullptr, tokens.data(), 1, &n));
  EXPECT_FALSE(llama_state_save_file(context_.get(), nullptr, nullptr, 0));
}

TEST_F(LlamaMemory, SavesEmptySequences) {
  const size_t size = llama_state_seq_get_size(context_.get(), 1);
  std::vector<uint8_t> state(size);
  EXPECT_EQ(llama_state_seq_get_data(context_.get(), state.data(), size, 1), size);
  EXPECT_EQ(llama_state_seq_set_data(context_.get(), state.data(), size, 0), size);
  EXPECT_EQ(range(0), Range(-1, -1));
}

}  // namespace
}  // namespace tessera
