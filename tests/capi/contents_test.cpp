// Keys, tensors and warnings of models, and models that a program reads itself.
#include <cstddef>
#include <cstring>

#include "tessera/capi/objects.h"
#include "tests/capi/capi_support.h"
#include "tests/support/editable_model.h"

namespace tessera {
namespace {

using namespace testing;

class CapiContents : public ::testing::Test {
 protected:
  std::string key_at(int64_t index) const {
    return written_text([&](char* buffer, uint64_t room, uint64_t* needed, tessera_error* error) {
      return tessera_model_key_at(model_.get(), index, buffer, room, needed, error);
    });
  }
  std::string value_of(const std::string& key) const {
    return written_text([&](char* buffer, uint64_t room, uint64_t* needed, tessera_error* error) {
      return tessera_model_key(model_.get(), key.c_str(), buffer, room, needed, error);
    });
  }

  RuntimeHandle runtime_ = create_runtime_handle();
  ModelHandle model_ = open_story(runtime_.get(), false);
};

TEST_F(CapiContents, KeysHaveNamesAndValues) {
  const ModelFiles& files = model_->engine->files();
  const auto entries = files.metadata().entries();
  ASSERT_EQ(tessera_model_key_count(model_.get()), std::ssize(entries));
  EXPECT_GT(entries.size(), 10u);
  for (size_t i = 0; i < entries.size(); ++i) EXPECT_EQ(key_at(static_cast<int64_t>(i)), entries[i].key);
  EXPECT_EQ(value_of("general.architecture"), "\"llama\"");
  EXPECT_EQ(value_of("llama.block_count"), "5");
  EXPECT_TRUE(value_of("tokenizer.ggml.tokens").starts_with("[\"<unk>\",\"<s>\",\"</s>\","));
}

TEST_F(CapiContents, KeysThatAreMissingAreRefused) {
  char buffer[100];
  uint64_t needed = 77;
  for (const int64_t index : {int64_t{-1}, tessera_model_key_count(model_.get())})
    EXPECT_STATUS(tessera_model_key_at(model_.get(), index, buffer, sizeof buffer, &needed, error),
                  TESSERA_INVALID_ARGUMENT, "index: " + std::to_string(index) + ", there are ");
  EXPECT_STATUS(tessera_model_key_at(nullptr, 0, buffer, sizeof buffer, &needed, error), TESSERA_INVALID_ARGUMENT,
                "model: is NULL");
  EXPECT_STATUS(tessera_model_key(nullptr, "a", buffer, sizeof buffer, &needed, error), TESSERA_INVALID_ARGUMENT,
                "model: is NULL");
  EXPECT_STATUS(tessera_model_key(as_handle<tessera_model>(runtime_.get()), "a", buffer, sizeof buffer, &needed, error),
                TESSERA_INVALID_ARGUMENT, "model: is a handle of another kind");
  EXPECT_STATUS(tessera_model_key(model_.get(), nullptr, buffer, sizeof buffer, &needed, error),
                TESSERA_INVALID_ARGUMENT, "key: is NULL");
  EXPECT_STATUS(tessera_model_key(model_.get(), "no.such", buffer, sizeof buffer, &needed, error), TESSERA_NOT_FOUND,
                "story.gguf: no key 'no.such'");
  EXPECT_EQ(needed, 77u);
  EXPECT_EQ(tessera_model_key_count(nullptr), 0);
  EXPECT_EQ(tessera_model_key_count(as_handle<tessera_model>(runtime_.get())), 0);
}

TEST_F(CapiContents, TensorsHaveTheirFacts) {
  const auto tensors = model_->engine->files().tensors();
  ASSERT_EQ(tessera_model_tensor_count(model_.get()), std::ssize(tensors));
  uint64_t n_elements = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    tessera_tensor_info info{};
    info.size = sizeof info;
    EXPECT_SUCCESS(tessera_model_tensor_info(model_.get(), static_cast<int64_t>(i), &info, error));
    EXPECT_EQ(std::string(info.name), tensors[i].info.name);
    EXPECT_EQ(std::string(info.type), "f32");
    EXPECT_EQ(std::string(info.file), story_model());
    EXPECT_EQ(info.file_index, 0);
    EXPECT_EQ(info.n_bytes, tensors[i].info.n_bytes);
    EXPECT_EQ(info.offset, tensors[i].info.file_offset);
    EXPECT_EQ(info.rank, tensors[i].info.rank);
    n_elements += static_cast<uint64_t>(info.extent[0] * info.extent[1] * info.extent[2] * info.extent[3]);
    if (std::string(info.name) != "token_embd.weight") continue;
    EXPECT_EQ(info.rank, 2);
    EXPECT_EQ(info.extent[0], 64);
    EXPECT_EQ(info.extent[1], 512);
  }
  EXPECT_EQ(n_elements, 292'800u);
  // A program of an earlier version has less room.
  tessera_tensor_info info;
  std::memset(&info, 0xff, sizeof info);
  info.size = offsetof(tessera_tensor_info, offset);
  EXPECT_SUCCESS(tessera_model_tensor_info(model_.get(), 0, &info, error));
  EXPECT_EQ(info.n_bytes, tensors[0].info.n_bytes);
  EXPECT_EQ(info.offset, UINT64_MAX);
}

TEST_F(CapiContents, TensorsThatAreMissingAreRefused) {
  tessera_tensor_info info{};
  EXPECT_STATUS(tessera_model_tensor_info(model_.get(), 0, &info, error), TESSERA_INVALID_ARGUMENT, "info: size is 0");
  info.size = sizeof info;
  for (const int64_t index : {int64_t{-1}, tessera_model_tensor_count(model_.get())})
    EXPECT_STATUS(tessera_model_tensor_info(model_.get(), index, &info, error), TESSERA_INVALID_ARGUMENT,
                  "index: " + std::to_string(index) + ", there are ");
  EXPECT_STATUS(tessera_model_tensor_info(model_.get(), 0, nullptr, error), TESSERA_INVALID_ARGUMENT, "info: is NULL");
  EXPECT_STATUS(tessera_model_tensor_info(nullptr, 0, &info, error), TESSERA_INVALID_ARGUMENT, "model: is NULL");
  EXPECT_EQ(tessera_model_tensor_count(nullptr), 0);
}

TEST_F(CapiContents, FingerprintsTellModelsApart) {
  EXPECT_EQ(tessera_model_fingerprint(model_.get()), model_->engine->fingerprint());
  EXPECT_NE(tessera_model_fingerprint(model_.get()), 0u);
  EXPECT_EQ(tessera_model_fingerprint(nullptr), 0u);
  EXPECT_EQ(tessera_model_fingerprint(as_handle<tessera_model>(runtime_.get())), 0u);
}

// Each warning is told once to the log, and can be asked for.
TEST(CapiWarnings, AreKeptAndLoggedOnce) {
  EditableModel edited(story_model());
  edited.builder.set("tokenizer.ggml.model", "gpt2");
  edited.builder.set("tokenizer.ggml.pre", "never-heard-of");
  edited.builder.set_array("tokenizer.ggml.merges", std::vector<std::string>());
  const std::string path = edited.write("odd.gguf");
  std::vector<std::string> lines;
  tessera_runtime_options options;
  tessera_runtime_options_init(&options, sizeof options);
  options.log = [](void* user, int32_t level, const char* text) {
    EXPECT_EQ(level, TESSERA_LOG_WARNING);
    static_cast<std::vector<std::string>*>(user)->emplace_back(text);
  };
  options.log_user = &lines;
  tessera_runtime* created = nullptr;
  EXPECT_SUCCESS(tessera_runtime_create(&options, &created, error));
  const RuntimeHandle runtime(created, tessera_runtime_release);
  tessera_model* opened = nullptr;
  EXPECT_SUCCESS(tessera_model_open(runtime.get(), path.c_str(), nullptr, &opened, error));
  const ModelHandle model(opened, tessera_model_release);
  ASSERT_NE(tessera_model_warning(opened, 0), nullptr);
  EXPECT_NE(std::string(tessera_model_warning(opened, 0)).find("never-heard-of"), std::string::npos);
  EXPECT_EQ(tessera_model_warning(opened, 1), nullptr);
  EXPECT_EQ(tessera_model_warning(opened, -1), nullptr);
  EXPECT_EQ(tessera_model_warning(nullptr, 0), nullptr);
  EXPECT_SUCCESS(tessera_model_load(opened, nullptr, nullptr, nullptr, error));
  EXPECT_EQ(lines, std::vector<std::string>{tessera_model_warning(opened, 0)});
}

// A file in memory, and what its callbacks do.
struct MemoryFile {
  std::string bytes;
  int64_t size_answer = 0;
  int32_t read_answer = 0;
  uint64_t n_read = 0;

