// tessera quantize: a real model in many types, sizes that equal the dry run's, and refusals that leave the input
// unchanged and no output.
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "tessera/convert/imatrix.h"
#include "tests/cli/cli_support.h"
#include "tests/support/editable_model.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::Child;
using testing::EditableModel;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

size_t count_files_like(const std::string& path) {
  const std::filesystem::path like(path);
  size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(like.parent_path()))
    if (entry.path().filename().string().starts_with(like.filename().string())) ++n;
  return n;
}

json dry_run(std::vector<std::string> args) {
  args.insert(args.begin(), {"quantize", "--dry-run", "--json"});
  const ProgramOutput output = run_program(args);
  EXPECT_EQ(output.status, 0) << output.err;
  return json::parse(output.out);
}

TEST(Quantize, OutputLoadsAndIsOfTheSizeThatTheDryRunSaid) {
  const std::string model = testing::story_model();
  for (const char* type :
       {"q8_0", "Q4_0", "q5_1", "F16", "bf16", "Q4_K_M", "iq4_xs", "iq2_xxs", "mxfp4", "COPY", "8"}) {
    if (!testing::runs_all_cases() && std::string_view(type).starts_with("iq")) continue;  // slow searches
    const std::string out = testing::temporary_path("type.gguf");
    const ProgramOutput output = run_program({"quantize", model, out, type});
    ASSERT_EQ(output.status, 0) << type << output.err;
    EXPECT_EQ(output.out, "");
    const auto file = GgufFile::open(out);
    ASSERT_OK(file);
    const json plan = dry_run({model, type});
    EXPECT_EQ(plan["n_bytes"], std::filesystem::file_size(out)) << type;
    EXPECT_EQ(plan["n_bytes_before"], std::filesystem::file_size(model));
    uint64_t sum = 0;
    for (const json& row : plan["tensors"]) {
      const GgufTensor* tensor = (*file)->find_tensor(row["name"].get<std::string>());
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(row["to"], info(tensor->dtype).name) << type;
      EXPECT_EQ(row["n_bytes"], tensor->n_bytes);
      sum += tensor->n_bytes;
    }
    EXPECT_EQ(plan["tensor_bytes"], sum);
    EXPECT_EQ(plan["tensors"].size(), 48u);
  }
}

TEST(Quantize, TheModelStillTellsStories) {
  const std::string model = testing::story_model();
  const std::string out = testing::temporary_path("story.gguf");
  ASSERT_EQ(run_program({"quantize", model, out, "q8_0"}).status, 0);
  const std::vector<std::string> args = {"-p", "Once upon a time", "-n", "12", "--temp", "0"};
  const auto story_of = [&](const std::string& path) {
    std::vector<std::string> words = {"run", "-m", path};
    words.insert(words.end(), args.begin(), args.end());
    return run_program(words).out;
  };
  EXPECT_EQ(story_of(out), story_of(model));  // with 8 bits, the first words stay the same
}

TEST(Quantize, SameBytesForAnyNumberOfThreads) {
  const std::string model = testing::story_model();
  for (const char* type : {"q8_0", "q4_0", "q5_1"}) {
    std::string first;
    for (const char* n_threads : {"1", "2", "3"}) {
      if (!testing::runs_all_cases() && type != std::string_view("q4_0")) continue;
      ASSERT_EQ(run_program({"quantize", model, testing::temporary_path("t.gguf"), type, n_threads}).status, 0);
      const std::string bytes = testing::read_all(testing::temporary_path("t.gguf"));
      if (first.empty()) first = bytes;
      EXPECT_TRUE(bytes == first) << type << n_threads;
    }
  }
}

TEST(Quantize, TableNamesTypesReasonsAndTotals) {
  const std::string model = testing::story_model();
  const ProgramOutput output =
      run_program({"quantize", "--dry-run", model, testing::temporary_path("never.gguf"), "q4_k_m"});
  EXPECT_EQ(output.status, 0);
  EXPECT_FALSE(std::filesystem::exists(testing::temporary_path("never.gguf")));
  for (const char* part : {"[172, 64]  f32   f16   22016  fallback", "f32     256  kept",
                           "tensors: 289696 bytes from 1171200", "file: 304448 bytes"})
    EXPECT_NE(output.out.find(part), std::string::npos) << part << "\n" << output.out;
  EXPECT_TRUE(output.err.starts_with("warning: 36 tensors whose rows")) << output.err;
  EXPECT_EQ(run_program({"quantize", "-q", "--dry-run", model, "q4_k_m"}).err, "");
  EXPECT_NE(run_program({"quantize", "-v", model, testing::temporary_path("v.gguf"), "q8_0"}).err.find("kept"),
            std::string::npos);
}

