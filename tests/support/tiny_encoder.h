// Tiny encoder models with random weights, and an independent reference implementation in double precision.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/random_file.h"

namespace tessera::testing {

using Vec = std::vector<double>;
using Rows = std::vector<Vec>;  // one per token

/// A model file of an encoder architecture with its reference.
class TinyEncoder : public RandomFile {
 public:
  static constexpr int64_t kWidth = 24, kHeads = 3, kHeadDim = 8, kFf = 20, kLayers = 4, kContext = 96;
  static constexpr int64_t kSlidingWindow = 7;  // tokens attend to keys up to 3 tokens away
  static constexpr float kEps = 1e-5f;

  explicit TinyEncoder(std::string architecture, uint64_t seed = 1) : RandomFile(std::move(architecture), seed) {
    add_vocab();
    key("context_length", static_cast<uint32_t>(kContext));
    key("embedding_length", static_cast<uint32_t>(kWidth));
    key("block_count", static_cast<uint32_t>(kLayers));
    key("feed_forward_length", static_cast<uint32_t>(kFf));
    key("attention.head_count", static_cast<uint32_t>(kHeads));
    key("attention.layer_norm_epsilon", kEps);
    key("attention.causal", false);
    add("token_embd.weight", {kWidth, n_vocab()});
    norm("token_embd_norm", !is_modern());
    if (is_modern()) {
      key("rope.freq_base", 160000.0f);
      key("attention.sliding_window", static_cast<uint32_t>(kSlidingWindow));
      norm("output_norm", false);
    } else {
      add("token_types.weight", {kWidth, 2});
    }
    if (is_bert()) add("position_embd.weight", {kWidth, kContext});
    for (int64_t il = 0; il < kLayers; ++il) add_layer(fmt::format("blk.{}.", il), il);
  }

  bool is_bert() const { return architecture() == "bert"; }
  bool is_modern() const { return architecture() == "modern-bert"; }
  static int64_t n_vocab() { return static_cast<int64_t>(vocab().size()); }

  /// [CLS] is 2 and [SEP] is 3; words are letters.
  static const std::vector<std::string>& vocab() {
    static const std::vector<std::string> tokens = [] {
      std::vector<std::string> all = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
      for (char c = 'a'; c <= 'z'; ++c) all.push_back("\u2581" + std::string(1, c));
      return all;
    }();
    return tokens;
  }
  static int32_t letter(char c) { return 5 + c - 'a'; }

  template <class T>
  void key(const std::string& name, const T& value) {
    builder.set(architecture() + "." + name, value);
  }
  void norm(const std::string& name, bool has_bias) {
    add(name + ".weight", {kWidth}, 0.3f, 1.0f);
    if (has_bias) add(name + ".bias", {kWidth}, 0.3f);
  }
  void linear(const std::string& name, int64_t n_in, int64_t n_out, bool has_bias) {
    add(name + ".weight", {n_in, n_out});
    if (has_bias) add(name + ".bias", {n_out}, 0.3f);
  }

  // --- the formulas

  /// W x + b; b is optional.
  Vec mul(const std::string& name, const Vec& x) const {
    const Shape& shape = shapes.at(name + ".weight");
    const std::vector<float>& w = weights.at(name + ".weight");
    const auto bias = weights.find(name + ".bias");
    Vec y;
    for (int64_t o = 0; o < shape[1]; ++o) {
      double sum = bias == weights.end() ? 0.0 : bias->second[static_cast<size_t>(o)];
      for (size_t i = 0; i < x.size(); ++i) sum += w[static_cast<size_t>(o) * x.size() + i] * x[i];
      y.push_back(sum);
    }
    return y;
  }

  Vec layer_norm(const std::string& name, const Vec& x) const {
    double mean = 0, variance = 0;
    for (const double v : x) mean += v / static_cast<double>(x.size());
    for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
    const auto bias = weights.find(name + ".bias");
    Vec y;
    for (size_t i = 0; i < x.size(); ++i)
      y.push_back((x[i] - mean) / std::sqrt(variance + double{kEps}) * weights.at(name + ".weight")[i] +
                  (bias == weights.end() ? 0.0 : bias->second[i]));
    return y;
  }

  static double gelu(double x) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }
  static double silu(double x) { return x / (1 + std::exp(-x)); }

  /// The embeddings of all tokens.
  Rows forward(const std::vector<int32_t>& tokens) const {
    Rows x;
    for (size_t t = 0; t < tokens.size(); ++t) {
      Vec row = row_of("token_embd.weight", tokens[t]);
      if (!is_modern()) row = plus(row, row_of("token_types.weight", 0));
      if (is_bert()) row = plus(row, row_of("position_embd.weight", static_cast<int64_t>(t)));
      x.push_back(layer_norm("token_embd_norm", row));
    }
    for (int64_t il = 0; il < kLayers; ++il) layer(x, fmt::format("blk.{}.", il), il);
    if (is_modern())
      for (Vec& row : x) row = layer_norm("output_norm", row);
    return x;
  }

  int64_t period = 3;    // modern-bert: the first of every 3 layers has no window
  bool is_silu = false;  // modern-bert: activation

 private:
  void add_vocab() {
    builder.set("tokenizer.ggml.model", "bert");
    builder.set_array("tokenizer.ggml.tokens", vocab());
    std::vector<int32_t> types(vocab().size(), 1);
    for (size_t i = 0; i < 5; ++i) types[i] = 3;
    builder.set_array("tokenizer.ggml.token_type", types);
    builder.set("tokenizer.ggml.token_type_count", uint32_t{2});
    uint32_t id = 0;
    for (const char* name : {"padding", "unknown", "bos", "seperator", "mask"})
      builder.set(fmt::format("tokenizer.ggml.{}_token_id", name), id++);
  }

