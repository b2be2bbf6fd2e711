// Small random models of DeepSeek V4, and its formula in double precision: residual streams, attention to a window and
// to compressed entries, and experts chosen by a table.
#pragma once

#include "tests/support/formula_model.h"

namespace tessera::testing::deepseek4 {

using namespace tiny;

inline constexpr int64_t kHeads = 4, kDim = 12, kRot = 4, kLatentQ = 9, kOutGroups = 2, kOutLatent = 7;
inline constexpr int64_t kIndexHeads = 3, kIndexDim = 8, kStreams = 4;
inline constexpr size_t kWindow = 6, kChosen = 3;
inline constexpr double kStreamEps = double{1e-3f}, kBase = 10000.0, kEntryBase = 50000.0, kLimit4 = 0.5;
inline constexpr int kIterations = 3;
inline constexpr int32_t kPrompt = 290;  // two entries of 128 tokens and part of a third

struct Rules {
  std::vector<int32_t> ratios;
  int64_t n_hashed = 0;
  bool is_flat = false;  // attn_output_a in two dimensions
};

inline TinyModel with_keys(const Rules& rules) {
  const auto n_layers = static_cast<int64_t>(rules.ratios.size());
  TinyModel m = tiny_model("deepseek4", n_layers, {.n = kHeads, .n_kv = 1, .dim = kDim, .v_dim = kDim, .n_rot = kRot});
  set_expert_keys(m);
  m.key("context_length", 2048);
  m.key("expert_shared_count", 1);
  m.key("expert_gating_func", 4);
  m.key("expert_weights_norm", true);
  m.key("expert_weights_scale", 1.5f);
  m.key("swiglu_clamp_exp", static_cast<float>(kLimit4));
  m.key("hash_layer_count", rules.n_hashed);
  m.key("attention.q_lora_rank", kLatentQ);
  m.key("attention.sliding_window", int64_t{kWindow});
  m.key("attention.output_group_count", kOutGroups);
  m.key("attention.output_lora_rank", kOutLatent);
  m.key("attention.compress_rope_freq_base", static_cast<float>(kEntryBase));
  m.keys("attention.compress_ratios", rules.ratios);
  m.key("attention.indexer.head_count", kIndexHeads);
  m.key("attention.indexer.key_length", kIndexDim);
  m.key("attention.indexer.top_k", int64_t{kChosen});
  m.key("hyper_connection.count", kStreams);
  m.key("hyper_connection.sinkhorn_iterations", kIterations);
  m.key("hyper_connection.epsilon", static_cast<float>(kStreamEps));
  return m;
}

inline double dot(const Vec& a, const Vec& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

/// Rotates the last elements by the angles of a position, which may be negative.
inline Vec tail_rotated(Vec x, int64_t position, double base) {
  rotate(x.data() + (x.size() - kRot), position, {.n_rot = kRot, .is_adjacent = true, .base = base});
  return x;
}

// --- streams

/// The weights of the streams x, one row: inputs, outputs, and mixing [new + n * old].
inline Vec stream_weights_of(TinyModel& m, const std::string& name, const Vec& x, bool only_inputs = false) {
  constexpr size_t n = kStreams;
  const Vec products = product(m, name + "_fn", rms(m, "", x), only_inputs ? kStreams : kStreams * (kStreams + 2));
  const auto& base = weight(m, name + "_base.weight", {static_cast<int64_t>(products.size())});
  const auto& scale = weight(m, name + "_scale.weight", {only_inputs ? 1 : 3}, 0.5f, 1.0f);
  const auto value = [&](size_t i, size_t part_of) { return products[i] * double{scale[part_of]} + double{base[i]}; };
  Vec w(products.size());
  for (size_t i = 0; i < n; ++i) w[i] = sigmoid(value(i, 0)) + kStreamEps;
  if (only_inputs) return w;
  for (size_t i = n; i < 2 * n; ++i) w[i] = 2 * sigmoid(value(i, 1));
  const auto at = [&](size_t to, size_t from) -> double& { return w[2 * n + to + n * from]; };
  for (size_t from = 0; from < n; ++from) {
    double sum = 0;
    for (size_t to = 0; to < n; ++to) sum += at(to, from) = std::exp(value(2 * n + to + n * from, 2));
    for (size_t to = 0; to < n; ++to) at(to, from) = at(to, from) / sum + kStreamEps;
  }
  const auto divide = [&](bool by_old) {
    for (size_t i = 0; i < n; ++i) {
      double sum = kStreamEps;
      for (size_t j = 0; j < n; ++j) sum += by_old ? at(i, j) : at(j, i);
      for (size_t j = 0; j < n; ++j) (by_old ? at(i, j) : at(j, i)) /= sum;
    }
  };
  divide(true);
  for (int i = 1; i < kIterations; ++i) divide(false), divide(true);
  return w;
}

inline Vec stream_of(const Vec& x, size_t i) { return part(x, static_cast<int64_t>(i) * kWidth, kWidth); }

inline Vec joined_streams(const Vec& x, const Vec& w) {
  Vec sum(kWidth, 0.0);
  for (size_t i = 0; i < kStreams; ++i) sum = plus(sum, stream_of(x, i), w[i]);
  return sum;
}

inline Vec updated_streams(const Vec& x, const Vec& y, const Vec& w) {
  constexpr size_t n = kStreams;
  Vec all;
  for (size_t to = 0; to < n; ++to) {
    Vec sum(kWidth, 0.0);
    sum = plus(sum, y, w[n + to]);
    for (size_t from = 0; from < n; ++from) sum = plus(sum, stream_of(x, from), w[2 * n + to + n * from]);
    all.insert(all.end(), sum.begin(), sum.end());
  }
  return all;
}

/// x after a block of all tokens on normed inputs.
inline Rows around_block(TinyModel& m, const std::string& streams, const std::string& norm, const Rows& x,
                         const std::function<Rows(const Rows&)>& block_of_rows) {
  Rows weights, inputs, y;
  for (const Vec& row : x) {
    weights.push_back(stream_weights_of(m, streams, row));
    inputs.push_back(normed(m, norm, joined_streams(row, weights.back())));
  }
  const Rows outputs = block_of_rows(inputs);
  for (size_t t = 0; t < x.size(); ++t) y.push_back(updated_streams(x[t], outputs[t], weights[t]));
  return y;
}

// --- attention

/// The entries of `ratio` tokens that x completes.
inline Rows entries_of(TinyModel& m, const std::string& name, const Rows& x, size_t ratio, int64_t dim) {
  const bool overlaps = ratio == 4;
  const int64_t n = overlaps ? 2 * dim : dim;
  const auto& bias = weight(m, name + "_ape.weight", {n, static_cast<int64_t>(ratio)});
  Rows values, gates;
  for (size_t t = 0; t < x.size(); ++t) {
    values.push_back(product(m, name + "_kv", x[t], n));
    Vec gate = product(m, name + "_gate", x[t], n);
    for (size_t c = 0; c < gate.size(); ++c) gate[c] += double{bias[t % ratio * static_cast<size_t>(n) + c]};
    gates.push_back(gate);
  }
  normed(m, name + "_norm.weight", Vec(static_cast<size_t>(dim), 1.0));  // the weight exists with few tokens, too
  Rows entries;
  for (size_t end = ratio; end <= x.size(); end += ratio) {
    const size_t first = overlaps && end >= 2 * ratio ? end - 2 * ratio : end - ratio;
    Vec entry(static_cast<size_t>(dim));
    for (size_t c = 0; c < entry.size(); ++c) {
      double total = 0, sum = 0;
      for (size_t t = first; t < end; ++t) {
        const size_t channel = overlaps && t >= end - ratio ? c + static_cast<size_t>(dim) : c;
        const double p = std::exp(gates[t][channel]);
        total += p;
        sum += p * values[t][channel];
      }
      entry[c] = sum / total;
    }
    entries.push_back(
        tail_rotated(normed(m, name + "_norm.weight", entry), static_cast<int64_t>(end - ratio), kEntryBase));
  }
  return entries;
}

/// Whether a token sees each of its n first entries: those of the best scores.
inline std::vector<bool> chosen_entries(TinyModel& m, const std::string& blk, const Vec& x, const Vec& q_latent,
                                        const Rows& keys, size_t n, size_t position) {
  const Vec q = product(m, blk + "indexer.attn_q_b", q_latent, kIndexHeads * kIndexDim);
  const Vec weights = product(m, blk + "indexer.proj", x, kIndexHeads);
  Vec scores(n, 0.0);
  for (size_t h = 0; h < weights.size(); ++h) {
    const Vec head = tail_rotated(part(q, static_cast<int64_t>(h) * kIndexDim, kIndexDim),
                                  static_cast<int64_t>(position), kEntryBase);
    for (size_t e = 0; e < n; ++e) scores[e] += weights[h] * std::max(dot(head, keys[e]), 0.0);
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](size_t e) { return scores[e]; });
  std::vector<bool> chosen(n);
  for (size_t i = 0; i < std::min(n, kChosen); ++i) chosen[order[i]] = true;
  return chosen;
}

inline Rows attended_to_entries(TinyModel& m, const std::string& blk, const Rows& x, size_t ratio, bool is_flat) {
  const double base = ratio == 0 ? kBase : kEntryBase;
  Rows keys, entries, index, y;
  for (size_t t = 0; t < x.size(); ++t)
    keys.push_back(tail_rotated(normed(m, blk + "attn_kv_a_norm.weight", product(m, blk + "attn_kv", x[t], kDim)),
                                static_cast<int64_t>(t), base));
  if (ratio != 0) entries = entries_of(m, blk + "attn_compressor", x, ratio, kDim);
  if (ratio == 4) index = entries_of(m, blk + "indexer_compressor", x, ratio, kIndexDim);
  const auto& sinks = weight(m, blk + "attn_sinks.weight", {kHeads});
  for (size_t t = 0; t < x.size(); ++t) {
    const auto position = static_cast<int64_t>(t);
    const Vec q_latent = normed(m, blk + "attn_q_a_norm.weight", product(m, blk + "attn_q_a", x[t], kLatentQ));
    const Vec q = product(m, blk + "attn_q_b", q_latent, kHeads * kDim);
    const size_t n_entries = ratio == 0 ? 0 : (t + 1) / ratio;
    std::vector<bool> sees(n_entries, true);
    if (ratio == 4) sees = chosen_entries(m, blk, x[t], q_latent, index, n_entries, t);
    Vec out;
    for (int64_t h = 0; h < kHeads; ++h) {
      const Vec head = tail_rotated(rms(m, "", part(q, h * kDim, kDim)), position, base);
      Vec sum(kDim, 0.0);
      double total = std::exp(double{sinks[static_cast<size_t>(h)]});
      const auto attend_to = [&](const Vec& key) {
        const double p = std::exp(dot(head, key) / std::sqrt(static_cast<double>(kDim)));
        sum = plus(sum, key, p);
        total += p;
      };
      for (size_t e = 0; e < n_entries; ++e)
        if (sees[e]) attend_to(entries[e]);
      for (size_t s = t + 1 > kWindow ? t + 1 - kWindow : 0; s <= t; ++s) attend_to(keys[s]);
      for (double& v : sum) v /= total;
      for (const double v : tail_rotated(sum, -position, base)) out.push_back(v);
    }
    const int64_t n_in = kHeads * kDim / kOutGroups;
    Vec latent;
    if (is_flat) weight(m, blk + "attn_output_a.weight", {n_in, kOutLatent * kOutGroups});
    for (int64_t g = 0; g < kOutGroups; ++g) {
      const Vec group = part(out, g * n_in, n_in);
      const Vec part_of_latent = is_flat ? part(mul(m, blk + "attn_output_a.weight", group), g * kOutLatent, kOutLatent)
                                         : product(m, blk + "attn_output_a", group, kOutLatent, kOutGroups, g);
      latent.insert(latent.end(), part_of_latent.begin(), part_of_latent.end());
    }
    y.push_back(product(m, blk + "attn_output_b", latent, kWidth));
  }
  return y;
}

// --- experts

inline Vec limited_block(TinyModel& m, const std::string& names, const Vec& x, int64_t n_matrices = 1,
                         int64_t matrix = 0) {
  const auto name = [&](const char* which) { return fmt::format(fmt::runtime(names), which); };
  Vec h = product(m, name("up"), x, kNFfExperts, n_matrices, matrix);
  const Vec gate = product(m, name("gate"), x, kNFfExperts, n_matrices, matrix);
  for (size_t i = 0; i < h.size(); ++i) h[i] = std::clamp(h[i], -kLimit4, kLimit4) * silu(std::min(gate[i], kLimit4));
  return product(m, name("down"), h, kWidth, n_matrices, matrix);
}

inline Vec limited_mixture(TinyModel& m, const std::string& blk, const Vec& x, const std::vector<int32_t>& given) {
  Vec p = product(m, blk + "ffn_gate_inp", x, kNExperts);
  for (double& v : p) v = std::sqrt(softplus(v));
  std::vector<size_t> ids(given.begin(), given.end());
  if (given.empty()) {
    const auto& bias = weight(m, blk + "exp_probs_b.bias", {kNExperts}, 0.5f);
    ids.resize(p.size());
    std::iota(ids.begin(), ids.end(), size_t{0});
    std::ranges::stable_sort(ids, std::greater{}, [&](size_t id) { return p[id] + double{bias[id]}; });
    ids.resize(kNUsed);
  }
  double total = 0;
  for (const size_t id : ids) total += p[id];
  Vec y = limited_block(m, blk + "ffn_{}_shexp", x);
  for (const size_t id : ids)
    y = plus(y, limited_block(m, blk + "ffn_{}_exps", x, kNExperts, static_cast<int64_t>(id)), 1.5 * p[id] / total);
  return y;
}

/// The experts of each token, [kNUsed, kVocab].
inline void add_expert_table(TinyModel& m, const std::string& name) {
  std::vector<int32_t>& ids = m.integers[name];
  for (int32_t token = 0; token < kVocab; ++token)
    for (int32_t i = 0; i < kNUsed; ++i)
      ids.push_back((7 * token + 3 * i + token / 5) % static_cast<int32_t>(kNExperts));
  m.shapes[name] = {kNUsed, kVocab};
}

/// The logits of tokens. Creates the weights that are missing.
inline Rows logits_by_formula(TinyModel& w, const Rules& rules, std::span<const int32_t> tokens) {
  Rows x;
  for (const Vec& row : embedded(w, tokens)) {
    Vec all;
    for (int64_t i = 0; i < kStreams; ++i) all.insert(all.end(), row.begin(), row.end());
    x.push_back(all);
  }
  for (size_t il = 0; il < rules.ratios.size(); ++il) {
    const std::string blk = block(static_cast<int64_t>(il));
    x = around_block(w, blk + "hc_attn", blk + "attn_norm.weight", x, [&](const Rows& n) {
      return attended_to_entries(w, blk, n, static_cast<size_t>(rules.ratios[il]), rules.is_flat);
    });
    const auto found = w.integers.find(blk + "ffn_gate_tid2eid.weight");
    const std::vector<int32_t> table = found == w.integers.end() ? std::vector<int32_t>{} : found->second;
    x = around_block(w, blk + "hc_ffn", blk + "ffn_norm.weight", x, [&](const Rows& n) {
      Rows y;
      for (size_t t = 0; t < n.size(); ++t) {
        std::vector<int32_t> given;
        if (!table.empty()) given.assign(table.begin() + kNUsed * tokens[t], table.begin() + kNUsed * (tokens[t] + 1));
        y.push_back(limited_mixture(w, blk, n[t], given));
      }
      return y;
    });
  }
  return output_logits(
      w, each(x, [&](const Vec& row) { return joined_streams(row, stream_weights_of(w, "output_hc", row, true)); }));
}

/// A model with random weights.
inline TinyModel random_model(const Rules& rules) {
  TinyModel m = with_keys(rules);
  for (int64_t il = 0; il < rules.n_hashed; ++il) add_expert_table(m, block(il) + "ffn_gate_tid2eid.weight");
  logits_by_formula(m, rules, std::vector<int32_t>{1, 2, 3});
  return m;
}

}  // namespace tessera::testing::deepseek4