std::map<std::string, std::string> types_of(const json& plan) {
  std::map<std::string, std::string> types;
  for (const json& row : plan["tensors"]) types[row["name"]] = row["to"];
  return types;
}

TEST(Quantize, FlagsChooseTypes) {
  const std::string model = testing::story_model();
  auto types = types_of(dry_run({model, "q4_0", "--tensor-type", "blk\\.[01]\\.attn_v=q8_0", "-tt", "attn_v=Q5_0",
                                 "--token-embedding-type", "f16"}));
  EXPECT_EQ(types["blk.1.attn_v.weight"], "q8_0");
  EXPECT_EQ(types["blk.2.attn_v.weight"], "q5_0");
  EXPECT_EQ(types["token_embd.weight"], "f16");
  EXPECT_EQ(types["blk.2.attn_q.weight"], "q4_0");
  EXPECT_EQ(types["output.weight"], "q8_0");  // in place of q6_K, whose blocks do not divide 64
  EXPECT_EQ(types_of(dry_run({model, "q4_0", "--pure"}))["output.weight"], "q4_0");
  EXPECT_EQ(types_of(dry_run({model, "q4_0", "--output-tensor-type", "q5_1"}))["output.weight"], "q5_1");
  EXPECT_EQ(types_of(dry_run({model, "q4_0", "--leave-output-tensor"}))["output.weight"], "f32");
}

TEST(Quantize, RequantizingWarns) {
  const std::string model = testing::story_model();
  ASSERT_EQ(run_program({"quantize", model, testing::temporary_path("first.gguf"), "q8_0"}).status, 0);
  for (const std::vector<std::string>& flags : {std::vector<std::string>{}, {"--allow-requantize"}}) {
    std::vector<std::string> args = {"quantize", testing::temporary_path("first.gguf"),
                                     testing::temporary_path("second.gguf"), "q4_0"};
    args.insert(args.end(), flags.begin(), flags.end());
    const ProgramOutput output = run_program(args);
    EXPECT_EQ(output.status, 0);
    EXPECT_NE(output.err.find("quantized before"), std::string::npos) << output.err;
  }
}

TEST(Quantize, WrongCommandLines) {
  struct Refusal {
    std::vector<std::string> args;
    std::string message;
  };
  const Refusal refusals[] = {
      {{}, "no model: want IN.gguf OUT.gguf TYPE"},
      {{"in"}, "no output: want IN.gguf"},
      {{"in", "out"}, "no type: want IN.gguf"},
      {{"in", "out", "Q4_K_N"}, "'Q4_K_N' is not a file type; did you mean Q4_K_M?"},
      {{"in", "out", "q4_km"}, "'q4_km' is not a file type; did you mean Q4_K_M?"},
      {{"in", "out", "cpoy"}, "did you mean COPY?"},
      {{"in", "out", "33"}, "'33' is not a file type"},
      {{"in", "out", "q8_0", "0"}, "THREADS: 0 is out of range"},
      {{"in", "out", "q8_0", "two"}, "THREADS: 'two' is not a whole number"},
      {{"in", "out", "q8_0", "2", "3"}, "unexpected argument '3'"},
      {{"in", "out", "q8_0", "--tensor-type", "attn_v"}, "want REGEX=TYPE"},
      {{"in", "out", "q8_0", "--tensor-type", "attn_(=q8_0"}, "--tensor-type: 'attn_(' is not a regular expression"},
      {{"in", "out", "q8_0", "--tensor-type", "attn_v=q8_9"},
       "--tensor-type: 'q8_9' is not a type of weights; did you mean"},
      {{"in", "out", "q8_0", "--output-tensor-type", "i8"}, "--output-tensor-type: 'i8' is not a type of weights"},
      {{"in", "out", "q8_0", "--weighting", "x"}, "--weighting: 'x': want error or magnitude"},
      {{"in", "out", "q8_0", "--json"}, "--json requires --dry-run"},
      {{"in", "out", "q8_0", "--imatrix", "f", "--include-weights", "a", "--exclude-weights", "b"}, "give one of them"},
      {{"in", "out", "q8_0", "--include-weights", "a"}, "require --imatrix"},
      {{"in", "out", "--size", "big"}, "--size: 'big' is not a size"},
      {{"in", "out", "--size", "0.01bpw"}, "--size: 0.01 is out of range"},
      {{"in", "out", "--size", "1G", "--pure"}, "it cannot be combined with --pure and COPY"},
      {{"in", "out", "q8_0", "--dry-rum"}, "unknown flag --dry-rum; did you mean --dry-run?"},
  };
  for (const Refusal& refusal : refusals) {
    std::vector<std::string> args = {"quantize"};
    args.insert(args.end(), refusal.args.begin(), refusal.args.end());
    expect_refusal(run_program(args), 2, refusal.message);
  }
}

