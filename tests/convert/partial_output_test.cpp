// Outputs in parts, and partial files that a later run continues: the result is that of one undisturbed run.
#include "tessera/convert/partial_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "tessera/convert/conversion.h"
#include "tests/convert/hub_folder.h"
#include "tests/convert/quantize_support.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

namespace fs = std::filesystem;
using namespace testing;

// A conversion of a small llama, in parts of at most so many tensors.
struct PlannedLlama {
  std::unique_ptr<Conversion> conversion;
  QuantizeOptions options;
  QuantizePlan plan;

  uint64_t fingerprint() const { return fingerprint_of(*conversion, plan, options, "1").value(); }
};

PlannedLlama plan_llama(const std::string& folder, FileType type, uint64_t max_tensors = 0) {
  PlannedLlama planned{.conversion = Conversion::open(folder, type).value(), .options = {}, .plan = {}};
  planned.options.mix.file_type = type;
  planned.conversion->apply_to(planned.options);
  planned.plan = plan_quantize(planned.conversion->files(), planned.options).value();
  EXPECT_OK(split_output(planned.plan, "out", {.max_tensors = max_tensors}));
  return planned;
}

Result<> write_llama(const PlannedLlama& planned, const std::string& path, PartialOutput* partial = nullptr,
                     const CancelToken* cancel = nullptr) {
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = 2}));
  const auto progress = [](float) { return true; };
  return write_quantized(planned.conversion->files(), planned.plan, planned.options, path,
                         {*threads, cancel, progress, partial});
}

