// The encoder of T5 as tiny files of random weights: embeddings against the formulas in double precision.
#include "tests/support/engine_support.h"
#include "tests/support/tiny_encoder.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int64_t kWidth = 16, kHeads = 2, kHeadDim = 6, kFf = 20, kLayers = 2, kVocab = 30, kBuckets = 32;
constexpr size_t kTokens = 150;  // beyond the last bucket, and in three blocks of the cache

class TinyT5 {
 public:
  TinyT5(const std::string& architecture, bool has_gate) : architecture_(architecture), has_gate_(has_gate) {
    builder.set("general.architecture", architecture);
    builder.set("tokenizer.ggml.model", "none");
    for (const auto& [name, value] :
         std::initializer_list<std::pair<const char*, int64_t>>{{"vocab_size", kVocab},
                                                                {"context_length", 256},
                                                                {"embedding_length", kWidth},
                                                                {"block_count", kLayers},
                                                                {"feed_forward_length", kFf},
                                                                {"attention.head_count", kHeads},
                                                                {"attention.key_length", kHeadDim},
                                                                {"attention.value_length", kHeadDim},
                                                                {"attention.relative_buckets_count", kBuckets}})
      key(name, static_cast<uint32_t>(value));
    builder.set(architecture + ".attention.layer_norm_rms_epsilon", 1e-6f);
    add("token_embd.weight", {kWidth, kVocab}, 1.0f);
    add("enc.blk.0.attn_rel_b.weight", {kHeads, kBuckets}, 2.0f);
    add("enc.output_norm.weight", {kWidth}, 1.0f);
    for (int64_t il = 0; il < kLayers; ++il) {
      const std::string blk = fmt::format("enc.blk.{}.", il);
      add(blk + "attn_norm.weight", {kWidth}, 1.0f);
      add(blk + "ffn_norm.weight", {kWidth}, 1.0f);
      for (const char* name : {"attn_q", "attn_k", "attn_v"})
        add(blk + name + ".weight", {kWidth, kHeads * kHeadDim}, 0.4f);
      add(blk + "attn_o.weight", {kHeads * kHeadDim, kWidth}, 0.4f);
      add(blk + "ffn_up.weight", {kWidth, kFf}, 0.4f);
      if (has_gate) add(blk + "ffn_gate.weight", {kWidth, kFf}, 0.4f);
      add(blk + "ffn_down.weight", {kFf, kWidth}, 0.4f);
    }
  }

  void key(const std::string& name, uint32_t value) { builder.set(architecture_ + "." + name, value); }

