// Hostile input through llama.h: a failure value and a line of the log, never an abort, a hang, or an exception.
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tessera/llama/saved_state.h"
#include "tests/gguf/hostile_files.h"
#include "tests/llama/llama_support.h"
#include "tests/support/editable_model.h"
#include "tests/support/lora_support.h"

namespace tessera {
namespace {

using namespace testing;

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kOddIntegers[] = {INT32_MIN, INT32_MIN + 1, -2,       -1, 0, 1, 2, 511, 512,
                                    1 << 24,   INT32_MAX - 1, INT32_MAX};

std::string repeated_text(std::string_view text, size_t n) {
  std::string all;
  for (size_t i = 0; i < n; ++i) all += text;
  return all;
}

class LlamaHostile : public ::testing::Test {
 protected:
  // Expects that the log is one line of a function.
  void expect_line(const std::string& function) {
    const std::string line = log_.take();
    EXPECT_TRUE(line.starts_with(function + ": ")) << line;
    EXPECT_EQ(std::ranges::count(line, '\n'), 1) << line;
  }

  // Calls every function that reads a model file. All must refuse it, with its path and a part of the message.
  void expect_refused(const std::string& path, std::string_view message) {
    const std::string out = temporary_path("hostile.out");
    llama_model_params vocab_only = llama_model_default_params();
    vocab_only.vocab_only = true;
    const char* part = path.c_str();
    const auto refused = [&](const std::string& function, bool failed) {
      EXPECT_TRUE(failed) << function;
      const std::string line = log_.take();
      EXPECT_TRUE(line.starts_with(function + ": " + path)) << line;
      EXPECT_NE(line.find(message), std::string::npos) << line;
      EXPECT_EQ(std::ranges::count(line, '\n'), 1) << line;
    };
    refused("llama_model_load_from_file", load_llama(path) == nullptr);
    refused("llama_model_load_from_file", load_llama(path, vocab_only) == nullptr);
    refused("llama_model_load_from_splits",
            llama_model_load_from_splits(&part, 1, llama_model_default_params()) == nullptr);
    refused("llama_adapter_lora_init", llama_adapter_lora_init(model_.get(), part) == nullptr);
    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.nthread = 1;
    refused("llama_model_quantize", llama_model_quantize(part, out.c_str(), &params) == 1u);
    EXPECT_FALSE(std::filesystem::exists(out));
  }

  // The same for functions that read states.
  void expect_no_state(const std::string& path, std::string_view message) {
    llama_token tokens[8];
    size_t n = 7;
    const auto refused = [&](const std::string& function, bool failed) {
      EXPECT_TRUE(failed) << function;
      EXPECT_EQ(n, 7u);
      const std::string line = log_.take();
      EXPECT_TRUE(line.starts_with(function + ": " + path)) << line;
      EXPECT_NE(line.find(message), std::string::npos) << line;
    };
    refused("llama_state_load_file", !llama_state_load_file(context_.get(), path.c_str(), tokens, 8, &n));
    refused("llama_state_seq_load_file",
            llama_state_seq_load_file(context_.get(), path.c_str(), 0, tokens, 8, &n) == 0u);
  }

  // Loads a changed model and uses it, if that is not refused.
  void use(const std::string& path) {
    const LlamaModel model = load_llama(path);
    if (model == nullptr) return expect_line("llama_model_load_from_file");
    const llama_vocab* vocab = llama_model_get_vocab(model.get());
    char text[64];
    for (int32_t i = -1; i <= llama_model_meta_count(model.get()); ++i)
      llama_model_meta_val_str_by_index(model.get(), i, text, sizeof text);
    llama_model_desc(model.get(), text, sizeof text);
    for (const llama_token token : {llama_vocab_bos(vocab), llama_vocab_eos(vocab), llama_vocab_nl(vocab)}) {
      llama_vocab_get_text(vocab, token);
      llama_token_to_piece(vocab, token, text, sizeof text, 0, true);
      llama_vocab_is_eog(vocab, token);
    }
    const LlamaContext context = create_llama(model.get());
    if (context != nullptr && decode_all(context.get(), tokenize(model.get(), "Once upon")) == 0) {
      const LlamaSampler chain = chain_of({llama_sampler_init_top_p(0.9f, 1), llama_sampler_init_dist(1)});
      llama_sampler_sample(chain.get(), context.get(), -1);
    }
    log_.take();
  }

