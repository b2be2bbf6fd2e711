// The bits of logits, so that kNumericsRevision grows with every change of them: the disk tier of the prefix cache and
// saved slots would otherwise mix keys and values of two programs.
#include "tessera/engine/numerics.h"

#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include "tessera/base/hash.h"
#include "tessera/isa/sets.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

struct Expected {
  std::string_view isa;
  uint64_t hash;
  uint64_t hash_of_int16;  // with attention scores from 16-bit integers
  uint64_t hash_of_f16;    // with F16 weights
};

// Of the story model at revision 3, with the functions of glibc 2.36.
constexpr Expected kExpected[] = {{"scalar", 2848745125141837966, 15910134527069983643u, 7409286384154275409u},
                                  {"avx2", 16085305644683350309u, 6169262701725239870u, 6269596518911095605u},
                                  {"avxvnni", 16085305644683350309u, 6169262701725239870u, 6269596518911095605u},
                                  {"avx512", 16085305644683350309u, 6169262701725239870u, 6269596518911095605u},
                                  {"amx", 16085305644683350309u, 6169262701725239870u, 6269596518911095605u}};

TEST(Numerics, ARevisionHasTheSameBits) {
  if (std::string_view(::gnu_get_libc_version()) != "2.36") GTEST_SKIP() << "hashes are of glibc 2.36";
  ASSERT_EQ(kNumericsRevision, 3u) << "a new revision: write its hashes above";
  const std::vector<std::string> usable = isa::usable_isas();
  const auto expect_hash = [](const std::string& path, std::string_view isa, AttentionPrecision attention,
                              uint64_t expected) {
    ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path, {}, std::string(isa)));
    ASSERT_OK_AND_ASSIGN(const auto session,
                         Session::create(engine, {.n_ctx = 256, .n_outputs = 150, .attention = attention}));
    ASSERT_OK_AND_ASSIGN(const auto logits, logits_of(*session, token_ids(*engine, 150)));
    EXPECT_EQ(Hash64().add(std::as_bytes(std::span(logits))).value(), expected)
        << isa << ": the bits have changed: increase kNumericsRevision (tessera/engine/numerics.h)";
  };
  const std::string story = story_model();
  ASSERT_OK_AND_ASSIGN(const std::string in_f16, requantize(story, DType::f16, "numerics-f16.gguf"));
  for (const auto& [isa, hash, hash_of_int16, hash_of_f16] : kExpected) {
    if (std::ranges::find(usable, isa) == usable.end()) continue;
    expect_hash(story, isa, AttentionPrecision::float32, hash);
    expect_hash(story, isa, AttentionPrecision::int16, hash_of_int16);
    expect_hash(in_f16, isa, AttentionPrecision::float32, hash_of_f16);
  }
}

}  // namespace
}  // namespace tessera
