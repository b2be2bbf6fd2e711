// Tiny T5 models with random weights, with or without a decoder, and an independent reference implementation in double
// precision.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/random_file.h"
#include "tests/support/tiny_encoder.h"

namespace tessera::testing {

class TinyT5 : public RandomFile {
 public:
  static constexpr int64_t kWidth = 16, kHeads = 2, kHeadDim = 6, kFf = 20, kLayers = 2, kDecoderLayers = 3;
  static constexpr int64_t kVocab = 30, kBuckets = 32;
  static constexpr int32_t kStart = 3;

  /// "t5" has a decoder, "t5encoder" has none.
  explicit TinyT5(const std::string& architecture, bool has_gate = true, bool is_tied = false, uint64_t seed = 4)
      : RandomFile(architecture, seed), has_gate_(has_gate), is_tied_(is_tied) {
    add_vocab();
    for (const auto& [name, value] :
         std::initializer_list<std::pair<const char*, int64_t>>{{"context_length", 256},
                                                                {"embedding_length", kWidth},
                                                                {"block_count", kLayers},
                                                                {"feed_forward_length", kFf},
                                                                {"attention.head_count", kHeads},
                                                                {"attention.key_length", kHeadDim},
                                                                {"attention.value_length", kHeadDim},
                                                                {"attention.relative_buckets_count", kBuckets}})
      key(name, static_cast<uint32_t>(value));
    builder.set(architecture + ".attention.layer_norm_rms_epsilon", 1e-6f);
    add("token_embd.weight", {kWidth, kVocab}, 2.0f);
    add_stack("enc", kLayers);
    if (architecture != "t5") return;
    key("decoder_block_count", static_cast<uint32_t>(kDecoderLayers));
    key("decoder_start_token_id", static_cast<uint32_t>(kStart));
    if (!is_tied) add("output.weight", {kWidth, kVocab});
    add_stack("dec", kDecoderLayers);
    for (int64_t il = 0; il < kDecoderLayers; ++il) {
      const std::string blk = fmt::format("dec.blk.{}.", il);
      add(blk + "cross_attn_norm.weight", {kWidth}, 0.3f, 1.0f);
      add_heads(blk + "cross_attn");
    }
  }

  void key(const std::string& name, uint32_t value) { builder.set(architecture() + "." + name, value); }

  /// The tokens of a text of letters.
  static std::vector<int32_t> letters(std::string_view text) {
    std::vector<int32_t> ids{3};  // the space before a text
    for (const char c : text) ids.push_back(4 + c - 'a');
    ids.push_back(1);  // </s>
    return ids;
  }

  Rows encode(const std::vector<int32_t>& tokens) const {
    Rows x = embedded(tokens);
    for (int64_t il = 0; il < kLayers; ++il) {
      const std::string blk = fmt::format("enc.blk.{}.", il);
      attend_to_self(blk, "enc", x);
      feed_forward(blk, x);
    }
    for (Vec& row : x) row = rms("enc.output_norm", row);
    return x;
  }

  /// Logits of the decoder's tokens.
  Rows decode(const Rows& encoded, const std::vector<int32_t>& tokens) const {
    Rows x = embedded(tokens);
    for (int64_t il = 0; il < kDecoderLayers; ++il) {
      const std::string blk = fmt::format("dec.blk.{}.", il);
      attend_to_self(blk, "dec", x);
      Rows k, v;
      for (const Vec& row : encoded)
        k.push_back(mul(blk + "cross_attn_k", row)), v.push_back(mul(blk + "cross_attn_v", row));
      for (Vec& row : x) {
        const Vec q = mul(blk + "cross_attn_q", rms(blk + "cross_attn_norm", row));
        add_to(row, mul(blk + "cross_attn_o", attended(q, k, v, k.size(), [](size_t, int64_t) { return 0.0; })));
      }
      feed_forward(blk, x);
    }
    for (Vec& row : x) {
      row = rms("dec.output_norm", row);
      if (is_tied_)
        for (double& v : row) v /= std::sqrt(static_cast<double>(kWidth));
      row = mul(is_tied_ ? "token_embd" : "output", row);
    }
    return x;
  }

 private:
  void add_vocab() {
    std::vector<std::string> tokens = {"<pad>", "</s>", "<unk>", "\u2581"};
    std::vector<int32_t> types = {3, 3, 2, 1};
    std::vector<float> scores(4, 0.0f);
    for (char c = 'a'; c <= 'z'; ++c) {
      tokens.emplace_back(1, c);
      types.push_back(1);
      scores.push_back(-1.0f);
    }
    builder.set("tokenizer.ggml.model", "t5");
    builder.set_array("tokenizer.ggml.tokens", tokens);
    builder.set_array("tokenizer.ggml.token_type", types);
    builder.set_array("tokenizer.ggml.scores", scores);
  }
  void add_heads(const std::string& name) {
    for (const char* which : {"_q", "_k", "_v"}) add(name + which + ".weight", {kWidth, kHeads * kHeadDim});
    add(name + "_o.weight", {kHeads * kHeadDim, kWidth});
  }
  void add_stack(const std::string& stack, int64_t n_layers) {
    add(stack + ".blk.0.attn_rel_b.weight", {kHeads, kBuckets}, 1.5f);
    add(stack + ".output_norm.weight", {kWidth}, 0.3f, 1.0f);
    for (int64_t il = 0; il < n_layers; ++il) {
      const std::string blk = fmt::format("{}.blk.{}.", stack, il);
      add(blk + "attn_norm.weight", {kWidth}, 0.3f, 1.0f);
      add(blk + "ffn_norm.weight", {kWidth}, 0.3f, 1.0f);
      add_heads(blk + "attn");
      add(blk + "ffn_up.weight", {kWidth, kFf});
      if (has_gate_) add(blk + "ffn_gate.weight", {kWidth, kFf});
      add(blk + "ffn_down.weight", {kFf, kWidth});
    }
  }