// A new folder for outputs.
std::string output_folder(const std::string& name) {
  const std::string folder = temporary_path(name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

TEST(OutputInParts, IsTheSplitOfTheWhole) {
  const std::string hub = hub_llama().write("parts-hub"), folder = output_folder("parts");
  for (const FileType type : {FileType::bf16, FileType::q8_0}) {
    ASSERT_OK(write_llama(plan_llama(hub, type), folder + "/whole.gguf"));
    const PlannedLlama planned = plan_llama(hub, type, 8);
    EXPECT_EQ(planned.plan.n_parts, 3u);
    ASSERT_OK(write_llama(planned, folder + "/out.gguf"));
    ASSERT_OK_AND_ASSIGN(const auto whole, ModelFiles::open(folder + "/whole.gguf"));
    ASSERT_OK_AND_ASSIGN(const auto shards, plan_shards(*whole, {.max_tensors = 8}));
    ASSERT_OK(write_shards(*whole, shards, folder + "/split"));
    uint64_t n_bytes = 0;
    for (uint32_t part = 0; part < 3; ++part) {
      const std::string path = split_path(folder + "/out", part, 3);
      EXPECT_TRUE(read_all(path) == read_all(split_path(folder + "/split", part, 3))) << path;
      n_bytes += fs::file_size(path);
      fs::remove(split_path(folder + "/split", part, 3));
    }
    EXPECT_EQ(output_bytes(planned.conversion->files(), planned.plan, planned.options).value(), n_bytes);
  }
}

TEST(OutputInParts, OnePartStaysOneFileAndTheFirstMayHaveNoTensors) {
  const std::string hub = hub_llama().write("parts-hub"), folder = output_folder("parts");
  PlannedLlama planned = plan_llama(hub, FileType::bf16, 21);
  EXPECT_EQ(output_paths(planned.plan, "a.gguf"), (std::vector<std::string>{"a.gguf"}));
  EXPECT_EQ(plan_llama(hub, FileType::bf16, 20).plan.n_parts, 2u);
  ASSERT_OK(split_output(planned.plan, "out", {.max_tensors = 20, .is_first_tensorless = true}));
  EXPECT_EQ(planned.plan.n_parts, 3u);
  ASSERT_OK(write_llama(planned, folder + "/out.gguf"));
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(split_path(folder + "/out", 0, 3)));
  EXPECT_EQ(files->files()[0]->tensors().size(), 0u);
  EXPECT_EQ(files->files()[1]->tensors().size(), 20u);
  EXPECT_EQ(files->tensors().size(), 21u);
  EXPECT_EQ(files->metadata().get<std::string_view>("general.architecture").value(), "llama");
}

TEST(OutputInParts, NothingAppearsBeforeAllIsComplete) {
  const std::string hub = hub_llama().write("parts-hub"), folder = output_folder("parts");
  CancelToken cancel;
  cancel.cancel();
  EXPECT_EQ(write_llama(plan_llama(hub, FileType::bf16, 8), folder + "/out.gguf", nullptr, &cancel).error().code(),
            ErrorCode::cancelled);
  EXPECT_EQ(names_in(folder), std::vector<std::string>());
  // The first part cannot appear, so the others go again.
  const std::string first = split_path(folder + "/out", 0, 3);
  const PlannedLlama planned = plan_llama(hub, FileType::bf16, 8);
  ASSERT_OK_AND_ASSIGN(const auto threads, ThreadPool::create({.n_threads = 1}));
  const auto block = [&](float) {
    fs::create_directories(first);
    return true;
  };
  EXPECT_ERROR(write_quantized(planned.conversion->files(), planned.plan, planned.options, folder + "/out.gguf",
                               {*threads, nullptr, block}),
               first + ": cannot rename into place");
  EXPECT_EQ(names_in(folder), std::vector<std::string>{fs::path(first).filename().string()});
}

// Cuts of a partial file: within the header, at its end, within and between tensors, and nothing missing.
TEST(PartialOutput, AnyBeginningIsContinued) {
  const std::string hub = hub_llama().write("resume-hub"), folder = output_folder("resume"), out = folder + "/o.gguf";
  const PlannedLlama planned = plan_llama(hub, FileType::q8_0);
  ASSERT_OK(write_llama(planned, out));
  const std::string whole = read_all(out);
  ASSERT_OK_AND_ASSIGN(const auto file, ModelFiles::open(out));
  std::vector<std::pair<size_t, size_t>> cuts = {{0, 0}, {10, 0}, {whole.size(), 21}, {whole.size() - 1, 20}};
  for (size_t i = 0; i < 21; ++i) {
    const size_t begin = file->tensors()[i].info.file_offset;
    cuts.insert(cuts.end(), {{begin, i}, {begin - 1, i == 0 ? 0 : i - 1}, {begin + 1, i}});
  }
  for (const auto& [n_bytes, n_tensors] : cuts) {
    const std::string part = PartialOutput::open(out, planned.fingerprint(), true)->path_of(0, 1);
    std::ofstream(part, std::ios::binary) << whole.substr(0, n_bytes);
    fs::remove(out);
    ASSERT_OK_AND_ASSIGN(auto partial, PartialOutput::open(out, planned.fingerprint(), true));
    EXPECT_EQ(partial.n_bytes_found(), n_bytes);
    ASSERT_OK(write_llama(planned, out, &partial));
    EXPECT_EQ(partial.n_tensors_found(), n_tensors) << n_bytes;
    EXPECT_TRUE(read_all(out) == whole) << n_bytes;
    EXPECT_EQ(names_in(folder), std::vector<std::string>{"o.gguf"});
  }
  // What was continued was not written again; another header is.
  const std::string part = PartialOutput::open(out, planned.fingerprint(), true)->path_of(0, 1);
  std::string changed = whole;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  std::ofstream(part, std::ios::binary) << changed;
  ASSERT_OK_AND_ASSIGN(auto partial, PartialOutput::open(out, planned.fingerprint(), true));
  ASSERT_OK(write_llama(planned, out, &partial));
  EXPECT_TRUE(read_all(out) == changed);
  changed[9] = static_cast<char>(changed[9] ^ 1);
  std::ofstream(part, std::ios::binary) << changed << "more";
  ASSERT_OK_AND_ASSIGN(auto other, PartialOutput::open(out, planned.fingerprint(), true));
  ASSERT_OK(write_llama(planned, out, &other));
  EXPECT_EQ(other.n_tensors_found(), 0u);
  EXPECT_TRUE(read_all(out) == whole);
}

TEST(PartialOutput, PartsAreContinuedWhereTheyEnded) {
  const std::string hub = hub_llama().write("resume-hub"), folder = output_folder("resume"), out = folder + "/o.gguf";
  const PlannedLlama planned = plan_llama(hub, FileType::q8_0, 8);
  ASSERT_OK(write_llama(planned, out));
  ASSERT_OK_AND_ASSIGN(auto partial, PartialOutput::open(out, planned.fingerprint(), true));
  std::vector<std::string> wholes;
  for (uint32_t part = 0; part < 3; ++part) {
    wholes.push_back(read_all(split_path(folder + "/o", part, 3)));
    fs::remove(split_path(folder + "/o", part, 3));
  }
  EXPECT_EQ(partial.path_of(1, 3).substr(out.size() + 17), "-00002.part");
  std::ofstream(partial.path_of(0, 3), std::ios::binary) << wholes[0];
  std::ofstream(partial.path_of(1, 3), std::ios::binary) << wholes[1].substr(0, wholes[1].size() - 1);
  ASSERT_OK(write_llama(planned, out, &partial));
  EXPECT_EQ(partial.n_tensors_found(), 8u + 7u);
  for (uint32_t part = 0; part < 3; ++part)
    EXPECT_TRUE(read_all(split_path(folder + "/o", part, 3)) == wholes[part]) << part;
  EXPECT_EQ(names_in(folder).size(), 3u);
}

TEST(PartialOutput, StaysAfterAnErrorOnlyIfItIsResumed) {
  const std::string hub = hub_llama().write("resume-hub"), folder = output_folder("resume"), out = folder + "/o.gguf";
  const PlannedLlama planned = plan_llama(hub, FileType::q8_0);
  CancelToken cancel;
  cancel.cancel();
  ASSERT_OK_AND_ASSIGN(auto plain, PartialOutput::open(out, planned.fingerprint(), false));
  EXPECT_FALSE(write_llama(planned, out, &plain, &cancel).has_value());
  EXPECT_EQ(names_in(folder), std::vector<std::string>());
  ASSERT_OK_AND_ASSIGN(auto kept, PartialOutput::open(out, planned.fingerprint(), true));
  EXPECT_FALSE(write_llama(planned, out, &kept, &cancel).has_value());
  EXPECT_EQ(names_in(folder), std::vector<std::string>{fs::path(kept.path_of(0, 1)).filename().string()});
}

TEST(PartialOutput, FilesOfOtherPlansAreRemoved) {
  const std::string folder = output_folder("others"), out = folder + "/o.gguf";
  const auto touch = [&](const std::string& name) { std::ofstream(folder + "/" + name) << "abc"; };
  const std::string own = "o.gguf.00000000000000ff.part", other = "o.gguf.0123456789abcdef.part",
                    part = "o.gguf.0123456789abcdef-00002.part";
  const std::vector<std::string> strangers = {"a.gguf.0123456789abcdef.part",   "o.gguf",
                                              "o.gguf.0123456789abcdef",        "o.gguf.0123456789abcde.part",
                                              "o.gguf.0123456789abcdeF.part",   "o.gguf.0123456789abcdef-.part",
                                              "o.gguf.0123456789abcdef-a.part", "o.gguf.0123456789abcdef00001.part",
                                              "o.gguf_0123456789abcdef.part",   "o.gguf.part"};
  for (const std::string& name : strangers) touch(name);
  touch(own);
  touch(other);
  ASSERT_OK_AND_ASSIGN(const auto resumed, PartialOutput::open(out, 255, true));
  EXPECT_EQ(resumed.other(), folder + "/" + other);
  EXPECT_EQ(resumed.n_bytes_found(), 3u);
  EXPECT_TRUE(resumed.resumes());
  EXPECT_EQ(resumed.path_of(0, 1), folder + "/" + own);
  EXPECT_TRUE(fs::exists(folder + "/" + own));
  EXPECT_FALSE(fs::exists(folder + "/" + other));
  touch(part);
  ASSERT_OK_AND_ASSIGN(const auto plain, PartialOutput::open(out, 255, false));
  EXPECT_EQ(plain.other(), folder + "/" + part);
  EXPECT_EQ(plain.n_bytes_found(), 0u);
  std::vector<std::string> left = names_in(folder), wanted = strangers;
  std::ranges::sort(wanted);
  EXPECT_EQ(left, wanted);
  touch(own);
  EXPECT_EQ(PartialOutput::open(out, 255, false)->other(), "");
  EXPECT_FALSE(fs::exists(folder + "/" + own));
  EXPECT_EQ(PartialOutput::open(folder + "/none/o.gguf", 255, true).error().code(), ErrorCode::io);
}

TEST(PartialOutput, AFileThatIsWrittenIsLeftAlone) {
  const std::string hub = hub_llama().write("resume-hub"), folder = output_folder("resume"), out = folder + "/o.gguf";
  const PlannedLlama planned = plan_llama(hub, FileType::q8_0);
  const std::string own = PartialOutput::open(out, planned.fingerprint(), true)->path_of(0, 1);
  std::ofstream(own) << "abc";
  const int fd = ::open(own.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  for (const bool resumes : {true, false}) {
    ASSERT_OK_AND_ASSIGN(auto partial, PartialOutput::open(out, planned.fingerprint(), resumes));
    EXPECT_ERROR(write_llama(planned, out, &partial), own + ": another process writes it");
    EXPECT_EQ(read_all(own), "abc");
  }
  EXPECT_EQ(PartialOutput::open(out, 1, true)->other(), "");
  EXPECT_TRUE(fs::exists(own));
  ::close(fd);
  fs::remove(own);
  fs::create_symlink(out, own);
  ASSERT_OK_AND_ASSIGN(auto partial, PartialOutput::open(out, planned.fingerprint(), true));
  EXPECT_ERROR(write_llama(planned, out, &partial), own + ": cannot create");
  fs::remove(own);
  ASSERT_EQ(::mkfifo(own.c_str(), 0600), 0);
  EXPECT_ERROR(write_llama(planned, out, &partial), own + ": exists and is not a regular file");
}

TEST(PartialOutput, FingerprintsTellPlansApart) {
  HubFolder hub = hub_llama();
  const std::string folder = hub.write("prints");
  const auto time = fs::last_write_time(folder + "/model.safetensors");
  const PlannedLlama planned = plan_llama(folder, FileType::q8_0);
  const uint64_t print = planned.fingerprint();
  EXPECT_EQ(plan_llama(folder, FileType::q8_0).fingerprint(), print);
  EXPECT_NE(fingerprint_of(*planned.conversion, planned.plan, planned.options, "2").value(), print);
  EXPECT_NE(plan_llama(folder, FileType::q4_0).fingerprint(), print);
  EXPECT_NE(plan_llama(folder, FileType::q8_0, 8).fingerprint(), print);
  const auto print_of = [&](const QuantizeOptions& options) {
    return fingerprint_of(*planned.conversion, planned.plan, options, "1").value();
  };
  QuantizeOptions options = planned.options;
  options.encoder.kind = EncoderKind::compatible;
  EXPECT_NE(print_of(options), print);
  options = planned.options;
  options.encoder.weighting = Weighting::magnitude;
  EXPECT_NE(print_of(options), print);
  options = planned.options;
  options.checks_copies = true;
  EXPECT_NE(print_of(options), print);
  options = planned.options;
  const auto importance = [](double sum, double count, const std::string& name) {
    Imatrix imatrix;
    imatrix.entries[name] = {.sums = {sum}, .counts = {count}};
    return imatrix;
  };
  std::vector<uint64_t> prints = {print};
  for (const Imatrix& imatrix :
       {importance(1, 1, "a"), importance(2, 1, "a"), importance(1, 2, "a"), importance(1, 1, "b")}) {
    options.imatrix = &imatrix;
    prints.push_back(print_of(options));
    EXPECT_EQ(std::ranges::count(prints, prints.back()), 1);
  }
  fs::last_write_time(folder + "/model.safetensors", time + std::chrono::seconds(1));
  EXPECT_NE(plan_llama(folder, FileType::q8_0).fingerprint(), print);
  fs::last_write_time(folder + "/model.safetensors", time);
  EXPECT_EQ(plan_llama(folder, FileType::q8_0).fingerprint(), print);
  const auto config_time = fs::last_write_time(folder + "/config.json");
  fs::last_write_time(folder + "/config.json", config_time + std::chrono::seconds(1));
  EXPECT_NE(plan_llama(folder, FileType::q8_0).fingerprint(), print);
}

TEST(CopiedBytes, AreThoseOfTheOtherFile) {
  const std::string path = temporary_path("copied"), from = write_temporary("copied.from", "0123456789");
  ASSERT_OK_AND_ASSIGN(const File file, File::open(from));
  ASSERT_OK_AND_ASSIGN(AtomicFile copy, AtomicFile::create(path));
  ASSERT_OK(copy.write(std::as_bytes(std::span("ab", 2))));
  ASSERT_OK(copy.write_from(file, 3, 5));
  EXPECT_EQ(copy.size(), 7u);
  ASSERT_OK(copy.write_from(file, 0, 0));
  ASSERT_OK(copy.write_from(file, 9, 1));
  EXPECT_ERROR(copy.write_from(file, 8, 3), "copied.from: ends at byte 10");
  ASSERT_OK(copy.truncate(8));
  EXPECT_EQ(copy.size(), 8u);
  std::array<std::byte, 2> read;
  ASSERT_OK(copy.read_at(6, read));
  EXPECT_EQ(read[1], std::byte{'9'});
  EXPECT_ERROR(copy.read_at(7, read), "ends at byte 8");
  ASSERT_OK(copy.close());
  EXPECT_FALSE(fs::exists(path));
  ASSERT_OK(copy.close());
  ASSERT_OK(copy.commit());
  EXPECT_EQ(read_all(path), "ab345679");
}

TEST(CopiedBytes, AreCheckedByTheWriter) {
  const std::string path = temporary_path("copied.gguf"), from = write_temporary("copied.from", std::string(100, 'x'));
  ASSERT_OK_AND_ASSIGN(const File file, File::open(from));
  GgufBuilder builder;
  ASSERT_OK(builder.add_tensor("a", DType::f32, {10}));
  ASSERT_OK_AND_ASSIGN(GgufWriter writer, GgufWriter::create(path, builder));
  ASSERT_OK(writer.append_from(file, 1, 24));
  EXPECT_ERROR(writer.append_from(file, 0, 17), "17 bytes, want at most 16 more of 40");
  EXPECT_ERROR(writer.close(), "0 of 1 tensors written, 16 bytes of");
  ASSERT_OK(writer.append_from(file, 0, 16));
  EXPECT_ERROR(writer.append_from(file, 0, 1), "1 bytes after the last tensor");
  EXPECT_EQ(writer.n_complete(), 1u);
  ASSERT_OK(writer.finish());
  EXPECT_EQ(read_all(path).substr(fs::file_size(path) - 64), std::string(40, 'x') + std::string(24, '\0'));
}

TEST(Fingerprint, HashesTextsNumbersAndFiles) {
  EXPECT_EQ(Fingerprint().value(), 0xcbf29ce484222325u);
  EXPECT_EQ(Fingerprint().add(uint64_t{0}).value(), Fingerprint().add("").value());
  EXPECT_NE(Fingerprint().add("ab").add("c").value(), Fingerprint().add("a").add("bc").value());
  const std::string a = write_temporary("print.a", "xyz"), b = write_temporary("print.b", "xyz");
  fs::last_write_time(b, fs::last_write_time(a));
  EXPECT_NE(Fingerprint().add_file(a).value(), Fingerprint().add_file(b).value());
  const uint64_t before = Fingerprint().add_file(b).value();
  const auto time = fs::last_write_time(b);
  std::ofstream(b) << "xyzz";
  fs::last_write_time(b, time);
  EXPECT_NE(Fingerprint().add_file(b).value(), before);
  EXPECT_EQ(Fingerprint().add_file(a + ".none").value(), Fingerprint().add(UINT64_MAX).value());
}

TEST(OpenOutput, ChecksPathsAndSpaceBeforeWork) {
  const std::string hub = hub_llama().write("open-hub"), folder = output_folder("open");
  const PlannedLlama planned = plan_llama(hub, FileType::bf16);
  const auto open = [&](const std::string& path, uint64_t n_bytes) {
    return open_output(*planned.conversion, planned.plan, planned.options,
                       {.path = path, .n_bytes = n_bytes, .resumes = true, .program_version = "1"});
  };
  ASSERT_OK_AND_ASSIGN(const PartialOutput output, open(folder + "/out.gguf", 1000));
  EXPECT_TRUE(output.resumes());
  ASSERT_OK_AND_ASSIGN(const PartialOutput same,
                       PartialOutput::open(folder + "/out.gguf", planned.fingerprint(), true));
  EXPECT_EQ(output.path_of(0, 1), same.path_of(0, 1));
  EXPECT_ERROR(open(folder + "/out.gguf", UINT64_MAX), "out.gguf: needs 18446744073709551615 bytes, ");
  const std::string input = planned.conversion->checkpoint().paths().front();
  EXPECT_ERROR(open(input, 1000), "is the input");
  EXPECT_EQ(bytes_of_files(planned.conversion->checkpoint()), fs::file_size(input));
}

}  // namespace
}  // namespace tessera::convert