TEST(Quantize, BadInputsAreRefusedAndLeaveNothing) {
  const std::string model = testing::story_model();
  const std::string out = testing::temporary_path("refused.gguf");
  const auto refuse = [&](const std::string& in, const std::string& part) {
    const std::string before = std::filesystem::exists(in) ? testing::read_all(in) : "";
    expect_refusal(run_program({"quantize", "-q", in, out, "q4_0"}), 1, part);
    EXPECT_EQ(count_files_like(out), 0u);
    EXPECT_TRUE(before.empty() || testing::read_all(in) == before);
  };
  refuse("/no/such/model.gguf", "/no/such/model.gguf: cannot open");
  const std::string whole = testing::read_all(model);
  for (const size_t n : {0u, 3u, 20u, 5000u, 600000u})
    refuse(testing::write_temporary("cut.gguf", whole.substr(0, n)), "cut.gguf");
  EditableModel edited(model);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(edited.tensor("blk.3.ffn_up.weight").data() + 4 * 77, &nan, 4);
  refuse(edited.write("nan.gguf"), "nan.gguf: tensor 'blk.3.ffn_up.weight': element 77 is nan");
  EditableModel wrong(model);
  wrong.builder.set("llama.block_count", "five");
  refuse(wrong.write("wrong.gguf"), "llama.block_count");
}

TEST(Quantize, OutputsThatCannotBe) {
  const std::string model = testing::story_model();
  const std::string copy = testing::write_temporary("itself.gguf", testing::read_all(model));
  std::filesystem::create_symlink(copy, testing::temporary_path("alias.gguf"));
  expect_refusal(run_program({"quantize", "-q", copy, copy, "q4_0"}), 1, "itself.gguf: is the input");
  expect_refusal(run_program({"quantize", "-q", testing::temporary_path("alias.gguf"), copy, "q4_0"}), 1,
                 "is the input");
  EXPECT_TRUE(testing::read_all(copy) == testing::read_all(model));
  expect_refusal(run_program({"quantize", "-q", model, "/dev/full", "q4_0"}), 1,
                 "/dev/full: exists and is not a regular file");
  expect_refusal(run_program({"quantize", "-q", model, "/no/such/dir/out.gguf", "q4_0"}), 1, "cannot create");
}

// A limit on the size of files makes a write fail like a full disk.
TEST(Quantize, FullDiskIsAnErrorAndLeavesNothing) {
  const std::string model = testing::story_model();
  const std::string out = testing::temporary_path("full.gguf"), err = testing::temporary_path("full-err.txt");
  const std::string command = "ulimit -f 100; '" + testing::program_path() + "' quantize -q '" + model + "' '" + out +
                              "' q8_0 2> '" + err + "'";
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  const std::string message = testing::read_all(err);
  EXPECT_NE(message.find("full.gguf: cannot write"), std::string::npos) << message;
  EXPECT_EQ(std::ranges::count(message, '\n'), 1);
  EXPECT_EQ(count_files_like(out), 0u);
}

TEST(Quantize, InterruptLeavesNothing) {
  const std::string model = testing::story_model();
  EditableModel edited(model);
  const Shape shape = {4096, 4096};  // seconds of search
  ASSERT_OK(edited.builder.add_tensor("blk.0.ffn_up_extra.weight", DType::f32, shape));
  auto& data = edited.data.emplace_back(static_cast<size_t>(shape.n_elements()) * 4);
  for (size_t i = 0; i < data.size(); i += 4) {
    const float value = static_cast<float>(i * 2654435761u % 1000u) / 500.0f - 1.0f;
    std::memcpy(data.data() + i, &value, 4);
  }
  const std::string in = edited.write("slow.gguf"), out = testing::temporary_path("interrupted.gguf");
  Child child({"quantize", "-q", in, out, "iq3_s", "1"});
  for (int i = 0; i < 1000 && count_files_like(out) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  child.send(SIGINT);
  const ProgramOutput output = child.wait();
  EXPECT_EQ(output.status, 130) << output.err;
  EXPECT_EQ(output.err, "");
  EXPECT_EQ(count_files_like(out), 0u);
  std::filesystem::remove(in);
}

class WithImatrix : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = testing::story_model();
    imatrix_.datasets = {"text"};
    imatrix_.n_chunks = 1;
    for (int i = 0; i < 5; ++i) {
      auto& entry = imatrix_.entries["blk." + std::to_string(i) + ".attn_q.weight"];
      entry.counts = {4};
      for (int j = 0; j < 64; ++j) entry.sums.push_back(1 + j % 5);
    }
  }
  std::string save() const {
    EXPECT_OK(imatrix_.save(testing::temporary_path("imatrix.gguf")));
    return testing::temporary_path("imatrix.gguf");
  }
  std::string model_;
  convert::Imatrix imatrix_;
};

