// Faulty plugins: each is skipped with a note or fails one operation, but never crashes the process.
#include <algorithm>
#include <filesystem>

#include "tests/backend/plugin_support.h"

namespace tessera {
namespace {

using namespace testing;

namespace fs = std::filesystem;

struct Refusal {
  const char* fault;
  const char* reason;
};

// Faults that are detected when a plugin is opened or lists its devices.
const Refusal kRefusals[] = {
    {"no_symbol", "no plugin: it has no symbol tessera_backend_plugin"},
    {"unresolved", "undefined symbol: nobody_defines_this"},
    {"no_table", "tessera_backend_plugin() gives no table"},
    {"other_major", "built for version 2.0 of the interface, this program has 1.0"},
    {"short_table", "its table has 64 bytes, that of version 1.0 has "},
    {"no_function", "its table has no run()"},
    {"bad_name", "name 'Bad Name', variant '': want at most 32 of a-z, 0-9 and _"},
    {"other_name", "calls itself another, want other_name as the file's name says"},
    {"no_score", "not used: it cannot run on this machine"},
    {"throws_score", "not used: it cannot run on this machine"},
    {"too_many_devices", "not used: it has 4000000000 devices, the limit is 64"},
    {"no_devices", "not used: it finds no device"},
    {"device_fails", "device_fails:0: the driver?is asleep"},
    {"throws_device", "throws_device:0: failed with code -1, or threw an exception"},
    {"long_text", "long_text:0: aaaa"},
    {"bad_alignment", "bad_alignment:0: alignment 48, want a power of two"},
    {"bad_kind", "bad_kind:0: kind 4294967289, want 0 to 2"},
    {"no_description", "no_description:0: description at 0, want a text"},
    {"huge_buffers", "huge_buffers:0: largest buffer of bytes: 18446744073709551615, want at least the alignment"},
};

TEST(Plugin, WhatIsWrongIsToldInALineThatNamesTheFile) {
  for (const Refusal& refusal : kRefusals) {
    const FoundDevices found = find_plugins_at({plugin_path(refusal.fault)});
    EXPECT_TRUE(found.devices.empty()) << refusal.fault;
    ASSERT_EQ(found.notes.size(), 1u) << refusal.fault;
    const std::string& note = found.notes.front();
    EXPECT_TRUE(note.starts_with("plugin " + plugin_path(refusal.fault) + ": ")) << note;
    EXPECT_NE(note.find(refusal.reason), std::string::npos) << note;
    EXPECT_TRUE(std::ranges::none_of(note, [](char c) { return c >= 0 && c < 0x20; })) << note;
  }
}

TEST(Plugin, TheOthersAreStillFound) {
  const FoundDevices found =
      find_plugins_at({plugin_path("other_major"), plugin_path("fine"), plugin_path("no_table")});
  ASSERT_EQ(found.devices.size(), 1u);
  EXPECT_EQ(found.devices.front()->name(), "fine:0");
  EXPECT_EQ(found.notes.size(), 2u);
}

TEST(Plugin, WhatIsNoLibraryIsToldAsSuch) {
  const auto reason = [](const std::string& path) {
    const FoundDevices found = find_plugins_at({path});
    EXPECT_TRUE(found.devices.empty());
    return found.notes.size() == 1 ? found.notes.front() : std::to_string(found.notes.size()) + " notes";
  };
  const auto expect = [&](const std::string& path, const std::string& part) {
    const std::string note = reason(path);
    EXPECT_NE(note.find(part), std::string::npos) << note;
  };
  const std::string whole = read_all(plugin_path("fine"));
  expect(write_temporary("libtessera-backend-empty.so", ""), "no shared library: 0 bytes");
  expect(write_temporary("libtessera-backend-text.so", std::string(1000, '#')), "no shared library of this kind");
  expect(write_temporary("libtessera-backend-head.so", whole.substr(0, 100)), "the file ends within its table");
  // The system's loader would map such a file and crash when it reads beyond its end.
  expect(write_temporary("libtessera-backend-half.so", whole.substr(0, whole.size() / 3)), "a segment ends at byte ");
  expect(source_dir() + "/absent.so", "No such file");
  expect("/dev/null", "/dev/null");
}

// In a folder, only files with matching names are opened, in the order of their names.
TEST(Plugin, FoldersAreReadInTheOrderOfTheNames) {
  const fs::path folder = temporary_dir() / "backends";
  fs::create_directory(folder);
  fs::copy_file(plugin_path("fine"), folder / "libtessera-backend-fine.so");
  fs::copy_file(plugin_path("newer_minor"), folder / "libtessera-backend-newer_minor.so");
  fs::copy_file(plugin_path("no_table"), folder / "libtessera-backend-broken.so");
  fs::copy_file(plugin_path("no_table"), folder / "libtessera-backend-absurd.so");
  fs::copy_file(plugin_path("no_table"), folder / "libsomething.so");
  fs::copy_file(plugin_path("no_table"), folder / "libtessera-backend-old.so.1");
  const FoundDevices found = find_plugins({.folders = {folder, folder / "absent"}, .paths = {}, .reserved = {}});
  ASSERT_EQ(found.devices.size(), 2u);
  EXPECT_EQ(found.devices[0]->name(), "fine:0");
  EXPECT_EQ(found.devices[1]->name(), "newer_minor:0");  // a minor version only adds members
  ASSERT_EQ(found.notes.size(), 2u);
  EXPECT_NE(found.notes[0].find("libtessera-backend-absurd.so: "), std::string::npos) << found.notes[0];
  EXPECT_NE(found.notes[1].find("libtessera-backend-broken.so: "), std::string::npos) << found.notes[1];
}

TEST(Plugin, AFileThatIsNamedTwiceIsOne) {
  fs::create_symlink(plugin_path("fine"), temporary_dir() / "libtessera-backend-link.so");
  const FoundDevices found =
      find_plugins_at({plugin_path("fine"), plugin_path("fine"), temporary_dir() / "libtessera-backend-link.so"});
  EXPECT_EQ(found.devices.size(), 1u);
  EXPECT_TRUE(found.notes.empty());
}

TEST(Plugin, OneOfTwoOfTheSameNameIsUsed) {
  const std::string copy = temporary_dir() / "copy.so";
  fs::copy_file(plugin_path("fine"), copy);
  const FoundDevices found = find_plugins_at({plugin_path("fine"), copy});
  EXPECT_EQ(found.devices.size(), 1u);
  ASSERT_EQ(found.notes.size(), 1u);
  EXPECT_EQ(found.notes[0], "plugin " + copy + ": not used: its score is 1, that of " + plugin_path("fine") +
                                " is 1 and it was found first");
}

TEST(Plugin, NamesOfTheProgramsOwnAreRefused) {
  const FoundDevices found =
      find_plugins({.folders = {}, .paths = {plugin_path("reserved")}, .reserved = {"cpu", "reserved"}});
  EXPECT_TRUE(found.devices.empty());
  ASSERT_EQ(found.notes.size(), 1u);
  EXPECT_NE(found.notes[0].find("reserved is the name of a backend of the program's own"), std::string::npos);
}

TEST(Plugin, TheVariantOfTheHighestScoreIsUsed) {
  if (!fs::exists(example_path("avx2"))) GTEST_SKIP() << "the example has one variant here";
  const FoundDevices found = find_plugins({.folders = {example_plugins_dir()}, .paths = {}, .reserved = {}});
  ASSERT_EQ(found.devices.size(), 2u);
  EXPECT_EQ(found.devices[0]->name(), "example:0");
  EXPECT_EQ(found.devices[1]->name(), "example:1");
  ASSERT_EQ(found.notes.size(), 1u);
  const auto variant = [](const Device& device) { return device.properties()[1]; };
  if (__builtin_cpu_supports("avx2")) {
    EXPECT_EQ(variant(*found.devices[0]).second, "avx2");
    EXPECT_EQ(found.notes[0], "plugin " + example_path("plain") + ": not used: its score is 10, that of " +
                                  example_path("avx2") + " is 20");
    const FoundDevices other_order = find_plugins_at({example_path("plain"), example_path("avx2")});
    EXPECT_EQ(variant(*other_order.devices.at(0)).second, "avx2");
    EXPECT_EQ(other_order.notes, found.notes);
  } else {
    EXPECT_EQ(variant(*found.devices[0]).second, "plain");
  }
  EXPECT_EQ(variant(*find_plugins_at({example_path("plain")}).devices[0]).second, "plain");
}

TEST(Plugin, TextsAndNumbersOfADeviceAreMadeFit) {
  const FoundDevices found = find_plugins_at({plugin_path("fine")});
  ASSERT_EQ(found.devices.size(), 1u);
  EXPECT_EQ(found.devices[0]->description(), "a device?of tests");
  EXPECT_EQ(found.devices[0]->memory().total_bytes, 1000u);
  EXPECT_EQ(found.devices[0]->memory().free_bytes, 1000u);
  EXPECT_FALSE(found.devices[0]->supports_kv(DType::f32, KvSide::k, 64));  // it has no function for that
}

TEST(Plugin, TheRegistryKeepsTheNotes) {
  Registry registry;
  registry.set_finder([] { return find_plugins_at({plugin_path("fine"), plugin_path("no_table")}); });
  EXPECT_TRUE(registry.notes().empty());
  EXPECT_ERROR(registry.find("no_table:0"), "(there are: fine:0; plugins that are not used: 1)");
  ASSERT_EQ(registry.notes().size(), 1u);
}

// --- faults that are detected later

Graph sum_of_two(int64_t n) {
  GraphBuilder b;
  const Value a = b.input("a", DType::f32, {n});
  b.output(b.add(a, b.input("b", DType::f32, {n})), "y");
  return std::move(b).finish().value();
}

Result<std::vector<float>> add_on(const Device& device) {
  const std::vector<float> a = {1, 2, 3}, b = {10, 20, 30};
  return run_y_on({&device}, sum_of_two(3), {{"a", bytes_of(a)}, {"b", bytes_of(b)}});
}

TEST(Plugin, OneInAnotherLanguageRuns) {
  const FoundDevices found = find_plugins_at({plugin_path("fine")});
  ASSERT_EQ(found.devices.size(), 1u);
  ASSERT_OK_AND_ASSIGN(const auto y, add_on(*found.devices[0]));
  EXPECT_EQ(y, (std::vector<float>{11, 22, 33}));
}

TEST(Plugin, WhatFailsLaterIsAnErrorOfTheOperation) {
  const Refusal kLate[] = {
      {"no_buffer", "no_buffer:0 gives no buffer and no error"},
      {"throws_buffer", "throws_buffer:0: failed with code -1, or threw an exception"},
      {"crooked_buffer", ", want a multiple of 64"},
      {"no_backend", "no_backend:0 gives no backend and no error"},
      {"huge_work", "huge_work:0 asks for 18446744073709551614 bytes of scratch memory"},
      {"no_plan", "no_plan:0 gives no plan and no error"},
      {"run_fails", "run_fails:0: failed with code 42"},
      {"run_throws", "run_throws:0: failed with code -1, or threw an exception"},
  };
  for (const Refusal& late : kLate) {
    const FoundDevices found = find_plugins_at({plugin_path(late.fault)});
    ASSERT_EQ(found.devices.size(), 1u) << late.fault;
    EXPECT_ERROR(add_on(*found.devices[0]), late.reason);
  }
}

TEST(Plugin, ATensorIsNeverGivenLessThanItsBytes) {
  const FoundDevices found = find_plugins_at({plugin_path("small_tensors")});
  ASSERT_EQ(found.devices.size(), 1u);
  const BufferType& memory = found.devices[0]->buffer_type();
  EXPECT_EQ(memory.tensor_bytes(DType::f32, {1}), size_t{4});
  EXPECT_ERROR(memory.tensor_bytes(DType::f32, {3, 2}),
               "small_tensors:0 sets 4 bytes aside for f32 [3, 2], which has 24");
  EXPECT_ERROR(memory.tensor_bytes(DType::f32, {13}), "small_tensors:0 cannot hold f32 [13]");
}

TEST(Plugin, ABufferBeyondTheLargestIsRefusedWithoutAsking) {
  const FoundDevices found = find_plugins_at({plugin_path("fine")});
  ASSERT_EQ(found.devices.size(), 1u);
  const auto buffer = found.devices[0]->buffer_type().allocate((size_t{1} << 30) + 1, BufferUsage::any);
  EXPECT_ERROR(buffer, "fine:0: 1073741825 bytes, its largest buffer has 1073741824");
  EXPECT_EQ(buffer.error().code(), ErrorCode::out_of_memory);
}

TEST(Plugin, TimesOfNodesAreNotMadeUp) {
  const FoundDevices found = find_plugins_at({plugin_path("fine")});
  ASSERT_EQ(found.devices.size(), 1u);
  ASSERT_OK_AND_ASSIGN(const auto backend, found.devices[0]->create_backend({}));
  const Graph graph = sum_of_two(16);
  const BufferType& memory = found.devices[0]->buffer_type();
  ASSERT_OK_AND_ASSIGN(const auto buffer, memory.allocate(192, BufferUsage::compute));
  std::vector<Tensor> tensors;
  for (NodeId id = 0; id < graph.size(); ++id)
    tensors.push_back({graph[id].spec, graph[id].name, &memory, buffer.get(), static_cast<size_t>(id) * 64});
  ASSERT_OK_AND_ASSIGN(const auto plan, backend->compile(graph, tensors, {}));
  EXPECT_ERROR(backend->run_timed(*plan, nullptr), "fine:0 does not tell the times of nodes");
  tensors[0].buffer = nullptr;
  EXPECT_ERROR(backend->compile(graph, tensors, {}), "a has no memory that fine:0 can address");
}

}  // namespace
}  // namespace tessera