  Rows embedded(const std::vector<int32_t>& tokens) const {
    Rows x;
    for (const int32_t token : tokens) {
      const auto begin = weights.at("token_embd.weight").begin() + token * kWidth;
      x.emplace_back(begin, begin + kWidth);
    }
    return x;
  }
  static void add_to(Vec& a, const Vec& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  }
  Vec mul(const std::string& name, const Vec& x) const {
    const std::vector<float>& w = weights.at(name + ".weight");
    Vec y(w.size() / x.size(), 0.0);
    for (size_t o = 0; o < y.size(); ++o)
      for (size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
    return y;
  }
  Vec rms(const std::string& name, Vec x) const {
    double mean = 0;
    for (const double v : x) mean += v * v / static_cast<double>(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] *= weights.at(name + ".weight")[i] / std::sqrt(mean + 1e-6);
    return x;
  }

  // Rows of the encoder's bias by distance: one each for 0 to 7, then one from each of these distances on. The other
  // half is for keys after the query.
  static int64_t encoder_bucket(int64_t distance) {
    const int64_t length = std::abs(distance);
    int64_t row = std::min<int64_t>(length, 7);
    for (const int64_t first : {8, 12, 16, 23, 32, 46, 64, 91}) row += length >= first ? 1 : 0;
    return distance > 0 ? row + kBuckets / 2 : row;
  }
  // Rows of the decoder's bias: one each for 0 to 15, then 16 for distances up to 128 in equal ratios.
  static int64_t decoder_bucket(int64_t distance) {
    if (-distance < 16) return -distance;
    return std::min<int64_t>(
        31, 16 + static_cast<int64_t>(std::log(static_cast<double>(-distance) / 16) / std::log(8.0) * 16));
  }

  // Attention of a query to the first n_seen keys. bias(key, head) is added to the scores.
  template <class Bias>
  static Vec attended(const Vec& q, const Rows& k, const Rows& v, size_t n_seen, const Bias& bias) {
    Vec out(kHeads * kHeadDim, 0.0);
    for (int64_t h = 0; h < kHeads; ++h) {
      Vec p;
      double sum = 0;
      for (size_t s = 0; s < n_seen; ++s) {
        double score = bias(s, h);
        for (auto i = static_cast<size_t>(h * kHeadDim); i < static_cast<size_t>((h + 1) * kHeadDim); ++i)
          score += q[i] * k[s][i];
        p.push_back(std::exp(score));
        sum += p.back();
      }
      for (size_t s = 0; s < n_seen; ++s)
        for (auto i = static_cast<size_t>(h * kHeadDim); i < static_cast<size_t>((h + 1) * kHeadDim); ++i)
          out[i] += p[s] / sum * v[s][i];
    }
    return out;
  }

  void attend_to_self(const std::string& blk, const std::string& stack, Rows& x) const {
    const bool is_causal = stack == "dec";
    const std::vector<float>& biases = weights.at(stack + ".blk.0.attn_rel_b.weight");
    Rows q, k, v;
    for (const Vec& row : x) {
      const Vec n = rms(blk + "attn_norm", row);
      q.push_back(mul(blk + "attn_q", n)), k.push_back(mul(blk + "attn_k", n)), v.push_back(mul(blk + "attn_v", n));
    }
    for (size_t t = 0; t < x.size(); ++t) {
      const auto bias = [&](size_t s, int64_t h) {
        const int64_t distance = static_cast<int64_t>(s) - static_cast<int64_t>(t);
        const int64_t row = is_causal ? decoder_bucket(distance) : encoder_bucket(distance);
        return double{biases[static_cast<size_t>(row * kHeads + h)]};
      };
      add_to(x[t], mul(blk + "attn_o", attended(q[t], k, v, is_causal ? t + 1 : x.size(), bias)));
    }
  }

  void feed_forward(const std::string& blk, Rows& x) const {
    for (Vec& row : x) {
      const Vec n = rms(blk + "ffn_norm", row);
      Vec up = mul(blk + "ffn_up", n);
      const Vec gate = has_gate_ ? mul(blk + "ffn_gate", n) : Vec();
      for (size_t i = 0; i < up.size(); ++i)
        up[i] = has_gate_ ? TinyEncoder::gelu(gate[i]) * up[i] : std::max(up[i], 0.0);
      add_to(row, mul(blk + "ffn_down", up));
    }
  }

  bool has_gate_, is_tied_;
};

}  // namespace tessera::testing