  LogLines log_;
  LlamaModel model_ = load_llama(story_model());
  LlamaContext context_ = create_llama(model_.get(), small_context(512, 2));
  const llama_vocab* vocab_ = llama_model_get_vocab(model_.get());
  llama_memory_t memory_ = llama_get_memory(context_.get());
};

// --- files

TEST_F(LlamaHostile, MalformedFilesAreRefusedByEveryFunction) {
  for (const HostileFile& c : kHostileFiles) {
    SCOPED_TRACE(c.name);
    const std::string path = write_temporary("hostile.gguf", c.bytes());
    expect_refused(path, c.message.starts_with("f.gguf: ") ? c.message.substr(8) : c.message);
    expect_no_state(path, "state: ");
  }
}

TEST_F(LlamaHostile, EachCutAndFlippedBitOfAFileIsRefused) {
  const std::string whole = small_gguf();
  for (size_t n = 0; n < whole.size(); n += all_or_few(5, 31)) {
    EXPECT_EQ(load_llama(write_temporary("cut.gguf", whole.substr(0, n))), nullptr) << n;
    expect_line("llama_model_load_from_file");
  }
  for (size_t bit = 0; bit < whole.size() * 8; bit += all_or_few(41, 307)) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(load_llama(write_temporary("flipped.gguf", flipped)), nullptr) << bit;
    expect_line("llama_model_load_from_file");
  }
}

TEST_F(LlamaHostile, WrongKeysAreErrorsOrModelsThatWork) {
  const EditableModel original(story_model());
  const auto with = [&](const std::string& key, const auto& value) {
    SCOPED_TRACE(key);
    EditableModel edited = original;
    edited.builder.set(key, value);
    use(edited.write("wrong.gguf"));
  };
  for (const std::string key : {"llama.block_count", "llama.context_length", "llama.embedding_length",
                                "llama.attention.head_count", "llama.attention.head_count_kv", "llama.vocab_size",
                                "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "general.file_type"})
    for (const uint32_t value : {0u, 3u, 1u << 24, ~0u}) with(key, value);
  for (const float value : {kNotANumber, std::numeric_limits<float>::infinity(), -1.0f}) {
    with("llama.attention.layer_norm_rms_epsilon", value);
    with("llama.rope.freq_base", value);
  }
  for (const std::string key : {"general.architecture", "tokenizer.ggml.model", "tokenizer.ggml.pre"})
    for (const std::string& value : {std::string(), std::string("\x1b[31mllama"), std::string(100'000, 'x')})
      with(key, value);
  with("split.count", uint16_t{65535});
  with("tokenizer.chat_template", std::string(100'000, '{'));
  with("llama.block_count", std::string("5"));
}

TEST_F(LlamaHostile, WrongVocabulariesAreErrorsOrModelsThatWork) {
  const EditableModel original(story_model());
  const auto with = [&](const std::string& key, const auto& values) {
    SCOPED_TRACE(key);
    EditableModel edited = original;
    edited.builder.set_array(key, values);
    use(edited.write("wrong.gguf"));
  };
  std::vector<std::string> odd(512);
  for (size_t i = 0; i < odd.size(); ++i) odd[i] = "t" + std::to_string(i);
  odd[100] = std::string(1 << 20, 'a');
  odd[101] = "<0x-1>";
  odd[102] = "\xff\xfe";
  odd[103] = std::string("a\0b", 3);
  std::vector<int32_t> types(512, 1);
  types[101] = 6;
  with("tokenizer.ggml.tokens", odd);
  with("tokenizer.ggml.tokens", std::vector<std::string>{});
  with("tokenizer.ggml.tokens", std::vector<std::string>{"a"});
  with("tokenizer.ggml.tokens", std::vector<std::string>(512, "same"));
  with("tokenizer.ggml.scores", std::vector<uint8_t>(512));
  with("tokenizer.ggml.scores", std::vector<float>(511));
  with("tokenizer.ggml.scores", std::vector<float>(512, kNotANumber));
  with("tokenizer.ggml.token_type", types);
  with("tokenizer.ggml.token_type", std::vector<int32_t>(512, 99));
  EditableModel edited = original;
  edited.builder.set_array("tokenizer.ggml.tokens", odd);
  edited.builder.set_array("tokenizer.ggml.token_type", types);
  const LlamaModel model = load_llama(edited.write("odd.gguf"));
  ASSERT_NE(model, nullptr);
  const llama_vocab* vocab = llama_model_get_vocab(model.get());
  EXPECT_EQ(llama_vocab_get_text(vocab, 100), odd[100]);
  for (const llama_token token : {101, 102, 103}) {
    char piece[16];
    EXPECT_NE(llama_vocab_get_text(vocab, token), nullptr);
    EXPECT_LE(llama_token_to_piece(vocab, token, piece, sizeof piece, 0, true), 16);
  }
}

TEST_F(LlamaHostile, WeightsThatAreNotFiniteAreFoundOrDoNoHarm) {
  EditableModel edited{story_model()};
  for (size_t at = 0; at < 64; ++at) std::memcpy(edited.tensor("output_norm.weight").data() + 4 * at, &kNotANumber, 4);
  const std::string path = edited.write("nan.gguf");
  llama_model_params params = llama_model_default_params();
  params.check_tensors = true;
  EXPECT_EQ(load_llama(path, params), nullptr);
  EXPECT_NE(log_.take().find("tensor output_norm.weight: block 0: value 0 is nan"), std::string::npos);
  const LlamaModel model = load_llama(path);
  const LlamaContext context = create_llama(model.get());
  ASSERT_EQ(decode_all(context.get(), {1, 300}), 0);
  EXPECT_TRUE(std::isnan(llama_get_logits_ith(context.get(), -1)[5]));
  using Samplers = std::initializer_list<llama_sampler*>;
  for (const Samplers& samplers :
       {Samplers{llama_sampler_init_greedy()}, Samplers{llama_sampler_init_dist(1)},
        Samplers{llama_sampler_init_top_k(40), llama_sampler_init_top_p(0.9f, 1), llama_sampler_init_min_p(0.1f, 1),
                 llama_sampler_init_typical(0.9f, 1), llama_sampler_init_xtc(0.5f, 0.1f, 1, 1),
                 llama_sampler_init_top_n_sigma(1), llama_sampler_init_temp(0.8f), llama_sampler_init_dist(1)},
        Samplers{llama_sampler_init_mirostat_v2(1, 5, 0.1f)}}) {
    const LlamaSampler chain = chain_of(samplers);
    const llama_token token = llama_sampler_sample(chain.get(), context.get(), -1);
    EXPECT_TRUE(token >= -1 && token < 512) << token;
  }
}

TEST_F(LlamaHostile, PartsOfSplitModelsAreMissing) {
  const EditableModel original(story_model());
  EditableModel edited = original;
  edited.builder.set("split.no", uint16_t{0});
  edited.builder.set("split.count", uint16_t{2});
  edited.builder.set("split.tensors.count", int32_t{48});
  const std::string first = edited.write("part-00001-of-00002.gguf");
  EXPECT_EQ(load_llama(first), nullptr);
  EXPECT_NE(log_.take().find("part-00002-of-00002.gguf"), std::string::npos);
  const std::string second = temporary_path("part-00002-of-00002.gguf");
  std::filesystem::copy_file(story_model(), second, std::filesystem::copy_options::overwrite_existing);
  const char* in_order[] = {first.c_str(), second.c_str()};
  const char* turned[] = {second.c_str(), first.c_str()};
  const char* with_null[] = {first.c_str(), nullptr};
  for (const char** paths : {in_order, turned, with_null}) {
    EXPECT_EQ(llama_model_load_from_splits(paths, 2, llama_model_default_params()), nullptr);
    expect_line("llama_model_load_from_splits");
  }
  EXPECT_EQ(llama_model_load_from_splits(in_order, SIZE_MAX, llama_model_default_params()), nullptr);
  expect_line("llama_model_load_from_splits");
}

TEST_F(LlamaHostile, AdaptersOfOtherModelsAreRefused) {
  EditableModel edited{write_lora(story_model(), "lora.gguf", 2, 4.0f, 1)};
  edited.builder.set("general.architecture", "gemma");
  const std::string path = edited.write("other.gguf");
  EXPECT_EQ(llama_adapter_lora_init(model_.get(), path.c_str()), nullptr);
  expect_line("llama_adapter_lora_init");
  const std::string whole = read_all(write_lora(story_model(), "lora.gguf", 2, 4.0f, 1));
  for (size_t at = 4; at < 1200; at += all_or_few(29, 97)) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    llama_adapter_lora* adapter =
        llama_adapter_lora_init(model_.get(), write_temporary("damaged.gguf", damaged).c_str());
    float scale = 1;
    EXPECT_TRUE(adapter == nullptr || llama_set_adapters_lora(context_.get(), &adapter, 1, &scale) == 0) << at;
    llama_set_adapters_lora(context_.get(), nullptr, 0, nullptr);
    llama_adapter_lora_free(adapter);
  }
}

TEST_F(LlamaHostile, PathsThatAreNoRegularFilesAreRefused) {
  const std::filesystem::path folder = temporary_dir();
  const std::string fifo = (folder / "fifo").string(), loop = (folder / "loop").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_symlink("loop", loop);
  const std::pair<std::string, std::string> cases[] = {
      {folder.string(), "is a directory"},
      {fifo, "is a pipe or device"},
      {"/dev/zero", "is a pipe or device"},
      {loop, "Too many levels of symbolic links"},
      {(folder / "missing").string(), "No such file or directory"},
      {(folder / std::string(300, 'x')).string(), "File name too long"},
      {"", ""}};
  for (const auto& [path, message] : cases) {
    SCOPED_TRACE(path);
    expect_refused(path, message);
    expect_no_state(path, message);
  }
  for (const std::string& path : {folder.string(), std::string("/dev/full"), (folder / "no/folder").string()}) {
    SCOPED_TRACE(path);
    EXPECT_EQ(llama_model_quantize(story_model().c_str(), path.c_str(), nullptr), 1u);
    expect_line("llama_model_quantize");
    EXPECT_FALSE(llama_state_save_file(context_.get(), path.c_str(), nullptr, 0));
    expect_line("llama_state_save_file");
    llama_model_save_to_file(model_.get(), path.c_str());
    expect_line("llama_model_save_to_file");
  }
  llama_model_save_to_file(model_.get(), story_model().c_str());
  expect_line("llama_model_save_to_file");
}

// --- states

TEST_F(LlamaHostile, StatesOfOtherFormsAreRefused) {
  ASSERT_EQ(decode_all(context_.get(), {1, 5, 9}), 0);
  std::vector<uint8_t> one(llama_state_seq_get_size(context_.get(), 0));
  ASSERT_EQ(llama_state_seq_get_data(context_.get(), one.data(), one.size(), 0), one.size());
  const auto unpacked = llama::unpack_state(std::as_bytes(std::span(one)));
  ASSERT_OK(unpacked);
  const std::span<const std::byte> saved = unpacked->sequences.at(0).bytes;
  const std::vector<std::byte> noise(100, std::byte{7});
  using Sequences = std::vector<llama::SavedSequence>;
  // Their checksums are right, unlike what is in them.
  const Sequences forms[] = {{{0, saved.first(saved.size() / 2)}},
                             {{0, noise}},
                             {{0, {}}},
                             {{-1, saved}},
                             {{2, saved}},
                             {{INT32_MAX, saved}},
                             {{0, saved}, {1, noise}},
                             {{0, saved}, {9, saved}}};
  for (const Sequences& sequences : forms) {
    const auto packed = llama::pack_state({.tokens = {1, 2}, .sequences = sequences});
    const auto* bytes = reinterpret_cast<const uint8_t*>(packed.data());
    EXPECT_EQ(llama_state_set_data(context_.get(), bytes, packed.size()), 0u);
    expect_line("llama_state_set_data");
    EXPECT_EQ(llama_memory_seq_pos_max(memory_, 0), 2);
    EXPECT_EQ(llama_memory_seq_pos_max(memory_, 1), -1);
  }
  // A sequence may be there twice.
  const auto twice = llama::pack_state({.tokens = {}, .sequences = {{1, saved}, {1, saved}}});
  EXPECT_EQ(llama_state_set_data(context_.get(), reinterpret_cast<const uint8_t*>(twice.data()), twice.size()),
            twice.size());
  EXPECT_EQ(llama_memory_seq_pos_max(memory_, 0), -1);
  EXPECT_EQ(llama_memory_seq_pos_max(memory_, 1), 2);
}

TEST_F(LlamaHostile, EachCutAndFlippedByteOfAStateFileIsRefused) {
  ASSERT_EQ(decode_all(context_.get(), {1, 5, 9}), 0);
  const std::string path = temporary_path("whole.state"), damaged = temporary_path("damaged.state");
  const llama_token tokens[] = {1, 5, 9};
  ASSERT_TRUE(llama_state_save_file(context_.get(), path.c_str(), tokens, 3));
  std::string whole = read_all(path);
  llama_token found[8];
  size_t n = 0;
  const auto is_refused = [&](const std::string& bytes) {
    const std::string changed = write_temporary("damaged.state", bytes);
    return !llama_state_load_file(context_.get(), changed.c_str(), found, 8, &n) &&
           llama_memory_seq_pos_max(memory_, 0) == 2;
  };
  for (size_t at = 0; at < whole.size(); at += all_or_few(131, 509)) {
    EXPECT_TRUE(is_refused(whole.substr(0, at))) << at;
    whole[at] = static_cast<char>(whole[at] ^ 0x80);
    EXPECT_TRUE(is_refused(whole)) << at;
    whole[at] = static_cast<char>(whole[at] ^ 0x80);
  }
  std::filesystem::copy_file(path, damaged, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(damaged, uint64_t{1} << 40);  // a sparse file
  EXPECT_FALSE(llama_state_load_file(context_.get(), damaged.c_str(), found, 8, &n));
  EXPECT_NE(log_.take().find("1099511627776 bytes, a state of this context has at most"), std::string::npos);
  EXPECT_TRUE(llama_state_load_file(context_.get(), path.c_str(), found, 8, &n));
  constexpr uint64_t kTokens = uint64_t{1} << 24, kHeaders = 32 + 2 * 16, kChecksum = 8;
  EXPECT_EQ(llama::most_state_bytes(100, 2), kHeaders + 4 * kTokens + 2 * 100 + kChecksum);
  EXPECT_EQ(llama::most_state_bytes(kHugeNumber / 2, 3), kHugeNumber);
}

// --- texts, templates, grammars

TEST_F(LlamaHostile, TextsOfAnyBytesAreReadBack) {
  const size_t n = all_or_few(size_t{100'000}, size_t{5'000});
  const std::string texts[] = {std::string(n, 'A'),
                               std::string(n, '\n'),
                               std::string(n, ' '),
                               std::string(n, '\0'),
                               repeated_text("\xf0\x9f\x91\xa9\xe2\x80\x8d", n / 7),
                               "e" + repeated_text("\xcc\x81", n / 2),
                               repeated_text("\xc0\x80\xff\xed\xa0\x80", n / 6),
                               repeated_text("<s></s><unk>", n / 12)};
  for (const std::string& text : texts) {
    const std::vector<llama_token> tokens = tokenize(model_.get(), text, false);
    ASSERT_FALSE(tokens.empty());
    EXPECT_TRUE(std::ranges::none_of(tokens, [&](llama_token id) { return llama_vocab_is_control(vocab_, id); }));
    std::string back(2 * text.size(), '#');
    const int32_t length = llama_detokenize(vocab_, tokens.data(), static_cast<int32_t>(tokens.size()), back.data(),
                                            static_cast<int32_t>(back.size()), false, false);
    ASSERT_GE(length, 0);
    back.resize(static_cast<size_t>(length));
    EXPECT_EQ(back, text);
  }
  EXPECT_EQ(log_.take(), "");
}

TEST_F(LlamaHostile, TemplatesHaveLimits) {
  const llama_chat_message message = {"us\xffr", "\xfe{{ 7 }}"};
  const std::string sources[] = {repeated_text("{% if x %}", 20'000),
                                 repeated_text("{{ (", 50'000),
                                 "{{ " + std::string(100'000, '['),
                                 "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
                                 "{% for i in range(10000000000) %}x{% endfor %}",
                                 "{% for i in range(99999999) %}{% endfor %}",
                                 "{{ 'A' * 100000000000 }}",
                                 "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}"
                                 "{% endfor %}",
                                 "{{ 1 | no_such_filter }}",
                                 "{{ ''.__class__.__mro__[1].__subclasses__() }}",
                                 "{% include '/etc/passwd' %}",
                                 "{{ messages[99].content.x }}",
                                 "{{ '\xff' }}",
                                 "{%"};
  for (const std::string& source : sources) {
    SCOPED_TRACE(source.substr(0, 60));
    char text[64];
    std::memset(text, '#', sizeof text);
    EXPECT_EQ(llama_chat_apply_template(source.c_str(), &message, 1, true, text, sizeof text), -1);
    EXPECT_EQ(text[0], '#');
    expect_line("llama_chat_apply_template");
  }
  char text[64];
  for (const char* source : {"{% if true %}x{% endif %}", "{{ messages[0].content }}"})
    EXPECT_GT(llama_chat_apply_template(source, &message, 1, true, text, sizeof text), 0) << source;
  EXPECT_NE(std::string(text).find("{{ 7 }}"), std::string::npos);  // not a template
  EXPECT_EQ(llama_chat_apply_template("chatml", &message, SIZE_MAX, true, text, sizeof text), -1);
  for (const int32_t length : kOddIntegers)
    EXPECT_GT(llama_chat_apply_template("chatml", &message, 1, true, text, std::min(length, 64)), 0);
}

TEST_F(LlamaHostile, GrammarsHaveLimits) {
  std::string chain;
  for (int i = 0; i < 20'000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  const std::string grammars[] = {"root ::= " + std::string(60'000, '('),
                                  "root ::= r0\n" + chain,
                                  "root ::= root \"a\" | \"b\"",
                                  "root ::= ([x]*)*",
                                  "root ::= [a]{1000000000}",
                                  "root ::= (([a]{0,99}){0,99}){0,99}",
                                  "root ::= (x{0,1000}){0,1000}\nx ::= \"a\" x? \"b\"? x?",
                                  "root ::= \"" + std::string(100'000, 'a') + "\"",
                                  "root ::= \"\xff\"",
                                  "root ::= <[999999]>",
                                  "root ::= <[-1]>",
                                  "root ::= <no-such-token>",
                                  "root ::= other",
                                  "root ::="};
  for (const std::string& source : grammars) {
    SCOPED_TRACE(source.substr(0, 40));
    for (const char* root : {"root", static_cast<const char*>(nullptr), "", "no such rule", "a\nb"}) {
      const LlamaSampler grammar = own(llama_sampler_init_grammar(vocab_, source.c_str(), root));
      if (grammar == nullptr) {
        expect_line("llama_sampler_init_grammar");
        continue;
      }
      for (int step = 0; step < 3; ++step) {
        std::vector<llama_token_data> data;
        for (llama_token id = -1; id <= 512; ++id) data.push_back({id, 0.0f, 0.0f});
        llama_token_data_array array = {data.data(), data.size(), -1, false};
        llama_sampler_apply(grammar.get(), &array);
        for (const llama_token_data& one : data)
          if (one.id >= 0 && one.logit == 0) {
            llama_sampler_accept(grammar.get(), one.id);
            break;
          }
      }
      const LlamaSampler copy = own(llama_sampler_clone(grammar.get()));
      llama_sampler_reset(grammar.get());
      log_.take();
    }
  }
}

TEST_F(LlamaHostile, TriggersHaveLimits) {
  const std::string patterns[] = {"*",
                                  "(",
                                  "(?<=x)",
                                  std::string(50'000, '('),
                                  "(a+)+$",
                                  "(.*)*(.*)*(.*)*x",
                                  "a*(a*)*b",
                                  "^(a*)*(b)$",
                                  "((a{0,99}){0,99}){0,99}",
                                  "\\",
                                  "[",
                                  "(x)(",
                                  "\xff",
                                  ""};
  for (const std::string& pattern : patterns) {
    SCOPED_TRACE(pattern.substr(0, 40));
    const char* given = pattern.c_str();
    const LlamaSampler lazy =
        own(llama_sampler_init_grammar_lazy_patterns(vocab_, "root ::= [a-z]+", "root", &given, 1, nullptr, 0));
    if (lazy == nullptr) {
      expect_line("llama_sampler_init_grammar_lazy_patterns");
      continue;
    }
    for (const llama_token token : kOddIntegers) llama_sampler_accept(lazy.get(), token);
    for (int i = 0; i < 60; ++i) llama_sampler_accept(lazy.get(), 3 + 'a');
    llama_sampler_accept(lazy.get(), 3 + 0xff);
    llama_sampler_accept(lazy.get(), 3 + 'b');
    log_.take();
  }
  const llama_token odd[] = {INT32_MIN, -1, 512, INT32_MAX};
  const LlamaSampler by_tokens =
      own(llama_sampler_init_grammar_lazy_patterns(vocab_, "root ::= [a-z]+", "root", nullptr, 0, odd, 4));
  ASSERT_NE(by_tokens, nullptr);
  for (const llama_token token : kOddIntegers) llama_sampler_accept(by_tokens.get(), token);
  EXPECT_EQ(llama_sampler_init_grammar_lazy_patterns(vocab_, "root ::= [a-z]+", "root", nullptr, 0, odd, SIZE_MAX),
            nullptr);
}

}  // namespace
}  // namespace tessera
