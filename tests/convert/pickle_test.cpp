// Pickles: values, tensors, and what a hostile pickle gets instead of an effect.
#include "tessera/convert/source/pickle.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/rng.h"
#include "tests/convert/checkpoint_files.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;
using PickleKind = Pickle::Kind;

Result<Pickle> read_pickle(const std::string& bytes, const PickleLimits& limits = {}) {
  return Pickle::read(std::as_bytes(std::span(bytes)), limits);
}

std::string pickle_error(const std::string& bytes, const PickleLimits& limits = {}) {
  const auto pickle = read_pickle(bytes, limits);
  EXPECT_FALSE(pickle);
  return pickle ? "" : pickle.error().message();
}

TEST(Pickle, PlainValues) {
  const std::string bytes = "\x80\x05\x95" + number_bytes(uint64_t{1}) + "(N\x88\x89K\xffM\xff\xffJ\xff\xff\xff\xff" +
                            "G12345678" + std::string("\x8a\x00", 2) + std::string("\x8a\x02\x00\x80", 4) + "U\x02" +
                            "ab" + "\x8c\x01" + "c" + pickle::text("d") + "\x8d" + number_bytes(uint64_t{1}) + "e" +
                            "T" + number_bytes(uint32_t{1}) + "f" + "t.rest";
  ASSERT_OK_AND_ASSIGN(const Pickle pickle, read_pickle(bytes));
  EXPECT_EQ(pickle.n_bytes(), bytes.size() - 4);
  const auto items = pickle.items(pickle.root());
  ASSERT_EQ(items.size(), 14u);
  EXPECT_EQ(pickle.kind(items[0]), PickleKind::none);
  EXPECT_EQ(pickle.integer(items[1]), 1);
  EXPECT_EQ(pickle.kind(items[2]), PickleKind::boolean);
  EXPECT_EQ(pickle.integer(items[3]), 255);
  EXPECT_EQ(pickle.integer(items[4]), 65535);
  EXPECT_EQ(pickle.integer(items[5]), -1);
  EXPECT_EQ(pickle.kind(items[6]), PickleKind::real);
  EXPECT_EQ(pickle.integer(items[7]), 0);
  EXPECT_EQ(pickle.integer(items[8]), -32768);
  for (size_t i = 9; i < 14; ++i) EXPECT_EQ(pickle.kind(items[i]), PickleKind::text);
  EXPECT_EQ(pickle.text(items[9]), "ab");
  EXPECT_EQ(pickle.text(items[13]), "f");
}

TEST(Pickle, ContainersAndTheMemo) {
  // [1, [2, 3], {"k": 1, "l": 2, "m": 3}, (), (1,), (1, 2), (1, 2, 3)] with one 1 from the memo
  const std::string one = "K\x01", get = std::string("h\x00", 2), put = std::string("q\x00", 2);
  const std::string bytes = "]" + one + put + "a(" + "](K\x02K\x03" + "e" + "}" + pickle::text("k") + get + "s(" +
                            pickle::text("l") + "K\x02" + pickle::text("m") + "K\x03" + "u)" + get + "\x85" + get +
                            "K\x02\x86" + get + "K\x02K\x03\x87" + "e.";
  ASSERT_OK_AND_ASSIGN(const Pickle pickle, read_pickle(bytes));
  const auto items = pickle.items(pickle.root());
  ASSERT_EQ(items.size(), 7u);
  EXPECT_EQ(pickle.integer(items[0]), 1);
  EXPECT_EQ(pickle.items(items[1]).size(), 2u);
  const auto members = pickle.members(items[2]);
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[0].second, items[0]);  // the same value
  EXPECT_EQ(pickle.text(members[2].first), "m");
  EXPECT_EQ(pickle.integer(members[2].second), 3);
  for (size_t i = 3; i < 7; ++i) EXPECT_EQ(pickle.items(items[i]).size(), i - 3);
  EXPECT_EQ(pickle.integer(pickle.items(items[6])[2]), 3);
  // POP, POP_MARK, MEMOIZE and the long forms
  ASSERT_OK_AND_ASSIGN(
      const Pickle popped,
      read_pickle("K\x05\x94K\x06"
                  "0(K\x07K\x08"
                  "1r" +
                  number_bytes(uint32_t{300}) + "j" + number_bytes(uint32_t{300}) + std::string("h\x00", 2) + "\x87."));
  for (const PickleId item : popped.items(popped.root())) EXPECT_EQ(popped.integer(item), 5);
}

