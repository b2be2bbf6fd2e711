// The checks of `tessera verify`: the first bad block for any number of threads, texts without a round trip, and
// damaged files of logits.
#include "tessera/convert/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "tessera/gguf/writer.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using testing::bytes_of;
using testing::RawGguf;

// A model of three tensors: f32 [256, 12000] of several pieces, q8_0 [64, 3], i8 [32].
struct TestModel {
  GgufBuilder builder;
  std::vector<std::vector<std::byte>> data;

  TestModel() {
    add("a", DType::f32, {256, 12000});
    add("b", DType::q8_0, {64, 3});
    add("c", DType::i8, {32});
    std::ranges::fill(data[2], std::byte{0xff});
  }
  void add(std::string_view name, DType dtype, const Shape& shape) {
    EXPECT_OK(builder.add_tensor(name, dtype, shape));
    data.emplace_back(builder.tensors().back().n_bytes);
  }
  void spoil_element(size_t i) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(data[0].data() + i * sizeof(float), &nan, sizeof(float));
  }
  Result<> check(int n_threads, const VerifyProgress& progress = {}) const {
    const std::vector<std::span<const std::byte>> spans(data.begin(), data.end());
    TESSERA_ASSIGN(const auto bytes, gguf_to_bytes(builder, spans));
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    TESSERA_ASSIGN(const auto files, ModelFiles::open(testing::write_temporary("m.gguf", text)));
    EXPECT_EQ(count_blocks(*files), 256u * 12000 + 6 + 32);
    TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = n_threads}));
    return check_values(*files, *threads, progress);
  }
};

TEST(CheckValues, FiniteTensorsPass) {
  float last = 0;
  ASSERT_OK(TestModel().check(1, [&](float share) {
    EXPECT_GE(share, last);
    last = share;
    return true;
  }));
  EXPECT_EQ(last, 1.0f);
  EXPECT_OK(TestModel().check(4));
}

// Also if the caller's thread gets no piece.
TEST(CheckValues, ProgressEndsWithOneForAnyNumberOfThreads) {
  for (int round = 0; round < 4; ++round) {
    std::vector<float> shares;
    ASSERT_OK(TestModel().check(8, [&](float share) {
      shares.push_back(share);
      return true;
    }));
    ASSERT_FALSE(shares.empty());
    EXPECT_EQ(std::ranges::count(shares, 1.0f), 1);
    EXPECT_EQ(shares.back(), 1.0f);
    EXPECT_ERROR(TestModel().check(8, [](float) { return false; }), "checking was stopped");
  }
}

TEST(CheckValues, FirstFaultIsNamedWhateverTheThreads) {
  TestModel model;
  model.data[1][34 * 3 + 1] = std::byte{0x7c};  // the second block of row 1
  for (const int n_threads : {1, 4})
    EXPECT_ERROR(model.check(n_threads), "m.gguf: tensor b: block 3 (row 1): scale is not finite");
  for (const size_t element : {size_t{256 * 11999}, size_t{256 * 9000 + 5}, size_t{255}}) {
    model.spoil_element(element);  // each before the last, in another piece
    for (const int n_threads : {1, 4})
      EXPECT_ERROR(model.check(n_threads), "m.gguf: tensor a: element " + std::to_string(element) + " (row " +
                                               std::to_string(element / 256) + "): value is not finite");
  }
}

TEST(CheckValues, StopsWhenAsked) {
  const auto stopped = TestModel().check(1, [](float) { return false; });
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
}

// An SPM vocabulary of the unknown token, the space, byte tokens and these normal tokens.
Result<std::unique_ptr<const text::Tokenizer>> spm(const std::vector<std::string_view>& normal, int n_byte_tokens = 256,
                                                   std::string_view space = "\xE2\x96\x81") {
  text::VocabData data;
  data.model = "llama";
  std::vector<std::string> texts = {"<unk>", std::string(space)};
  data.types = std::vector<int32_t>{2, 1};
  for (int byte = 0; byte < n_byte_tokens; ++byte) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    texts.push_back({'<', '0', 'x', kHex[static_cast<size_t>(byte / 16)], kHex[static_cast<size_t>(byte % 16)], '>'});
    data.types->push_back(6);
  }
  for (const std::string_view text : normal) {
    texts.emplace_back(text);
    data.types->push_back(1);
  }
  data.tokens.assign(texts.begin(), texts.end());
  TESSERA_ASSIGN(auto vocab, text::Vocab::create(std::move(data)));
  return text::Tokenizer::create(std::move(vocab));
}

// Detokenizes q, which occurs in none of the sentences, to p.
class Lossy final : public text::Tokenizer {
 public:
  Lossy(std::shared_ptr<const text::Vocab> vocab, std::shared_ptr<const text::Tokenizer> inner)
      : Tokenizer(std::move(vocab)), inner_(std::move(inner)) {}
  void append_piece(int32_t id, std::string& out) const override {
    const size_t begin = out.size();
    inner_->append_piece(id, out);
    std::replace(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), 'q', 'p');
  }

 protected:
  Result<> encode(std::string_view text, bool, std::vector<int32_t>& out) const override {
    TESSERA_ASSIGN(out, inner_->tokenize(text));
    return {};
  }

 private:
  std::shared_ptr<const text::Tokenizer> inner_;
};

TEST(CheckRoundTrips, CountsTheTextsThatComeBack) {
  ASSERT_OK_AND_ASSIGN(const auto none, spm({}));
  ASSERT_OK_AND_ASSIGN(const size_t n_samples, check_round_trips(*none));
  EXPECT_GE(n_samples, 10u);
  ASSERT_OK_AND_ASSIGN(const auto three, spm({"a", "b",
                                              "\xE2\x96\x81"
                                              "a"}));
  ASSERT_OK_AND_ASSIGN(const size_t n, check_round_trips(*three));
  EXPECT_EQ(n, n_samples + 3);
}

TEST(CheckRoundTrips, NamesTheTextThatDoesNotComeBack) {
  const auto lossy = [](const std::vector<std::string_view>& normal) {
    auto inner = spm(normal);
    EXPECT_OK(inner);
    const std::shared_ptr<const text::Tokenizer> shared = std::move(*inner);
    return Lossy({shared, &shared->vocab()}, shared);
  };
  EXPECT_OK(check_round_trips(lossy({"ab"})));
  EXPECT_ERROR(check_round_trips(lossy({"ab", "q"})), "tokenizer: token 259: 'q' comes back as 'p'");
}

TEST(CheckRoundTrips, VocabulariesThatCannotSpellEveryTextAreLeftAlone) {
  ASSERT_OK_AND_ASSIGN(const auto no_byte, spm({"a"}, 255));
  EXPECT_EQ(*check_round_trips(*no_byte), 0u);
  ASSERT_OK_AND_ASSIGN(const auto no_space, spm({"a"}, 256, "b"));
  EXPECT_EQ(*check_round_trips(*no_space), 0u);
}

}  // namespace
}  // namespace tessera::convert
