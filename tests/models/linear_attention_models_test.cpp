// Gated delta nets (Qwen 3 Next and 3.5), RWKV 7, and Qwen 2 with its time mixing. Logits are compared with the
// formulas in double precision and must have the same bits for any batching of the tokens.
#include <functional>

#include "tests/support/tiny_qwen.h"

namespace tessera {
namespace {

using namespace testing;
using namespace testing::tiny;

Vec unit(Vec x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  for (double& v : x) v /= std::max(std::sqrt(sum), 1e-5);
  return x;
}

Rows delta_net(const TinyModel& m, const std::string& blk, const Rows& x, Qwen kind) {
  constexpr int64_t n_qk = kDim * kKeyHeads, n_v = kDim * kValueHeads;
  Rows qkv, zs, y;
  for (const Vec& row : x) {
    if (kind != Qwen::next_in_one) {
      qkv.push_back(mul(m, blk + "attn_qkv.weight", row));
      zs.push_back(mul(m, blk + "attn_gate.weight", row));
      continue;
    }
    const Vec all = mul(m, blk + "ssm_in.weight", row);
    Vec q, k, v, z;
    for (int64_t h = 0; h < kKeyHeads; ++h) {
      const int64_t at = h * kDim * (2 + 2 * kPerKey);
      const auto append = [&](Vec& to, int64_t begin, int64_t n) {
        const Vec values = part(all, at + begin, n);
        to.insert(to.end(), values.begin(), values.end());
      };
      append(q, 0, kDim);
      append(k, kDim, kDim);
      append(v, 2 * kDim, kPerKey * kDim);
      append(z, (2 + kPerKey) * kDim, kPerKey * kDim);
    }
    q.insert(q.end(), k.begin(), k.end());
    q.insert(q.end(), v.begin(), v.end());
    qkv.push_back(q);
    zs.push_back(z);
  }
  qkv = conv(m, blk + "ssm_conv1d", qkv);
  std::vector<Vec> states(kValueHeads, Vec(kDim * kDim, 0.0));  // [key, value]
  for (size_t t = 0; t < x.size(); ++t) {
    for (double& v : qkv[t]) v = silu(v);
    Vec out;
    for (int64_t h = 0; h < kValueHeads; ++h) {
      const bool is_next = kind == Qwen::next || kind == Qwen::next_in_one;
      const int64_t key_head = is_next ? h / kPerKey : h % kKeyHeads;
      double alpha, beta;
      if (is_next) {
        const Vec ba = mul(m, blk + "ssm_ba.weight", x[t]);
        beta = ba[static_cast<size_t>(h / kPerKey * 2 * kPerKey + h % kPerKey)];
        alpha = ba[static_cast<size_t>(h / kPerKey * 2 * kPerKey + kPerKey + h % kPerKey)];
      } else {
        beta = mul(m, blk + "ssm_beta.weight", x[t])[static_cast<size_t>(h)];
        alpha = mul(m, blk + "ssm_alpha.weight", x[t])[static_cast<size_t>(h)];
      }
      const Vec q = unit(part(qkv[t], key_head * kDim, kDim)), k = unit(part(qkv[t], n_qk + key_head * kDim, kDim)),
                v = part(qkv[t], 2 * n_qk + h * kDim, kDim);
      const double decay = std::exp(m.at(blk + "ssm_a", h) * softplus(alpha + m.at(blk + "ssm_dt.bias", h)));
      Vec& state = states[static_cast<size_t>(h)];
      Vec head;
      for (size_t j = 0; j < kDim; ++j) {
        double known = 0, sum = 0;
        for (size_t i = 0; i < kDim; ++i) known += (state[j * kDim + i] *= decay) * k[i];
        for (size_t i = 0; i < kDim; ++i) sum += (state[j * kDim + i] += k[i] * sigmoid(beta) * (v[j] - known)) * q[i];
        head.push_back(sum / std::sqrt(static_cast<double>(kDim)));
      }
      head = rms(m, blk + "ssm_norm.weight", head);
      for (size_t j = 0; j < kDim; ++j) out.push_back(head[j] * silu(zs[t][static_cast<size_t>(h) * kDim + j]));
    }
    y.push_back(mul(m, blk + "ssm_out.weight", out));
  }
  static_assert(n_v == kDim * kValueHeads);
  return y;
}

void check_qwen(Qwen kind) {
  const bool is_dense = kind == Qwen::dense35;
  TinyModel m = tiny_qwen(kind);
  check(m, [&](const TinyModel& model, std::span<const int32_t> tokens) {
    Rows x = embedded(model, tokens);
    for (int64_t il = 0; il < 3; ++il) {
      const std::string blk = block(il);
      const Rows n = each(x, [&](const Vec& v) { return rms(model, blk + "attn_norm.weight", v); });
      x = each_plus(x, il == 1 ? attention(model, blk, n, kQwenAttention) : delta_net(model, blk, n, kind));
      x = each_plus(x, each(x, [&](const Vec& v) {
                      const Vec h = rms(model, blk + "post_attention_norm.weight", v);
                      if (is_dense) return ffn(model, blk + "ffn_{}.weight", h);
                      const double gate = sigmoid(mul(model, blk + "ffn_gate_inp_shexp.weight", h)[0]);
                      return plus(experts(model, blk, h, {}), ffn(model, blk + "ffn_{}_shexp.weight", h), gate);
                    }));
    }
    return logits_of_rms(model, x);
  });
}

TEST(DeltaRules, WantAnEpsThatDividesQAndK) {
  TinyModel m = tiny_qwen(Qwen::dense35);
  m.key("attention.layer_norm_rms_epsilon", 0.0f);
  EXPECT_ERROR(load_engine(m.write("eps.gguf")), "key 'qwen35.attention.layer_norm_rms_epsilon': 0, want more");
}

TEST(RecurrentModels, Qwen3NextIsDeltaNetsAndGatedAttention) {
  check_qwen(Qwen::next);
  check_qwen(Qwen::next_in_one);
}

TEST(RecurrentModels, Qwen35HasTiledValueHeads) {
  check_qwen(Qwen::dense35);
  check_qwen(Qwen::moe35);
}

// RWKV 7: 3 heads of 8.
constexpr int64_t kHead = 8;

Rows time_mix(const TinyModel& m, const std::string& blk, const Rows& x, Rows& v_first, bool has_gate) {
  const auto lerp = [&](size_t t, int64_t index) {
    Vec row = x[t];
    for (size_t i = 0; i < row.size(); ++i)
      row[i] += ((t > 0 ? x[t - 1][i] : 0.0) - x[t][i]) *
                m.at(blk + "time_mix_lerp_fused.weight", index * kWidth + static_cast<int64_t>(i));
    return row;
  };
  const auto low_rank = [&](const std::string& which, const Vec& row, double (*activation)(double)) {
    Vec h = mul(m, blk + "time_mix_" + which + "1.weight", row);
    for (double& v : h) v = activation(v);
    const Vec y = mul(m, blk + "time_mix_" + which + "2.weight", h);
    const std::string bias = blk + "time_mix_" + which + "0.weight";
    return m.has(bias) ? plus(y, vector_of(m, bias)) : y;
  };
  const auto same = [](double v) { return v; };
  Rows y;
  std::vector<Vec> states(kWidth / kHead, Vec(kHead * kHead, 0.0));
  for (size_t t = 0; t < x.size(); ++t) {
    const Vec r = mul(m, blk + "time_mix_receptance.weight", lerp(t, 0));
    const Vec raw = low_rank("w", lerp(t, 1), [](double v) { return std::tanh(v); });
    Vec k = mul(m, blk + "time_mix_key.weight", lerp(t, 2)), v = mul(m, blk + "time_mix_value.weight", lerp(t, 3));
    if (blk == "blk.0.") {
      v_first.push_back(v);
    } else {
      const Vec mix = low_rank("v", lerp(t, 3), same);
      for (size_t i = 0; i < v.size(); ++i) v[i] += (v_first[t][i] - v[i]) * sigmoid(mix[i]);
    }
    const Vec a_raw = low_rank("a", lerp(t, 4), same);
    const Vec kk_all = times(k, vector_of(m, blk + "time_mix_k_k.weight"));
    Vec out;
    for (int64_t h = 0; h < kWidth / kHead; ++h) {
      const auto at = [&](int64_t i) { return static_cast<size_t>(h * kHead + i); };
      const Vec kk = unit(part(kk_all, h * kHead, kHead));
      Vec head(kHead, 0.0);
      double bonus = 0;
      Vec& state = states[static_cast<size_t>(h)];  // [value][key]
      for (int64_t i = 0; i < kHead; ++i) {
        double* row = state.data() + i * kHead;
        double removed = 0;
        for (int64_t j = 0; j < kHead; ++j) removed -= row[j] * kk[static_cast<size_t>(j)];
        for (int64_t j = 0; j < kHead; ++j) {
          const double a = sigmoid(a_raw[at(j)]);
          const double key = k[at(j)] * (1 + (a - 1) * m.at(blk + "time_mix_k_a.weight", h * kHead + j));
          const double decay = std::exp(-0.606531 * sigmoid(raw[at(j)]));
          row[j] = row[j] * decay + v[at(i)] * key + removed * kk[static_cast<size_t>(j)] * a;
          head[static_cast<size_t>(i)] += row[j] * r[at(j)];
          if (i == 0) bonus += r[at(j)] * key * m.at(blk + "time_mix_r_k.weight", h * kHead + j);
        }
      }
      const bool has_norm = m.has(blk + "time_mix_ln.weight");
      if (has_norm) head = layer_norm(head, 64e-5);
      for (int64_t i = 0; i < kHead; ++i) {
        double value = head[static_cast<size_t>(i)];
        if (has_norm)
          value =
              value * m.at(blk + "time_mix_ln.weight", h * kHead + i) + m.at(blk + "time_mix_ln.bias", h * kHead + i);
        out.push_back(value + v[at(i)] * bonus);
      }
    }
    if (has_gate) out = times(out, low_rank("g", lerp(t, 5), sigmoid));
    y.push_back(mul(m, blk + "time_mix_output.weight", out));
  }
  return y;
}

Rows channel_mix(const TinyModel& m, const std::string& blk, const Rows& x) {
  Rows y;
  for (size_t t = 0; t < x.size(); ++t) {
    Vec row = x[t];
    for (size_t i = 0; i < row.size(); ++i)
      row[i] +=
          ((t > 0 ? x[t - 1][i] : 0.0) - x[t][i]) * m.at(blk + "channel_mix_lerp_k.weight", static_cast<int64_t>(i));
    Vec h = mul(m, blk + "channel_mix_key.weight", row);
    for (double& v : h) v = std::max(v, 0.0) * std::max(v, 0.0);
    y.push_back(mul(m, blk + "channel_mix_value.weight", h));
  }
  return y;
}

TinyModel rwkv7_model(const char* architecture, bool has_gate,
                      const std::function<void(TinyModel&, const std::string&)>& add_rest) {
  TinyModel m(architecture, 2);
  m.key("attention.head_count", 0);
  m.key("feed_forward_length", 30);
  m.key("wkv.head_size", kHead);
  m.key("attention.decay_lora_rank", 5);
  m.key("attention.iclr_lora_rank", 4);
  m.key("attention.value_residual_mix_lora_rank", 3);
  m.key("attention.gate_lora_rank", has_gate ? 6 : 0);
  for (int64_t il = 0; il < 2; ++il) {
    const std::string blk = block(il), time = blk + "time_mix_";
    m.add(time + "lerp_fused.weight", {kWidth, 1, 1, has_gate ? 6 : 5}, 0.5f, 0.5f);
    for (const char* name : {"receptance", "key", "value", "output"}) m.add(time + name + ".weight", {kWidth, kWidth});
    for (const auto& [which, rank] :
         {std::pair<const char*, int64_t>{"w", 5}, {"a", 4}, {"v", 3}, {"g", has_gate ? 6 : 0}}) {
      if (rank == 0) continue;
      m.add(time + which + "1.weight", {kWidth, rank});
      m.add(time + which + "2.weight", {rank, kWidth});
      if (*which != 'g') m.add(time + which + "0.weight", {kWidth});
    }
    for (const char* name : {"k_k", "k_a", "r_k"}) m.add(time + name + ".weight", {kWidth}, 0.5f, 0.5f);
    add_rest(m, blk);
  }
  return m;
}

void add_layer_norm(TinyModel& m, const std::string& name) {
  m.norm(name, {kWidth});
  m.add(name + ".bias", {kWidth}, 0.3f);
}

void check_rwkv7(bool has_gate) {
  TinyModel m = rwkv7_model("rwkv7", has_gate, [](TinyModel& w, const std::string& blk) {
    for (const char* name : {"attn_norm", "attn_norm_2", "time_mix_ln"}) add_layer_norm(w, blk + name);
    w.add(blk + "channel_mix_lerp_k.weight", {kWidth}, 0.5f, 0.5f);
    w.add(blk + "channel_mix_key.weight", {kWidth, 30});
    w.add(blk + "channel_mix_value.weight", {30, kWidth});
  });
  add_layer_norm(m, "token_embd_norm");
  add_layer_norm(m, "output_norm");
  check(m, [&](const TinyModel& model, std::span<const int32_t> tokens) {
    Rows x = each(embedded(model, tokens), [&](const Vec& v) { return layer_norm(model, "token_embd_norm", v); });
    Rows v_first;
    for (int64_t il = 0; il < 2; ++il) {
      const std::string blk = block(il);
      const Rows n = each(x, [&](const Vec& v) { return layer_norm(model, blk + "attn_norm", v); });
      x = each_plus(x, time_mix(model, blk, n, v_first, has_gate));
      const Rows n2 = each(x, [&](const Vec& v) { return layer_norm(model, blk + "attn_norm_2", v); });
      x = each_plus(x, channel_mix(model, blk, n2));
    }
    return each(x, [&](const Vec& v) { return mul(model, "output.weight", layer_norm(model, "output_norm", v)); });
  });
}

void check_arwkv7(bool has_gate, bool has_head_norm) {
  TinyModel m = rwkv7_model("arwkv7", has_gate, [&](TinyModel& w, const std::string& blk) {
    for (const char* name : {"attn_norm", "ffn_norm"}) w.norm(blk + name, {kWidth});
    if (has_head_norm) add_layer_norm(w, blk + "time_mix_ln");
    add_ffn(w, blk, "", 30);
  });
  m.norm("output_norm", {kWidth});
  check(m, [&](const TinyModel& model, std::span<const int32_t> tokens) {
    Rows x = embedded(model, tokens), v_first;
    for (int64_t il = 0; il < 2; ++il) {
      const std::string blk = block(il);
      const Rows n = each(x, [&](const Vec& v) { return rms(model, blk + "attn_norm.weight", v); });
      x = each_plus(x, time_mix(model, blk, n, v_first, has_gate));
      x = each_plus(x, each(x, [&](const Vec& v) {
                      return ffn(model, blk + "ffn_{}.weight", rms(model, blk + "ffn_norm.weight", v));
                    }));
    }
    return logits_of_rms(model, x);
  });
}

TEST(RecurrentModels, Rwkv7IsTimeAndChannelMixing) {
  check_rwkv7(true);
  check_rwkv7(false);
}

TEST(RecurrentModels, Arwkv7IsTimeMixingAndSwiGlu) {
  check_arwkv7(true, true);
  check_arwkv7(false, false);
}

}  // namespace
}  // namespace tessera
