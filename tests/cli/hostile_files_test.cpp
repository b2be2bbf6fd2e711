// Malformed model files on the command line: inspect, plan and run. Each is refused immediately, in one line that names
// the fault. A file that is not refused works. Numbers are the items of the design's list of bad inputs.
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <limits>

#include "tests/cli/cli_support.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/editable_model.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::EditableModel;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::RawGguf;
using testing::run_program;

constexpr uint64_t kHuge = ~uint64_t{0};

// Returns the CPU time of starting the program if that alone is slow, as with sanitizers, and otherwise 0.
double start_seconds() {
  const double seconds = run_program({"--version"}).cpu_seconds;
  return seconds > 0.05 ? seconds : 0.0;
}

std::vector<std::string> command_line(const std::string& command, const std::string& path) {
  if (command == "run") return {"run", "-m", path, "-p", "x", "-n", "1", "-t", "1"};
  return {command, "-m", path};
}

void expect_refused_at_once(const std::string& command, const std::string& path, const std::string& part) {
  SCOPED_TRACE(command + " " + path);
  const ProgramOutput output = run_program(command_line(command, path));
  expect_refusal(output, 1, part);
  EXPECT_NE(output.err.find(path), std::string::npos) << output.err;
  static const double first_start = start_seconds();
  double start = first_start, seconds = output.cpu_seconds;
  // The machine may be busier than during the first start. An immediate refusal is fast in at least one of some runs.
  for (int again = 0; again < 5 && start > 0 && seconds - start >= 0.1; ++again) {
    start = std::max(start, start_seconds());
    seconds = std::min(seconds, run_program(command_line(command, path)).cpu_seconds);
  }
  EXPECT_LT(seconds - start, 0.1);
}

struct Case {
  std::string name;
  std::string bytes;
  std::string message;
};

void expect_all_refused(const std::vector<Case>& cases,
                        const std::vector<const char*>& commands = {"inspect", "plan", "run"}) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string path = testing::write_temporary("hostile.gguf", c.bytes);
    for (const char* command : commands) expect_refused_at_once(command, path, c.message);
  }
}

RawGguf one_key() { return RawGguf(0, 1); }
std::string one_tensor(const std::function<void(RawGguf&)>& add) {
  RawGguf g(1, 0);
  add(g);
  return g.data(256).bytes();
}

TEST(HostileFiles, Item1To3HeadersThatAreNoGguf) {
  expect_all_refused({
      {"empty", "", "truncated at byte 0"},
      {"4 bytes", "GGUF", "truncated at byte 4"},
      {"8 bytes", testing::small_gguf().substr(0, 8), "truncated at byte 8"},
      {"half", testing::small_gguf().substr(0, 200), "truncated at byte 200"},
      {"html", "<!DOCTYPE html><html>", "HTML page"},
      {"lfs", "version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"},
      {"terminal", "\x1b[2Jabc\n\n", "this is not a GGUF file"},
      {"version 0", RawGguf(0, 0, 0).bytes(), "version, got 0, supported: 2 and 3"},
      {"version max", RawGguf(0, 0, ~0u).bytes(), "version, got 4294967295, supported: 2 and 3"},
      {"swapped", RawGguf(0, 0, 0x03000000).bytes(), "big-endian file"},
  });
}

// inspect reads these (inspect_checkpoint_test.cpp).
TEST(HostileFiles, CheckpointsAreNoModels) {
  const std::string zip = "PK\x03\x04" + std::string(60, 'x'), zeros(60, '\0');
  expect_all_refused({{"zip", zip, "PyTorch checkpoint"},
                      {"ggml", "lmgg" + zeros, "from before GGUF"},
                      {"ggjt", "tjgg" + zeros, "from before GGUF"},
                      {"safetensors", RawGguf().number(uint64_t{2}).raw("{}").bytes(), "safetensors file"}},
                     {"plan", "run"});
  expect_all_refused({{"zip", zip, "no zip archive"},
                      {"ggml", "lmgg" + zeros, "a tensor of 0 dimensions, want 1 to 8"},
                      {"ggjt", "tjgg" + zeros, "version 0, want 1 to 3"}},
                     {"inspect"});
}