TEST(Pickle, Tensors) {
  const std::string bytes = pickle::whole(pickle::dictionary({{"w", pickle::tensor({.key = "0",
                                                                                    .n_stored = 6,
                                                                                    .offset = 1,
                                                                                    .shape = {2, 2},
                                                                                    .strides = {1, 2},
                                                                                    .storage = "BFloat16Storage"})}}));
  ASSERT_OK_AND_ASSIGN(const Pickle pickle, read_pickle(bytes));
  const PickledTensor& tensor = pickle.tensor(pickle.members(pickle.root())[0].second);
  EXPECT_EQ(tensor.offset, 1);
  EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(tensor.strides, (std::vector<int64_t>{1, 2}));
  ASSERT_EQ(pickle.storages().size(), 1u);
  EXPECT_EQ(pickle.storages()[0].type, ElementType::bf16);
  EXPECT_EQ(pickle.storages()[0].key, "0");
  EXPECT_EQ(pickle.storages()[0].n_elements, 6);
}

TEST(Pickle, NothingIsCalled) {
  EXPECT_EQ(pickle_error("cos\nsystem\n(X\x04" + std::string("\0\0\0", 3) + "true" + "tR."),
            "pickle, byte 0: asks for \"os system\"; only tensors are read");
  EXPECT_NE(pickle_error(pickle::text("posix") + pickle::text("system") + "\x93.").find("\"posix system\""),
            std::string::npos);
  const std::vector<std::pair<std::string, std::string>> names = {{"builtins", "exec"},
                                                                  {"builtins", "getattr"},
                                                                  {"__builtin__", "eval"},
                                                                  {"torch", "load"},
                                                                  {"torch.storage", "_load_from_bytes"},
                                                                  {"torch.serialization", "_get_layout"},
                                                                  {"argparse", "Namespace"},
                                                                  {"numpy.core.multiarray", "scalar"},
                                                                  {"torch._utils", "_rebuild_device_tensor"},
                                                                  {"torchx", "FloatStorage"}};
  for (const auto& [module, name] : names)
    EXPECT_NE(pickle_error(pickle::global(module, name) + ".").find("only tensors are read"), std::string::npos)
        << name;
  // INST, OBJ, NEWOBJ, NEWOBJ_EX, EXT1, PERSID, DUP, and texts of protocol 0
  for (const char* opcode :
       {"i", "o", "\x81", "\x92", "\x82", "P", "2", "S", "V", "I", "L", "F", "g", "p", "d", "l", "\xff"})
    EXPECT_NE(pickle_error(opcode).find("only tensors are read"), std::string::npos) << opcode;
}

// Each opcode alone, and with one value below it, finds too little.
TEST(Pickle, NoOpcodeReadsBeyondTheStack) {
  for (int opcode = 0; opcode < 256; ++opcode) {
    if (opcode == '.') continue;
    for (const char* below : {"", "N", "(", "N(", "K\x01", "]", "}", ")"}) {
      for (const size_t n_arguments : {0, 1, 8, 16}) {
        std::string bytes = below;
        bytes += static_cast<char>(opcode);
        bytes += std::string(n_arguments, '\0');
        const auto pickle = read_pickle(bytes);
        EXPECT_FALSE(pickle) << "opcode " << opcode;  // without STOP at least
      }
    }
  }
}