  explicit MemoryFile(std::string of) : bytes(std::move(of)), size_answer(std::ssize(bytes)) {}
  tessera_reader reader() {
    tessera_reader result;
    tessera_reader_init(&result, sizeof result);
    result.user = this;
    result.file_size = [](void* user) { return static_cast<MemoryFile*>(user)->size_answer; };
    result.read = [](void* user, uint64_t offset, void* buffer, uint64_t n_bytes) {
      auto& file = *static_cast<MemoryFile*>(user);
      EXPECT_LE(offset + n_bytes, file.bytes.size());
      std::memcpy(buffer, file.bytes.data() + offset, n_bytes);
      file.n_read += n_bytes;
      return file.read_answer;
    };
    return result;
  }
};

std::vector<float> logits_of_prompt(tessera_model* model) {
  const SessionHandle session = create_session_handle(model);
  const std::vector<int32_t> tokens = tokens_of(model, "Once upon a time");
  EXPECT_SUCCESS(
      tessera_session_append(session.get(), 0, tokens.data(), tokens.size(), TESSERA_WANTS_OUTPUT, nullptr, error));
  uint64_t n = 0;
  const float* row = tessera_session_output(session.get(), 0, &n);
  return {row, row + n};
}

TEST(CapiReader, ModelsAreReadByCallbacks) {
  const RuntimeHandle runtime = create_runtime_handle();
  const ModelHandle of_file = open_story(runtime.get());
  const std::vector<float> want = logits_of_prompt(of_file.get());
  const uint64_t before = tessera_runtime_memory(runtime.get());
  for (const int32_t mode : {TESSERA_LOAD_MAP, TESSERA_LOAD_READ}) {
    MemoryFile file(read_all(story_model()));
    tessera_model_options options;
    tessera_model_options_init(&options, sizeof options);
    options.load_mode = mode;
    tessera_model* opened = nullptr;
    const tessera_reader reader = file.reader();
    EXPECT_SUCCESS(tessera_model_open_reader(runtime.get(), &reader, "a story", &options, &opened, error));
    ModelHandle model(opened, tessera_model_release);
    EXPECT_EQ(file.n_read, file.bytes.size());
    EXPECT_EQ(tessera_runtime_memory(runtime.get()), before + file.bytes.size());
    file.bytes.assign(file.bytes.size(), 'x');  // not needed any more
    EXPECT_SUCCESS(tessera_model_load(opened, nullptr, nullptr, nullptr, error));
    EXPECT_EQ(logits_of_prompt(opened), want);
    EXPECT_EQ(tessera_model_fingerprint(opened), tessera_model_fingerprint(of_file.get()));
    tessera_tensor_info info{};
    info.size = sizeof info;
    EXPECT_SUCCESS(tessera_model_tensor_info(opened, 0, &info, error));
    EXPECT_EQ(std::string(info.file), "a story");
    model.reset();
    EXPECT_EQ(tessera_runtime_memory(runtime.get()), before);
  }
}

TEST(CapiReader, FilesBeyondTheBudgetAreNotRead) {
  MemoryFile file(read_all(story_model()));
  tessera_runtime_options options;
  tessera_runtime_options_init(&options, sizeof options);
  options.memory_budget = file.bytes.size() - 1;
  tessera_runtime* created = nullptr;
  EXPECT_SUCCESS(tessera_runtime_create(&options, &created, error));
  const RuntimeHandle runtime(created, tessera_runtime_release);
  const tessera_reader reader = file.reader();
  tessera_model* model = nullptr;
  EXPECT_STATUS(tessera_model_open_reader(created, &reader, "a story", nullptr, &model, error), TESSERA_OUT_OF_MEMORY,
                "a story: takes ");
  EXPECT_EQ(file.n_read, 0u);
  EXPECT_EQ(tessera_runtime_memory(created), 0u);
}

TEST(CapiReader, WhatFailsIsReported) {
  const RuntimeHandle runtime = create_runtime_handle();
  MemoryFile file(read_all(story_model()));
  tessera_model* model = nullptr;
  const auto open = [&](const tessera_reader* reader, tessera_error* error) {
    return tessera_model_open_reader(runtime.get(), reader, "a story", nullptr, &model, error);
  };
  tessera_reader reader = file.reader();
  file.read_answer = 7;
  EXPECT_STATUS(open(&reader, error), TESSERA_IO, "a story: its reader failed at byte 0: 7");
  file.read_answer = 0;
  file.size_answer = -5;
  EXPECT_STATUS(open(&reader, error), TESSERA_IO, "a story: its reader cannot tell the size: -5");
  file.size_answer = 100;
  EXPECT_STATUS(open(&reader, error), TESSERA_FORMAT, "a story: ");
  file.size_answer = 0;
  EXPECT_STATUS(open(&reader, error), TESSERA_FORMAT, "a story: ");
  file.size_answer = std::ssize(file.bytes);
  EXPECT_STATUS(open(nullptr, error), TESSERA_INVALID_ARGUMENT, "reader: is NULL");
  reader.file_size = nullptr;
  EXPECT_STATUS(open(&reader, error), TESSERA_INVALID_ARGUMENT, "reader->file_size: is NULL");
  reader = file.reader();
  reader.read = nullptr;
  EXPECT_STATUS(open(&reader, error), TESSERA_INVALID_ARGUMENT, "reader->read: is NULL");
  reader = file.reader();
  reader.size = 0;
  EXPECT_STATUS(open(&reader, error), TESSERA_INVALID_ARGUMENT, "reader: size is 0");
  reader = file.reader();
  EXPECT_STATUS(tessera_model_open_reader(nullptr, &reader, "a", nullptr, &model, error), TESSERA_INVALID_ARGUMENT,
                "runtime: is NULL");
  EXPECT_STATUS(tessera_model_open_reader(runtime.get(), &reader, nullptr, nullptr, &model, error),
                TESSERA_INVALID_ARGUMENT, "name: is NULL");
  EXPECT_STATUS(tessera_model_open_reader(runtime.get(), &reader, "a", nullptr, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "model: is NULL");
  EXPECT_EQ(model, nullptr);
}

}  // namespace
}  // namespace tessera