TEST_F(WithImatrix, IsUsedAndRecorded) {
  const std::string out = testing::temporary_path("with.gguf"), without = testing::temporary_path("without.gguf");
  const ProgramOutput output = run_program({"quantize", model_, out, "q4_1", "--imatrix", save()});
  EXPECT_EQ(output.status, 0);
  EXPECT_NE(output.err.find("without an entry in the importance matrix"), std::string::npos) << output.err;
  ASSERT_EQ(run_program({"quantize", model_, without, "q4_1"}).status, 0);
  const auto a = GgufFile::open(out), b = GgufFile::open(without);
  ASSERT_OK(a);
  ASSERT_OK(b);
  EXPECT_EQ(*(*a)->metadata().get<uint32_t>("quantize.imatrix.entries_count"), 5u);
  const auto data_of = [](const GgufFile& file) { return file.data(*file.find_tensor("blk.0.attn_q.weight")); };
  EXPECT_FALSE(std::ranges::equal(data_of(**a), data_of(**b)));
  ASSERT_EQ(run_program({"quantize", model_, out, "q4_1", "--imatrix", save(), "--exclude-weights", "attn_q"}).status,
            0);
  const auto excluded = GgufFile::open(out);
  ASSERT_OK(excluded);
  EXPECT_TRUE(std::ranges::equal(data_of(**excluded), data_of(**b)));
}

TEST_F(WithImatrix, OfAnotherModelIsRefused) {
  imatrix_.entries["blk.2.attn_q.weight"].sums.resize(32);
  const std::string out = testing::temporary_path("another.gguf");
  expect_refusal(run_program({"quantize", "-q", model_, out, "q4_0", "--imatrix", save()}), 1,
                 "tensor 'blk.2.attn_q.weight': the importance matrix has 32 columns for it, want 64");
  expect_refusal(run_program({"quantize", "-q", model_, out, "q4_0", "--imatrix", model_}), 1, "story.gguf");
  EXPECT_EQ(count_files_like(out), 0u);
}

TEST(Quantize, SizeIsKept) {
  TESSERA_SKIP_UNLESS_ALL_CASES();
  const std::string model = testing::story_model();
  const std::string out = testing::temporary_path("fit.gguf");
  // With a gigabyte all weights keep their types. The file grows by a few keys.
  const int all_bytes = static_cast<int>(std::filesystem::file_size(model)) + 200;
  for (const auto& [size, max_bytes] : {std::pair("300K", 300 * 1024), std::pair("400KB", 400 * 1000),
                                        std::pair("16bpw", 292800 * 2), std::pair("1G", all_bytes)}) {
    const ProgramOutput output = run_program({"quantize", "-q", "--size", size, model, out, "2"});
    ASSERT_EQ(output.status, 0) << output.err;
    ASSERT_OK(GgufFile::open(out));
    EXPECT_LE(std::filesystem::file_size(out), max_bytes) << size;
    EXPECT_GE(std::filesystem::file_size(out), max_bytes * 9 / 10) << size;
    EXPECT_EQ(dry_run({"--size", size, model})["n_bytes"], std::filesystem::file_size(out));
  }
  expect_refusal(run_program({"quantize", "-q", "--size", "50K", model, testing::temporary_path("small.gguf")}), 1,
                 "51200 bytes are too few: the smallest mix of types takes ");
  EXPECT_FALSE(std::filesystem::exists(testing::temporary_path("small.gguf")));
  ASSERT_EQ(run_program({"quantize", "-q", "--size", "400K", model, out, "Q4_K_M", "1"}).status, 0);
  EXPECT_EQ(*(*GgufFile::open(out))->metadata().get<uint32_t>("general.file_type"), 15u);
}

}  // namespace
}  // namespace tessera