TEST(Pickle, Contradictions) {
  const std::string storage = "(" + pickle::text("storage") + pickle::global("torch", "FloatStorage") +
                              pickle::text("0") + pickle::text("cpu") + "K\x04tQ";
  const std::string v2 = pickle::global("torch._utils", "_rebuild_tensor_v2");
  const std::vector<std::pair<std::string, std::string>> pickles = {
      {"", "truncated"},
      {"NN.", "2 values at its end"},
      {"(N.", "1 values at its end, want 1"},
      {"\x80\x06N.", "protocol 6"},
      {"\x95" + number_bytes(uint64_t{9}) + "N.", "a frame of 9 bytes"},
      {"K\x01"
       "a.",
       "2"},
      {"NNa.", "no list"},
      {"NNNs.", "no dictionary"},
      {"}(Nu.", "a key without a value"},
      {"e.", "no mark"},
      {"t.", "no mark"},
      {"h\x05.", "memo 5 is empty"},
      {"Nj" + number_bytes(uint32_t{1u << 31}) + ".", "memo 2147483648 is empty"},
      {"Nr" + number_bytes(uint32_t{1u << 31}) + ".", "memo 2147483648, limit"},
      {"X" + number_bytes(uint32_t{1u << 31}) + ".", "truncated: 2147483648 bytes wanted"},
      {"\x8d" + number_bytes(UINT64_MAX) + ".", "truncated"},
      {"\x8a\x0b" + std::string(11, 'x') + ".", "an integer of 11 bytes"},
      {"cx" + std::string(300, 'x') + "\ny\n.", "a name without end"},
      {"(K\x01tQ.", "no storage"},
      {"(" + pickle::text("module") + pickle::global("torch", "FloatStorage") + pickle::text("0") + "NK\x04tQ.",
       "no storage"},
      {"(" + pickle::text("storage") + pickle::global("torch", "Size") + pickle::text("0") + "NK\x04tQ.", "no storage"},
      {"(" + pickle::text("storage") + pickle::global("torch", "FloatStorage") + pickle::text("0") + "N" +
           pickle::integer(-1) + "tQ.",
       "a storage of -1 elements"},
      {v2 + "(NNNNNNtR.", "a tensor without a storage"},
      {v2 + "(" + storage + "tR.", "1 arguments"},
      {v2 + "(" + storage + std::string("K\x00", 2) + "N)\x89NtR.", "no tuple"},
      {v2 + "(" + storage + std::string("K\x00", 2) + "(Nt)\x89NtR.", "no integer"},
      {pickle::global("torch", "FloatStorage") + ")R.", "0 arguments"},
      {pickle::global("torch", "Size") + ")R.", "0 arguments"},
      {pickle::global("collections", "OrderedDict") + "(NtR.", "1 arguments"},
      {pickle::global("torch._utils", "_rebuild_parameter") + "(NNNtR.", "3 arguments"},
      {"N)R.", "another kind"},
  };
  for (const auto& [bytes, reason] : pickles)
    EXPECT_NE(pickle_error(bytes).find(reason), std::string::npos) << pickle_error(bytes) << "\nwant " << reason;
}

TEST(Pickle, LimitsHold) {
  std::string doubling = "]";  // each list has the one before it 200 times
  for (int level = 0; level < 60; ++level) {
    doubling += "\x94](";
    for (int i = 0; i < 200; ++i) doubling += "h" + std::string(1, static_cast<char>(level));
    doubling += "e";
  }
  EXPECT_NE(pickle_error(doubling + ".").find("values at its end"), std::string::npos);  // at once
  EXPECT_NE(pickle_error(std::string(65, '(')).find("more than 64 open marks"), std::string::npos);
  EXPECT_NE(pickle_error(std::string(2'000'000, ']')).find("a stack of 1048577"), std::string::npos);
  EXPECT_NE(pickle_error(std::string(100, 'N'), {.max_bytes = 50}).find("more than 50 bytes"), std::string::npos);
  std::string values;
  for (int i = 0; i < 100; ++i) values += "N0";
  EXPECT_NE(pickle_error(values, {.max_values = 50}).find("more than 50 values"), std::string::npos);
}

// Any change of a good pickle is read or refused.
TEST(Pickle, ChangedBytesAreReadOrRefused) {
  const std::string good = pickle::whole(pickle::dictionary(
      {{"a", pickle::tensor({.key = "0", .n_stored = 4, .shape = {2, 2}, .strides = {2, 1}})}, {"b", "K\x01"}}));
  ASSERT_OK(read_pickle(good));
  Rng rng(1);
  size_t n_refused = 0;
  for (int i = 0; i < all_or_few(200'000, 5'000); ++i) {
    std::string changed = good;
    for (uint32_t n = 1 + rng.next_u32() % 3; n > 0; --n)
      changed[rng.next_u32() % changed.size()] = static_cast<char>(rng.next_u32());
    n_refused += !read_pickle(changed);
  }
  EXPECT_GT(n_refused, 1000u);
}

}  // namespace
}  // namespace tessera::convert
