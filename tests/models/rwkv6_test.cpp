// RWKV 6, and Qwen 2 with its time mixing. Logits are compared with the formulas in double precision and must have the
// same bits for any batching of the tokens.
#include "tests/support/formula_model.h"

namespace tessera {
namespace {

using namespace testing;
using namespace testing::tiny;

constexpr int64_t kSize = 8, kTimeHeads = kWidth / kSize, kMixRank = 5, kDecayRank = 4, kNLayers = 3;

// A layer norm, whose weights are created at their first use.
Vec layer_normed(TinyModel& w, const std::string& name, const Vec& x) {
  const auto n = static_cast<int64_t>(x.size());
  weight(w, name + ".weight", {n}, 0.3f, 1.0f);
  weight(w, name + ".bias", {n}, 0.3f);
  return layer_norm(w, name, x);
}

Vec with_bias(TinyModel& w, const std::string& name, const Vec& x) {
  const auto& bias = weight(w, name, {static_cast<int64_t>(x.size())});
  return plus(x, Vec(bias.begin(), bias.end()));
}

// x + shift * row i of a tensor.
Vec lerp(TinyModel& w, const std::string& name, const Shape& shape, const Vec& x, const Vec& shift, int64_t i = 0) {
  const auto& factors = weight(w, name, shape, 0.5f, 0.5f);
  Vec y = x;
  for (size_t c = 0; c < y.size(); ++c) y[c] += shift[c] * double{factors[static_cast<size_t>(i) * y.size() + c]};
  return y;
}

struct TimeRules {
  int64_t n_kv = kTimeHeads;
  bool has_bonus = true, is_fused = true;
};

// The inputs of w, k, v, r, g.
std::array<Vec, 5> mixed_inputs(TinyModel& w, const std::string& time, const Vec& x, const Vec& shift,
                                const TimeRules& rules) {
  Vec low = product(w, time + "w1", lerp(w, time + "lerp_x.weight", {kWidth, 1, 1}, x, shift), 5 * kMixRank);
  for (double& v : low) v = std::tanh(v);
  std::array<Vec, 5> inputs;
  for (int64_t i = 0; i < 5; ++i) {
    const std::string own = time + "lerp_" + "wkvrg"[i] + ".weight";
    const Vec fixed = rules.is_fused ? lerp(w, time + "lerp_fused.weight", {kWidth, 1, 1, 5}, x, shift, i)
                                     : lerp(w, own, {kWidth, 1, 1}, x, shift);
    const Vec factors = product(w, time + "w2", part(low, i * kMixRank, kMixRank), kWidth, 5, i);
    inputs[static_cast<size_t>(i)] = plus(fixed, times(shift, factors));
  }
  return inputs;
}

Rows time_mixed(TinyModel& w, const std::string& blk, const Rows& x, const TimeRules& rules) {
  const std::string time = blk + "time_mix_";
  const int64_t n_kv = rules.n_kv * kSize, per_kv = kTimeHeads / rules.n_kv;
  std::vector<Vec> states(kTimeHeads, Vec(kSize * kSize, 0.0));  // [key, value]
  Rows y;
  for (size_t t = 0; t < x.size(); ++t) {
    const Vec shift = plus(t > 0 ? x[t - 1] : Vec(x[t].size(), 0.0), x[t], -1.0);
    const auto [x_w, x_k, x_v, x_r, x_g] = mixed_inputs(w, time, x[t], shift, rules);
    Vec low = product(w, time + "decay_w1", x_w, kDecayRank);
    for (double& v : low) v = std::tanh(v);
    Vec decay = with_bias(w, time + "decay.weight", product(w, time + "decay_w2", low, kWidth));
    for (double& v : decay) v = std::exp(-std::exp(v));
    const auto maybe_biased = [&](const char* name, const Vec& in, int64_t n) {
      const Vec out = product(w, time + name, in, n);
      return rules.has_bonus ? out : with_bias(w, time + name + ".bias", out);
    };
    const Vec r = maybe_biased("receptance", x_r, kWidth), k = maybe_biased("key", x_k, n_kv),
              v = maybe_biased("value", x_v, n_kv);
    Vec gate = product(w, time + "gate", x_g, kWidth);
    for (double& g : gate) g = rules.has_bonus ? silu(g) : sigmoid(g);
    Vec out;
    for (int64_t h = 0; h < kTimeHeads; ++h) {
      const auto at = [&](int64_t i) { return static_cast<size_t>(h * kSize + i); };
      const auto kv_at = [&](int64_t i) { return static_cast<size_t>(h / per_kv * kSize + i); };
      Vec& state = states[static_cast<size_t>(h)];
      Vec head(kSize, 0.0);
      for (int64_t i = 0; i < kSize; ++i)
        for (int64_t j = 0; j < kSize; ++j) {
          double& s = state[static_cast<size_t>(i * kSize + j)];
          const double before = s;
          const double key = k[kv_at(i)] * (rules.has_bonus ? 1.0 : 1.0 - decay[at(i)]);
          s = before * decay[at(i)] + key * v[kv_at(j)];
          if (rules.has_bonus) {
            const double bonus = weight(w, time + "first.weight", {kSize, kTimeHeads})[at(i)];
            head[static_cast<size_t>(j)] += r[at(i)] * (before + bonus * key * v[kv_at(j)]);
          } else {
            head[static_cast<size_t>(j)] += r[at(i)] * s / std::sqrt(static_cast<double>(kSize));
          }
        }
      if (rules.has_bonus) head = layer_norm(head, 64e-5);
      out.insert(out.end(), head.begin(), head.end());
    }
    if (rules.has_bonus) {
      const auto& scale = weight(w, time + "ln.weight", {kWidth}, 0.3f, 1.0f);
      out = with_bias(w, time + "ln.bias", times(out, Vec(scale.begin(), scale.end())));
    }
    y.push_back(product(w, time + "output", times(out, gate), kWidth));
  }
  return y;
}

Rows channel_mixed(TinyModel& w, const std::string& blk, const Rows& x) {
  const std::string channel = blk + "channel_mix_";
  Rows y;
  for (size_t t = 0; t < x.size(); ++t) {
    const Vec shift = plus(t > 0 ? x[t - 1] : Vec(x[t].size(), 0.0), x[t], -1.0);
    Vec h = product(w, channel + "key", lerp(w, channel + "lerp_k.weight", {kWidth, 1, 1}, x[t], shift), kNFf);
    for (double& v : h) v = relu_squared(v);
    Vec gate =
        product(w, channel + "receptance", lerp(w, channel + "lerp_r.weight", {kWidth, 1, 1}, x[t], shift), kWidth);
    for (double& g : gate) g = sigmoid(g);
    y.push_back(times(gate, product(w, channel + "value", h, kWidth)));
  }
  return y;
}

TinyModel rwkv_model(const char* architecture) {
  TinyModel m(architecture, kNLayers);
  m.key("attention.head_count", 0);
  m.key("feed_forward_length", kNFf);
  m.key("wkv.head_size", kSize);
  m.key("time_mix_extra_dim", kMixRank);
  m.key("time_decay_extra_dim", kDecayRank);
  return m;
}

void check_rwkv6(bool is_fused, int64_t halving_period) {
  TinyModel m = rwkv_model("rwkv6");
  m.key("rescale_every_n_layers", halving_period);
  expect_formula(m, [&](TinyModel& w, Rows x) {
    const auto all = [&](const std::string& name, const Rows& rows) {
      return each(rows, [&](const Vec& row) { return layer_normed(w, name, row); });
    };
    x = all("token_embd_norm", x);
    for (int64_t il = 0; il < kNLayers; ++il) {
      const std::string blk = block(il);
      x = each_plus(x, time_mixed(w, blk, all(blk + "attn_norm", x), {.is_fused = is_fused}));
      x = each_plus(x, channel_mixed(w, blk, all(blk + "attn_norm_2", x)));
      if (halving_period > 0 && (il + 1) % halving_period == 0)
        for (Vec& row : x)
          for (double& v : row) v /= 2;
    }
    return each(all("output_norm", x), [&](const Vec& row) { return product(w, "output", row, kVocab); });
  });
}

TEST(RecurrentModels, Rwkv6IsTimeAndChannelMixing) {
  check_rwkv6(true, 0);
  check_rwkv6(false, 2);
}

void check_rwkv6_qwen2(int64_t n_kv) {
  TinyModel m = rwkv_model("rwkv6qwen2");
  m.key("attention.head_count_kv", n_kv);
  const TimeRules rules{.n_kv = n_kv == 0 ? kTimeHeads : n_kv, .has_bonus = false};
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t il = 0; il < kNLayers; ++il) {
      const std::string blk = block(il);
      x = each_plus(x, time_mixed(w, blk, all_normed(w, blk + "attn_norm.weight", x), rules));
      x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x),
                            [&](const Vec& row) { return block_of(w, blk + "ffn_{}", row, kNFf); }));
    }
    return output_logits(w, x);
  });
}

TEST(RecurrentModels, Rwkv6Qwen2IsTimeMixingWithKvHeads) {
  check_rwkv6_qwen2(0);
  check_rwkv6_qwen2(1);
}

TEST(RecurrentModels, Rwkv6RefusesHeadsThatDoNotDivideTheWidth) {
  TinyModel m = rwkv_model("rwkv6");
  m.key("wkv.head_size", 7);
  EXPECT_ERROR(load_engine(m.write("heads.gguf")), "embedding_length 24 and wkv.head_size 7: want a multiple");
  TinyModel other = rwkv_model("rwkv6qwen2");
  other.key("attention.head_count_kv", 2);
  EXPECT_ERROR(load_engine(other.write("kv.gguf")), "3 heads for 2 KV heads, want a multiple");
}

}  // namespace
}  // namespace tessera