  std::string write(const std::string& name) {
    std::vector<std::span<const std::byte>> data;
    for (const auto& [tensor, values] : weights_) {
      EXPECT_OK(builder.add_tensor(tensor, DType::f32, shapes_.at(tensor)));
      data.push_back(std::as_bytes(std::span(values)));
    }
    const auto bytes = gguf_to_bytes(builder, data);
    EXPECT_OK(bytes);
    return write_temporary(name, std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
  }

  Rows forward(const std::vector<int32_t>& tokens) const {
    Rows x;
    for (const int32_t token : tokens) {
      const auto begin = weights_.at("token_embd.weight").begin() + token * kWidth;
      x.emplace_back(begin, begin + kWidth);
    }
    for (int64_t il = 0; il < kLayers; ++il) {
      const std::string blk = fmt::format("enc.blk.{}.", il);
      Rows q, k, v;
      for (const Vec& row : x) {
        const Vec n = rms(blk + "attn_norm", row);
        q.push_back(mul(blk + "attn_q", n)), k.push_back(mul(blk + "attn_k", n)), v.push_back(mul(blk + "attn_v", n));
      }
      for (size_t t = 0; t < x.size(); ++t) add_to(x[t], mul(blk + "attn_o", attended(q[t], k, v, t)));
      for (Vec& row : x) {
        const Vec n = rms(blk + "ffn_norm", row);
        Vec up = mul(blk + "ffn_up", n);
        const Vec gate = has_gate_ ? mul(blk + "ffn_gate", n) : Vec();
        for (size_t i = 0; i < up.size(); ++i)
          up[i] = has_gate_ ? TinyEncoder::gelu(gate[i]) * up[i] : std::max(up[i], 0.0);
        add_to(row, mul(blk + "ffn_down", up));
      }
    }
    for (Vec& row : x) row = rms("enc.output_norm", row);
    return x;
  }

  GgufBuilder builder;

 private:
  void add(const std::string& name, const Shape& shape, float limit) {
    std::vector<float> values(static_cast<size_t>(shape.n_elements()));
    for (float& v : values) v = rng_.next_float(-limit, limit);
    weights_[name] = std::move(values);
    shapes_[name] = shape;
  }
  static void add_to(Vec& a, const Vec& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  }
  Vec mul(const std::string& name, const Vec& x) const {
    const std::vector<float>& w = weights_.at(name + ".weight");
    Vec y(w.size() / x.size(), 0.0);
    for (size_t o = 0; o < y.size(); ++o)
      for (size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
    return y;
  }
  Vec rms(const std::string& name, Vec x) const {
    double mean = 0;
    for (const double v : x) mean += v * v / static_cast<double>(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] *= weights_.at(name + ".weight")[i] / std::sqrt(mean + 1e-6);
    return x;
  }
  // Rows of the bias by distance: 0 to 7, then from each of these on; the other half for keys after the query.
  static int64_t bucket(int64_t distance) {
    const int64_t length = std::abs(distance);
    int64_t row = std::min<int64_t>(length, 7);
    for (const int64_t first : {8, 12, 16, 23, 32, 46, 64, 91}) row += length >= first ? 1 : 0;
    return distance > 0 ? row + kBuckets / 2 : row;
  }
  Vec attended(const Vec& q, const Rows& k, const Rows& v, size_t t) const {
    Vec out(kHeads * kHeadDim, 0.0);
    for (int64_t h = 0; h < kHeads; ++h) {
      Vec p;
      double sum = 0;
      for (size_t s = 0; s < k.size(); ++s) {
        const int64_t row = bucket(static_cast<int64_t>(s) - static_cast<int64_t>(t));
        double score = weights_.at("enc.blk.0.attn_rel_b.weight")[static_cast<size_t>(row * kHeads + h)];
        for (auto i = static_cast<size_t>(h * kHeadDim); i < static_cast<size_t>((h + 1) * kHeadDim); ++i)
          score += q[i] * k[s][i];
        p.push_back(std::exp(score));
        sum += p.back();
      }
      for (size_t s = 0; s < k.size(); ++s)
        for (auto i = static_cast<size_t>(h * kHeadDim); i < static_cast<size_t>((h + 1) * kHeadDim); ++i)
          out[i] += p[s] / sum * v[s][i];
    }
    return out;
  }

  std::string architecture_;
  bool has_gate_;
  Rng rng_{4};
  std::map<std::string, std::vector<float>> weights_;
  std::map<std::string, Shape> shapes_;
};

void check(TinyT5 tiny) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(tiny.write("t5.gguf")));
  ASSERT_OK_AND_ASSIGN(
      const auto session,
      Session::create(
          engine,
          {.n_ubatch = 256, .n_outputs = kTokens, .embeddings = true, .type_k = DType::f32, .type_v = DType::f32}));
  const std::vector<int32_t> tokens = token_ids(*engine, kTokens);
  ASSERT_OK(session->decode(all_logits(tokens)));
  const Rows expected = tiny.forward(tokens);
  for (size_t t = 0; t < kTokens; ++t)
    for (size_t i = 0; i < kWidth; ++i)
      ASSERT_NEAR(session->embedding(static_cast<int64_t>(t))[i], expected[t][i], 1e-4) << t;  // f32 against double
}

TEST(T5, EncoderWithGatesIsWhatTheFormulasSay) { check(TinyT5("t5encoder", true)); }

TEST(T5, EncoderWithReluIsWhatTheFormulasSay) { check(TinyT5("t5", false)); }

TEST(T5, ATextIsTheSameBitsBesideAnother) {
  TinyT5 tiny("t5encoder", true);
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(tiny.write("t5.gguf")));
  ASSERT_OK_AND_ASSIGN(
      const auto session,
      Session::create(engine,
                      {.n_ctx = 512, .n_ubatch = 256, .n_sequences = 3, .n_outputs = kTokens + 7, .embeddings = true}));
  const std::vector<int32_t> tokens = token_ids(*engine, kTokens);
  ASSERT_OK(session->decode(all_logits(tokens)));
  const std::vector<float> alone = all_rows(*session);
  Batch batch = all_logits(std::span(tokens).first(7), 0, 1);
  const Batch second = all_logits(tokens, 0, 2);
  for (const BatchToken& token : second.tokens()) batch.add(token);
  ASSERT_OK(session->decode(batch));
  const std::vector<float> together = all_rows(*session);
  EXPECT_TRUE(same_bits(std::span(together).subspan(7 * kWidth), alone));
}

TEST(T5, BucketsAreAMultipleOfFour) {
  TinyT5 tiny("t5", true);
  tiny.key("attention.relative_buckets_count", 30);
  EXPECT_ERROR(load_engine(tiny.write("t5.gguf")),
               "key 't5.attention.relative_buckets_count': 30, want a multiple of 4");
}

TEST(T5, RefusesSharedKvHeads) {
  TinyT5 tiny("t5", true);
  tiny.key("attention.head_count_kv", 1);
  EXPECT_ERROR(load_engine(tiny.write("t5.gguf")), "share KV heads");
}

}  // namespace
}  // namespace tessera