  void add_layer(const std::string& blk, int64_t il) {
    if (is_bert()) {
      for (const char* name : {"attn_q", "attn_k", "attn_v"}) linear(blk + name, kWidth, kHeads * kHeadDim, true);
      linear(blk + "ffn_up", kWidth, kFf, true);
    } else {
      linear(blk + "attn_qkv", kWidth, 3 * kHeads * kHeadDim, false);
      linear(blk + "ffn_up", kWidth, is_modern() ? 2 * kFf : kFf, false);
      if (!is_modern()) linear(blk + "ffn_gate", kWidth, kFf, false);
    }
    linear(blk + "attn_output", kHeads * kHeadDim, kWidth, is_bert());
    linear(blk + "ffn_down", kFf, kWidth, is_bert());
    if (!is_modern()) {
      norm(blk + "attn_output_norm", true);
      norm(blk + "layer_output_norm", true);
      return;
    }
    if (il > 0) norm(blk + "attn_norm", false);
    norm(blk + "ffn_norm", false);
  }

  Vec row_of(const std::string& name, int64_t row) const {
    const auto begin = weights.at(name).begin() + row * kWidth;
    return Vec(begin, begin + kWidth);
  }
  static Vec plus(Vec a, const Vec& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  }

  // Rotates pairs (i, i + dim / 2) of each head by position * base^(-2 i / dim).
  static void rotate(Vec& heads, int64_t position, double base) {
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t i = 0; i < kHeadDim / 2; ++i) {
        const double angle = static_cast<double>(position) * std::pow(base, -2.0 * static_cast<double>(i) / kHeadDim);
        double& a = heads[static_cast<size_t>(h * kHeadDim + i)];
        double& b = heads[static_cast<size_t>(h * kHeadDim + i + kHeadDim / 2)];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = turned;
      }
  }

  // q, k and v of a token.
  Rows project(const std::string& blk, const Vec& x) const {
    if (is_bert()) return {mul(blk + "attn_q", x), mul(blk + "attn_k", x), mul(blk + "attn_v", x)};
    const Vec qkv = mul(blk + "attn_qkv", x);
    Rows parts;
    for (int64_t i = 0; i < 3; ++i)
      parts.emplace_back(qkv.begin() + i * kHeads * kHeadDim, qkv.begin() + (i + 1) * kHeads * kHeadDim);
    return parts;
  }

  Rows attention(const std::string& blk, int64_t il, const Rows& x) const {
    const bool has_window = is_modern() && (period == 0 || il % period != 0);
    const double base = is_modern() && !has_window ? 160000.0 : 10000.0;
    const auto n = static_cast<int64_t>(x.size());
    Rows q, k, v, y;
    for (int64_t t = 0; t < n; ++t) {
      Rows parts = project(blk, x[static_cast<size_t>(t)]);
      if (!is_bert())
        for (int i = 0; i < 2; ++i) rotate(parts[static_cast<size_t>(i)], t, base);
      q.push_back(parts[0]), k.push_back(parts[1]), v.push_back(parts[2]);
    }
    for (int64_t t = 0; t < n; ++t) {
      Vec out(static_cast<size_t>(kHeads * kHeadDim), 0.0);
      for (int64_t h = 0; h < kHeads; ++h) {
        Vec weights_of_keys;
        double sum = 0;
        for (int64_t s = 0; s < n; ++s) {
          double score = 0;
          for (int64_t i = h * kHeadDim; i < (h + 1) * kHeadDim; ++i)
            score +=
                q[static_cast<size_t>(t)][static_cast<size_t>(i)] * k[static_cast<size_t>(s)][static_cast<size_t>(i)];
          const bool is_seen = !has_window || std::abs(t - s) <= kSlidingWindow / 2;
          weights_of_keys.push_back(is_seen ? std::exp(score / std::sqrt(double{kHeadDim})) : 0.0);
          sum += weights_of_keys.back();
        }
        for (int64_t s = 0; s < n; ++s)
          for (int64_t i = h * kHeadDim; i < (h + 1) * kHeadDim; ++i)
            out[static_cast<size_t>(i)] +=
                weights_of_keys[static_cast<size_t>(s)] / sum * v[static_cast<size_t>(s)][static_cast<size_t>(i)];
      }
      y.push_back(mul(blk + "attn_output", out));
    }
    return y;
  }

  Vec ffn(const std::string& blk, const Vec& x) const {
    Vec up = mul(blk + "ffn_up", x);
    if (is_modern()) {
      for (size_t i = 0; i < kFf; ++i) up[i] = (is_silu ? silu(up[i]) : gelu(up[i])) * up[i + kFf];
      up.resize(kFf);
    } else if (is_bert()) {
      for (double& u : up) u = gelu(u);
    } else {
      const Vec gate = mul(blk + "ffn_gate", x);
      for (size_t i = 0; i < kFf; ++i) up[i] *= silu(gate[i]);
    }
    return mul(blk + "ffn_down", up);
  }

  void layer(Rows& x, const std::string& blk, int64_t il) const {
    Rows in = x;
    if (is_modern() && il > 0)
      for (Vec& row : in) row = layer_norm(blk + "attn_norm", row);
    const Rows attended = attention(blk, il, in);
    for (size_t t = 0; t < x.size(); ++t) {
      x[t] = plus(x[t], attended[t]);
      if (is_modern()) {
        x[t] = plus(x[t], ffn(blk, layer_norm(blk + "ffn_norm", x[t])));
      } else {
        x[t] = layer_norm(blk + "attn_output_norm", x[t]);
        x[t] = layer_norm(blk + "layer_output_norm", plus(x[t], ffn(blk, x[t])));
      }
    }
  }
};

}  // namespace tessera::testing
