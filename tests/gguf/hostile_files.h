// Malformed GGUF files, each with one fault. A reader refuses them at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tests/gguf/raw_gguf.h"

namespace tessera::testing {

inline constexpr uint64_t kHugeNumber = ~uint64_t{0};

/// A file, and a part of the message that refuses it.
struct HostileFile {
  std::string_view name{};
  std::function<std::string()> bytes{};
  std::string_view message{};
};

inline std::string with_tensor(const std::function<void(RawGguf&)>& info, size_t n_data = 256) {
  RawGguf g(1, 0);
  info(g);
  return g.data(n_data).bytes();
}

inline std::string two_tensors(uint64_t second_offset, std::string_view second_name = "b") {
  return RawGguf(2, 0).tensor("a", {16}, 0, 0).tensor(second_name, {16}, 0, second_offset).data(128).bytes();
}

inline const HostileFile kHostileFiles[] = {
    {"empty", [] { return std::string(); }, "f.gguf: offset 0: magic: truncated at byte 0"},
    {"4 bytes", [] { return std::string("GGUF"); }, "offset 4: version: truncated at byte 4"},
    {"8 bytes", [] { return small_gguf().substr(0, 8); }, "offset 8: number of tensors: truncated at byte 8"},
    {"GGML", [] { return "lmgg" + std::string(60, '\0'); }, "from before GGUF"},
    {"GGJT", [] { return "tjgg" + std::string(60, '\0'); }, "from before GGUF"},
    {"ggla", [] { return "algg" + std::string(60, '\0'); }, "adapter from before GGUF"},
    {"zip", [] { return "PK\x03\x04" + std::string(60, 'x'); }, "PyTorch checkpoint: convert"},
    {"safetensors", [] { return RawGguf().number(uint64_t{2}).raw("{}").bytes(); }, "safetensors file: convert"},
    {"html", [] { return std::string("\n<!DOCTYPE HTML><html>"); }, "HTML page"},
    {"lfs", [] { return std::string("version https://git-lfs.github.com/spec/v1\noid"); }, "git lfs pull"},
    {"noise", [] { return std::string("\x1b[2Jabc"); }, "got '\\x1b[2J', want 'GGUF'"},
    {"version 0", [] { return RawGguf(0, 0, 0).bytes(); }, "version, got 0, supported: 2 and 3"},
    {"version 1", [] { return RawGguf(0, 0, 1).bytes(); }, "version, got 1, supported: 2 and 3"},
    {"version 4", [] { return RawGguf(0, 0, 4).bytes(); }, "version, got 4, supported: 2 and 3"},
    {"version max", [] { return RawGguf(0, 0, ~0u).bytes(); }, "version, got 4294967295, supported: 2 and 3"},
    {"big-endian", [] { return RawGguf(0, 0, 0x03000000).bytes(); }, "big-endian file (version 3, byte-swapped)"},
    {"n_tensors 2^32", [] { return RawGguf(1ull << 32, 0).bytes(); }, "number of tensors, got 4294967296, limit 0"},
    {"n_tensors max", [] { return RawGguf(kHugeNumber, 0).bytes(); },
     "number of tensors, got 18446744073709551615, limit 0"},
    {"n_kv 2^32", [] { return RawGguf(0, 1ull << 32).bytes(); }, "number of keys, got 4294967296, limit 0"},
    {"n_kv max", [] { return RawGguf(0, kHugeNumber).bytes(); }, "number of keys, got 18446744073709551615, limit 0"},
    {"many keys", [] { return RawGguf(0, 70000).raw(std::string(2000000, 'x')).bytes(); },
     "number of keys, got 70000, limit 65536"},
    {"key 2^63", [] { return RawGguf(0, 1).number(1ull << 63).raw(std::string(60, 'k')).bytes(); },
     "offset 24: length of key 0, got 9223372036854775808, limit 65535"},
    {"key long", [] { return RawGguf(0, 1).number(uint64_t{1000}).raw(std::string(60, 'k')).bytes(); },
     "key 0: truncated at byte 92"},
    {"key empty", [] { return RawGguf(0, 1).key("", 0).raw("xx").bytes(); }, "offset 24: key 0 is empty"},
    {"key control", [] { return RawGguf(0, 1).key(std::string_view("a\0\nb", 4), 0, uint8_t{1}).bytes(); },
     "key 0, got 'a\\x00\\nb', want printable ASCII"},
    {"string 2^64-1", [] { return RawGguf(0, 1).key("k", 8, kHugeNumber).raw(std::string(60, 'v')).bytes(); },
     "length of value of key 'k', got 18446744073709551615, limit 1073741824"},
    {"string 2^30-1",
     [] { return RawGguf(0, 1).key("k", 8, (uint64_t{1} << 30) - 1).raw(std::string(60, 'v')).bytes(); },
     "value of key 'k': truncated at byte 105: want 1073741823 bytes, 60 left"},
    {"1e9 strings", [] { return RawGguf(0, 1).array("k", 8, 1000000000).raw(std::string(60, '\0')).bytes(); },
     "element count of value of key 'k', got 1000000000, limit 7"},
    {"2^63 u64s", [] { return RawGguf(0, 1).array("k", 10, 1ull << 63).raw(std::string(60, '\0')).bytes(); },
     "element count of value of key 'k', got 9223372036854775808, limit 7"},
    {"nesting 5",
     [] {
       RawGguf g(0, 1);
       g.key("k", 9);
       for (int i = 0; i < 4; ++i) g.number(9u).number(uint64_t{1});
       return g.number(0u).number(uint64_t{0}).bytes();
     },
     "nesting of value of key 'k', got 5 or more, limit 4"},
    {"many nested",
     [] {
       RawGguf g(0, 1);
       g.array("k", 9, 5000);
       for (int i = 0; i < 5000; ++i) g.number(0u).number(uint64_t{0});
       return g.bytes();
     },
     "arrays in arrays, limit 4096"},
    {"type 99", [] { return RawGguf(0, 1).key("k", 99, uint8_t{0}).bytes(); },
     "type of value of key 'k', got 99, limit 12"},
    {"type -1", [] { return RawGguf(0, 1).key("k", ~0u, uint8_t{0}).bytes(); }, "type of value of key 'k', got -1"},
    {"element type 13", [] { return RawGguf(0, 1).array("k", 13, 0).bytes(); }, "got 13, limit 12"},
    {"bool 2", [] { return RawGguf(0, 1).key("k", 7, uint8_t{2}).bytes(); },
     "offset 37: bool in value of key 'k', got 2"},
    {"bool array", [] { return RawGguf(0, 1).array("k", 7, 3).raw("\x01\xff\x01").bytes(); },
     "offset 50: bool in value of key 'k', got 255, limit 1"},
    {"alignment 0", [] { return RawGguf(0, 1).key("general.alignment", 4, 0u).bytes(); }, "got 0, want a power of two"},
    {"alignment 3", [] { return RawGguf(0, 1).key("general.alignment", 4, 3u).bytes(); }, "got 3, want a power of two"},
    {"alignment 4", [] { return RawGguf(0, 1).key("general.alignment", 4, 4u).bytes(); },
     "got 4, want a power of two, 8"},
    {"alignment 2^31", [] { return RawGguf(0, 1).key("general.alignment", 4, 1u << 31).bytes(); },
     "got 2147483648, want a power of two, 8 to 1048576"},
    {"alignment text", [] { return RawGguf(0, 1).key("general.alignment", 8).text("32").bytes(); },
     "key 'general.alignment': got \"32\" (string), want u64"},
    {"rank 5", [] { return with_tensor([](RawGguf& g) {
                      g.tensor("t", {1, 1, 1, 1, 1}, 0, 0);
                    }); },
     "offset 33: rank of tensor 't', got 5, limit 4"},
    {"rank 2^31", [] { return with_tensor([](RawGguf& g) { g.text("t").number(1u << 31); }); },
     "rank of tensor 't', got 2147483648, limit 4"},
    {"extent 0", [] { return with_tensor([](RawGguf& g) {
                        g.tensor("t", {4, 0}, 0, 0);
                      }); },
     "offset 45: extent 1 of tensor 't', got 0, want at least 1"},
    {"extent -1", [] { return with_tensor([](RawGguf& g) { g.tensor("t", {-1}, 0, 0); }); }, "got -1, want at least 1"},
    {"extent 2^63-1", [] { return with_tensor([](RawGguf& g) { g.tensor("t", {INT64_MAX}, 0, 0); }); },
     "tensor 't': row of 9223372036854775807 elements of f32: size overflows"},
    {"product overflow",
     [] { return with_tensor([](RawGguf& g) {
            g.tensor("t", {1 << 30, 1 << 30, 1 << 30}, 0, 0);
          }); },
     "more than 2^63"},
    {"q4_0 row", [] { return with_tensor([](RawGguf& g) { g.tensor("t", {33}, 2, 0); }); },
     "tensor 't': row of 33 elements: q4_0 needs a multiple of 32"},
    {"sizes pass 2^64",
     [] {
       return RawGguf(2, 0).tensor("a", {INT64_MAX}, 24, 0).tensor("b", {INT64_MAX}, 24, 1ull << 63).data(64).bytes();
     },
     "tensor 'a': 9223372036854775807 bytes of data at 0"},
    {"end passes 2^64", [] { return with_tensor([](RawGguf& g) { g.tensor("t", {INT64_MAX}, 24, 1ull << 63); }); },
     "tensor 't': 9223372036854775807 bytes of data at 9223372036854775808"},
    {"offset unaligned", [] { return two_tensors(65); }, "data offset of tensor 'b', got 65, want a multiple of 32"},
    {"overlap", [] { return two_tensors(32); }, "tensors 'a' and 'b' overlap: the first ends at byte"},
    {"offset past end", [] { return two_tensors(128); }, "tensor 'b': 64 bytes of data at 128 in the data section"},
    {"offset 2^64-32", [] { return two_tensors(kHugeNumber - 31); },
     "bytes of data at 18446744073709551584 in the data section"},
    {"removed type", [] { return with_tensor([](RawGguf& g) { g.tensor("t", {32}, 4, 0); }); },
     "tensor 't': type 4 (Q4_2) was removed from GGUF"},
    {"type 1000", [] { return with_tensor([](RawGguf& g) { g.tensor("t", {32}, 1000, 0); }); }, "type 1000 is not"},
    {"tensor type -1", [] { return with_tensor([](RawGguf& g) { g.tensor("t", {32}, ~0u, 0); }); },
     "type 4294967295 is not a GGUF tensor type"},
    {"duplicate key", [] { return RawGguf(0, 2).key("k", 0, uint8_t{1}).key("k", 7, uint8_t{1}).bytes(); },
     "offset 46: key 'k' appears twice, as keys 0 and 1"},
    {"duplicate tensor", [] { return two_tensors(64, "a"); }, "tensor 'a' appears twice, as tensors 0 and 1"},
    {"tensor name empty", [] { return with_tensor([](RawGguf& g) { g.tensor("", {1}, 0, 0); }); },
     "name of tensor 0 is empty"},
    {"tensor name NUL",
     [] { return with_tensor([](RawGguf& g) { g.tensor(std::string_view("a\0b", 3), {1}, 0, 0); }); },
     "got 'a\\x00b', want no control characters"},
    {"tensor name 64", [] { return with_tensor([](RawGguf& g) { g.tensor(std::string(64, 'n'), {1}, 0, 0); }); },
     "length of name of tensor 0, got 64, limit 63"},
};

}  // namespace tessera::testing