TEST(HostileFiles, Item4To7CountsLengthsAndTypesOfKeys) {
  const std::string tail(60, 'x');
  expect_all_refused({
      {"n_tensors 2^32", RawGguf(1ull << 32, 0).bytes(), "number of tensors, got 4294967296"},
      {"n_tensors max", RawGguf(kHuge, 0).bytes(), "number of tensors, got 18446744073709551615"},
      {"n_kv 2^32", RawGguf(0, 1ull << 32).bytes(), "number of keys, got 4294967296"},
      {"n_kv max", RawGguf(0, kHuge).bytes(), "number of keys, got 18446744073709551615"},
      {"key 2^63", one_key().number(1ull << 63).raw(tail).bytes(), "length of key 0, got 9223372036854775808"},
      {"string max", one_key().key("k", 8, kHuge).raw(tail).bytes(),
       "length of value of key 'k', got 18446744073709551615"},
      {"string 2^30-1", one_key().key("k", 8, (1ull << 30) - 1).raw(tail).bytes(), "want 1073741823 bytes, 60 left"},
      {"1e9 strings", one_key().array("k", 8, 1'000'000'000).raw(tail).bytes(), "got 1000000000"},
      {"type 99", one_key().key("k", 99, uint8_t{0}).bytes(), "type of value of key 'k', got 99"},
      {"nesting",
       [] {
         RawGguf g(0, 1);
         g.key("k", 9);
         for (int i = 0; i < 100'000; ++i) g.number(9u).number(uint64_t{1});
         return g.bytes();
       }(),
       "nesting of value of key 'k', got 5 or more, limit 4"},
      {"alignment 0", one_key().key("general.alignment", 4, 0u).bytes(), "got 0, want a power of two"},
      {"alignment 3", one_key().key("general.alignment", 4, 3u).bytes(), "got 3, want a power of two"},
      {"alignment 2^31", one_key().key("general.alignment", 4, 1u << 31).bytes(),
       "got 2147483648, want a power of two"},
      {"alignment text", one_key().key("general.alignment", 8).text("32").bytes(), "want u64"},
  });
}

TEST(HostileFiles, Item8To10TensorsAndDuplicates) {
  const auto two = [](uint64_t offset, std::string_view name) {
    return RawGguf(2, 0).tensor("a", {16}, 0, 0).tensor(name, {16}, 0, offset).data(128).bytes();
  };
  expect_all_refused({
      {"rank 5", one_tensor([](RawGguf& g) {
         g.tensor("t", {1, 1, 1, 1, 1}, 0, 0);
       }),
       "rank of tensor 't', got 5"},
      {"rank 2^31", one_tensor([](RawGguf& g) { g.text("t").number(1u << 31); }), "rank of tensor 't', got 2147483648"},
      {"extent 0", one_tensor([](RawGguf& g) {
         g.tensor("t", {4, 0}, 0, 0);
       }),
       "extent 1 of tensor 't', got 0"},
      {"extent -1", one_tensor([](RawGguf& g) { g.tensor("t", {-1}, 0, 0); }), "got -1, want at least 1"},
      {"extent max", one_tensor([](RawGguf& g) { g.tensor("t", {INT64_MAX}, 0, 0); }), "size overflows"},
      {"product", one_tensor([](RawGguf& g) {
         g.tensor("t", {1 << 30, 1 << 30, 1 << 30}, 0, 0);
       }),
       "more than 2^63"},
      {"q4_0 row", one_tensor([](RawGguf& g) { g.tensor("t", {33}, 2, 0); }), "q4_0 needs a multiple of 32"},
      {"type 4", one_tensor([](RawGguf& g) { g.tensor("t", {32}, 4, 0); }), "type 4 (Q4_2) was removed"},
      {"type 1000", one_tensor([](RawGguf& g) { g.tensor("t", {32}, 1000, 0); }), "type 1000 is not"},
      {"type -1", one_tensor([](RawGguf& g) { g.tensor("t", {32}, ~0u, 0); }), "type 4294967295 is not"},
      {"unaligned", two(65, "b"), "got 65, want a multiple of 32"},
      {"overlap", two(32, "b"), "tensors 'a' and 'b' overlap"},
      {"past the end", two(128, "b"), "tensor 'b': 64 bytes of data at 128"},
      {"offset 2^64-32", two(kHuge - 31, "b"), "bytes of data at 18446744073709551584"},
      {"tensor twice", two(64, "a"), "tensor 'a' appears twice, as tensors 0 and 1"},
      {"key twice", RawGguf(0, 2).key("k", 0, uint8_t{1}).key("k", 7, uint8_t{1}).bytes(), "key 'k' appears twice"},
      {"name NUL", one_tensor([](RawGguf& g) { g.tensor(std::string_view("a\0b", 3), {1}, 0, 0); }),
       "want no control characters"},
      {"name empty", one_tensor([](RawGguf& g) { g.tensor("", {1}, 0, 0); }), "name of tensor 0 is empty"},
  });
}

// A valid model with one change that only a loader can refuse. inspect accepts such a file.
struct Edit {
  std::string name;
  std::function<void(EditableModel&)> apply;
  std::string message;
};

void expect_loaders_refuse(const std::string& model, const std::vector<Edit>& edits) {
  const EditableModel original(model);
  for (const Edit& edit : edits) {
    SCOPED_TRACE(edit.name);
    EditableModel edited = original;
    edit.apply(edited);
    const std::string path = edited.write("edited.gguf");
    EXPECT_EQ(run_program({"inspect", path}).status, 0);
    for (const char* command : {"plan", "run"}) expect_refused_at_once(command, path, edit.message);
  }
}

TEST(HostileFiles, Item11HyperparametersThatContradict) {
  const std::string model = testing::story_model();
  expect_loaders_refuse(
      model,
      {
          {"no architecture", [](auto& m) { m.builder.remove("general.architecture"); },
           "key 'general.architecture': missing"},
          {"unknown", [](auto& m) { m.builder.set("general.architecture", "\x1b[31mllama"); },
           "architecture '\\x1b[31mllama' is not supported"},
          {"kv heads", [](auto& m) { m.builder.set("llama.attention.head_count_kv", 3u); }, "8 heads for 3 KV heads"},
          {"heads array",
           [](auto& m) { m.builder.set_array("llama.attention.head_count", std::vector<uint32_t>(4, 8)); },
           "4 elements, want one for each of 5 layers"},
          {"no layers", [](auto& m) { m.builder.set("llama.block_count", 0u); },
           "key 'llama.block_count': 0, want 1 to"},
          {"one more layer", [](auto& m) { m.builder.set("llama.block_count", 6u); },
           "tensor blk.5.attn_norm.weight [64] is missing"},
          {"width",
           [](auto& m) {
             m.builder.remove("llama.attention.key_length");  // the default is the width of a head
             m.builder.set("llama.embedding_length", 128u);
           },
           "rope.dimension_count 8 and key length 16"},
          {"feed forward", [](auto& m) { m.builder.set("llama.feed_forward_length", 171u); },
           "the model's keys want [64, 171]"},
          {"epsilon",
           [](auto& m) {
             m.builder.set("llama.attention.layer_norm_rms_epsilon", std::numeric_limits<float>::quiet_NaN());
           },
           "layer_norm_rms_epsilon': nan, want 0 to 1"},
          {"text", [](auto& m) { m.builder.set("llama.embedding_length", "64"); },
           "key 'llama.embedding_length': got \"64\" (string)"},
          {"rope", [](auto& m) { m.builder.set("llama.rope.dimension_count", 7u); }, "rope.dimension_count 7"},
      });
}

TEST(HostileFiles, Item12Vocabularies) {
  const std::string model = testing::story_model();
  expect_loaders_refuse(
      model,
      {
          {"no tokens", [](auto& m) { m.builder.set_array("tokenizer.ggml.tokens", std::vector<std::string>{}); },
           "tokens"},
          {"one token", [](auto& m) { m.builder.set_array("tokenizer.ggml.tokens", std::vector<std::string>{"a"}); },
           "token_embd.weight is [64, 512], the model's keys want [64]"},
          {"scores u8", [](auto& m) { m.builder.set_array("tokenizer.ggml.scores", std::vector<uint8_t>(512)); },
           "key 'tokenizer.ggml.scores'"},
          {"scores short", [](auto& m) { m.builder.set_array("tokenizer.ggml.scores", std::vector<float>(511)); },
           "511"},
          {"types short", [](auto& m) { m.builder.set_array("tokenizer.ggml.token_type", std::vector<int32_t>(3, 1)); },
           "3"},
          {"type 99", [](auto& m) { m.builder.set_array("tokenizer.ggml.token_type", std::vector<int32_t>(512, 99)); },
           "99"},
          {"bos 1e9", [](auto& m) { m.builder.set("tokenizer.ggml.bos_token_id", 1'000'000'000u); }, "1000000000"},
          {"eos text", [](auto& m) { m.builder.set("tokenizer.ggml.eos_token_id", "2"); },
           "key 'tokenizer.ggml.eos_token_id'"},
          {"model", [](auto& m) { m.builder.set("tokenizer.ggml.model", "none-such"); }, "none-such"},
      });
}

TEST(HostileFiles, Item12OddTokensAreTokens) {
  const std::string model = testing::story_model();
  EditableModel edited(model);
  std::vector<std::string> tokens(512);
  std::vector<int32_t> types(512, 1);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = "t" + std::to_string(i);
  tokens[100] = std::string(1 << 20, 'a');
  tokens[101] = "<0x-1>";
  types[101] = 6;  // the type of byte tokens
  edited.builder.set_array("tokenizer.ggml.tokens", tokens);
  edited.builder.set_array("tokenizer.ggml.token_type", types);
  const std::string path = edited.write("odd_tokens.gguf");
  EXPECT_EQ(run_program({"detokenize", "-m", path, "100"}).out, tokens[100] + "\n");
  const ProgramOutput output = run_program({"detokenize", "-m", path, "100", "101"});
  EXPECT_EQ(output.status, 0) << output.err;
}

TEST(HostileFiles, Item13WeightsThatAreNotFinite) {
  const std::string model = testing::story_model();
  for (const char* name : {"blk.2.ffn_up.weight", "token_embd.weight"}) {
    EditableModel edited(model);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(edited.tensor(name).data() + 4 * 1000, &nan, sizeof nan);
    const std::string path = edited.write("nan.gguf");
    for (const char* mode : {"mmap", "none"}) {
      const ProgramOutput checked = run_program({"run", "-m", path, "-p", "x", "--check-tensors", "-lm", mode});
      expect_refusal(checked, 1, std::string("tensor ") + name + ": block 1000: value 0 is nan");
    }
    for (const char* temp : {"0", "0.8"}) {
      const ProgramOutput output =
          run_program({"run", "-m", path, "-p", "Once upon a time", "-n", "30", "-s", "1", "--temp", temp});
      if (output.status == 0) continue;  // a row of a token that does not occur
      EXPECT_EQ(output.status, 1);
      EXPECT_EQ(output.err, "error: sampler: no token to choose, all 512 logits are NaN, -inf or banned\n");
    }
  }
}

TEST(HostileFiles, Item18PathsThatAreNoRegularFiles) {
  const fs::path dir = testing::temporary_dir();
  const std::string fifo = (dir / "fifo").string(), loop = (dir / "loop").string(), locked = (dir / "locked").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  fs::create_symlink("loop", loop);
  testing::write_temporary("locked", "GGUF");
  fs::permissions(locked, fs::perms::none);
  for (const char* command : {"inspect", "plan", "run"}) {
    expect_refused_at_once(command, dir.string(),
                           command == std::string_view("inspect") ? "no tensors" : "is a directory");
    expect_refused_at_once(command, fifo, "is a pipe or device, want a regular file");
    expect_refused_at_once(command, "/dev/zero", "is a pipe or device, want a regular file");
    expect_refused_at_once(command, loop, "Too many levels of symbolic links");
    expect_refused_at_once(command, (dir / "missing.gguf").string(), "No such file or directory");
    if (::geteuid() != 0) expect_refused_at_once(command, locked, "Permission denied");
  }
}

TEST(HostileFiles, DamagedModelsAreRefusedOrRun) {
  const std::string model = testing::story_model();
  const std::string whole = testing::read_all(model);
  for (size_t i = 0; i < 40; ++i) {
    std::string bytes = whole;
    const size_t at = i * 349;  // spread over the whole header
    if (i % 4 == 0)
      bytes.resize(at);
    else
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << i % 8));
    const ProgramOutput output = run_program(command_line("run", testing::write_temporary("damaged.gguf", bytes)));
    SCOPED_TRACE(i);
    if (output.status != 0) expect_refusal(output, 1, "damaged.gguf: ");
  }
}

}  // namespace
}  // namespace tessera
