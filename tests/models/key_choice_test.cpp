// Models whose queries choose the keys that they attend to: DeepSeek V3.2, GLM 5 and MiniMax M3. Their logits are
// compared with the formulas in double precision, and have the same bits for any batching of the tokens.
#include "tests/support/formula_model.h"

namespace tessera {
namespace {

using namespace testing;
using namespace testing::tiny;

/// For each token, whether it attends to each token before it.
using Seen = std::vector<std::vector<bool>>;

/// The n units of highest score; equal scores: the first ones.
std::vector<bool> best_units(const Vec& scores, size_t n) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](size_t i) { return scores[i]; });
  std::vector<bool> chosen(scores.size());
  for (size_t i = 0; i < std::min(n, order.size()); ++i) chosen[order[i]] = true;
  return chosen;
}

double dot(const Vec& a, const Vec& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

// --- latent attention with an indexer

constexpr int64_t kHeads = 4, kRot = 4, kNope = 6, kLatent = 10, kLatentQ = 9, kValue = 5;
constexpr int64_t kIndexHeads = 3, kIndexDim = 8;

struct Indexer {
  size_t n_chosen = 5;
  bool is_adjacent = false;
  double eps = double{1e-6f};
};

TinyModel latent_model(const std::string& architecture, int64_t n_layers) {
  TinyModel m = tiny_model(architecture, n_layers, {.n = kHeads, .n_kv = 1, .dim = kLatent + kRot, .n_rot = kRot});
  set_expert_keys(m);
  m.key("leading_dense_block_count", n_layers);
  m.key("expert_gating_func", 2);
  m.key("expert_shared_count", 1);
  m.key("attention.kv_lora_rank", kLatent);
  m.key("attention.q_lora_rank", kLatentQ);
  m.key("attention.key_length_mla", kNope + kRot);
  m.key("attention.value_length_mla", kValue);
  m.key("attention.indexer.head_count", kIndexHeads);
  m.key("attention.indexer.key_length", kIndexDim);
  m.key("attention.indexer.top_k", 5);
  return m;
}

Vec rotated(Vec x, size_t position, bool is_adjacent) {
  rotate(x.data(), static_cast<int64_t>(position), {.n_rot = kRot, .is_adjacent = is_adjacent});
  return x;
}

Vec q_latent(TinyModel& w, const std::string& blk, const Vec& x) {
  return normed(w, blk + "attn_q_a_norm.weight", product(w, blk + "attn_q_a", x, kLatentQ));
}

Seen chosen_by_indexer(TinyModel& w, const std::string& blk, const Rows& x, const Indexer& rules) {
  Rows keys;
  Seen seen;
  for (size_t t = 0; t < x.size(); ++t) {
    const std::string norm = blk + "indexer.k_norm";
    weight(w, norm + ".weight", {kIndexDim}, 0.3f, 1.0f), weight(w, norm + ".bias", {kIndexDim});
    const Vec key = layer_norm(product(w, blk + "indexer.attn_k", x[t], kIndexDim), rules.eps);
    keys.push_back(
        rotated(plus(times(key, vector_of(w, norm + ".weight")), vector_of(w, norm + ".bias")), t, rules.is_adjacent));
    const Vec q = product(w, blk + "indexer.attn_q_b", q_latent(w, blk, x[t]), kIndexHeads * kIndexDim);
    const Vec weights = product(w, blk + "indexer.proj", x[t], kIndexHeads);
    Vec scores(t + 1, 0.0);
    for (size_t h = 0; h < weights.size(); ++h) {
      const Vec head = rotated(part(q, static_cast<int64_t>(h) * kIndexDim, kIndexDim), t, rules.is_adjacent);
      for (size_t s = 0; s <= t; ++s) scores[s] += weights[h] * std::max(dot(head, keys[s]), 0.0);
    }
    seen.push_back(best_units(scores, rules.n_chosen));
  }
  return seen;
}

Vec product_of_head(TinyModel& w, const std::string& name, const Vec& x, int64_t n_out, int64_t head) {
  return product(w, name, x, n_out, kHeads, head);
}

Rows latent_attended(TinyModel& w, const std::string& blk, const Rows& x, const Seen& seen) {
  Rows latents, k_rotated, y;
  for (size_t t = 0; t < x.size(); ++t) {
    const Vec kv = product(w, blk + "attn_kv_a_mqa", x[t], kLatent + kRot);
    latents.push_back(normed(w, blk + "attn_kv_a_norm.weight", part(kv, 0, kLatent)));
    k_rotated.push_back(rotated(part(kv, kLatent, kRot), t, true));
    const Vec q = product(w, blk + "attn_q_b", q_latent(w, blk, x[t]), kHeads * (kNope + kRot));
    Vec out;
    for (int64_t h = 0; h < kHeads; ++h) {
      const Vec head = part(q, h * (kNope + kRot), kNope + kRot), turned = rotated(part(head, kNope, kRot), t, true);
      const Vec absorbed = product_of_head(w, blk + "attn_k_b", part(head, 0, kNope), kLatent, h);
      Vec sum(kLatent, 0.0);
      double total = 0;
      for (size_t s = 0; s <= t; ++s) {
        if (!seen[t][s]) continue;
        const double p = std::exp((dot(absorbed, latents[s]) + dot(turned, k_rotated[s])) / std::sqrt(kNope + kRot));
        sum = plus(sum, latents[s], p);
        total += p;
      }
      for (double& v : sum) v /= total;
      for (const double v : product_of_head(w, blk + "attn_v_b", sum, kValue, h)) out.push_back(v);
    }
    y.push_back(product(w, blk + "attn_output", out, kWidth));
  }
  return y;
}

/// Layers that choose keys, or take the last choice.
void expect_latent_formula(TinyModel& m, const Indexer& rules, const std::vector<bool>& chooses) {
  expect_formula(m, [&](TinyModel& w, Rows x) {
    Seen seen;
    for (size_t il = 0; il < chooses.size(); ++il) {
      const std::string blk = block(static_cast<int64_t>(il));
      const Rows n = all_normed(w, blk + "attn_norm.weight", x);
      if (chooses[il]) seen = chosen_by_indexer(w, blk, n, rules);
      x = each_plus(x, latent_attended(w, blk, n, seen));
      x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x),
                            [&](const Vec& row) { return block_of(w, blk + "ffn_{}", row, kNFf); }));
    }
    return output_logits(w, x);
  });
}

TEST(KeyChoice, DeepSeek32AttendsToTheBestKeysOfItsIndexer) {
  TinyModel m = latent_model("deepseek32", 2);
  expect_latent_formula(m, {}, {true, true});
}

TEST(KeyChoice, GlmDsaSharesAChoiceAmongLayers) {
  TinyModel m = latent_model("glm-dsa", 4);
  m.keys("attention.indexer.types", {1, 0, 1, 0});
  expect_latent_formula(m, {.is_adjacent = true, .eps = 0}, {true, false, true, false});
}

// Only the context length tells that layers share choices: 1, 1, then 1, 0, 0, 0 again and again.
TEST(KeyChoice, GlmDsaOfALongContextHasAPattern) {
  TinyModel m = latent_model("glm-dsa", 7);
  m.key("context_length", 1 << 20);
  expect_latent_formula(m, {.is_adjacent = true, .eps = 0}, {true, true, true, false, false, false, true});
}

TEST(KeyChoice, GlmDsaOfAShortContextChoosesInEachLayer) {
  TinyModel m = latent_model("glm-dsa", 4);
  expect_latent_formula(m, {.is_adjacent = true, .eps = 0}, {true, true, true, true});
}

Result<std::shared_ptr<const Engine>> load_changed(const std::string& architecture,
                                                   const std::function<void(TinyModel&)>& change) {
  TinyModel m = latent_model(architecture, 1);
  change(m);
  return load_engine(m.write("choice.gguf"));
}

TEST(KeyChoice, RefusesKeysThatDoNotFit) {
  EXPECT_ERROR(load_changed("deepseek32", [](TinyModel& m) { m.key("attention.q_lora_rank", 0); }),
               "key 'deepseek32.attention.q_lora_rank' is missing or 0");
  EXPECT_ERROR(load_changed("deepseek32", [](TinyModel& m) { m.key("attention.indexer.key_length", 3); }),
               "key 'deepseek32.attention.indexer.key_length': 3, want at least rope.dimension_count, 4");
  EXPECT_ERROR(load_changed("deepseek32", [](TinyModel& m) { m.key("attention.indexer.top_k", 0); }),
               "key 'deepseek32.attention.indexer.top_k': 0");
  EXPECT_ERROR(load_changed("glm-dsa", [](TinyModel& m) { m.keys("attention.indexer.types", {0}); }),
               "layer 0 chooses no keys");
}

// --- MiniMax M3: each KV head chooses blocks of tokens

const Heads kMiniMaxHeads{.n_rot = 4, .norms = HeadNorms::before};
constexpr size_t kUnit = 3;

struct Blocks {
  int n_chosen, n_local;
};

TinyModel minimax_model(const Blocks& blocks, int64_t n_layers) {
  TinyModel m = tiny_model("minimax-m3", n_layers, kMiniMaxHeads);
  set_expert_keys(m);
  m.key("leading_dense_block_count", 1);
  m.key("expert_shared_count", 1);
  m.key("expert_gating_func", 2);
  m.key("expert_weights_norm", true);
  m.key("attention.indexer.head_count", 2);
  m.key("attention.indexer.key_length", kIndexDim);
  m.key("attention.indexer.top_k", blocks.n_chosen);
  m.key("attention.indexer.block_size", int64_t{kUnit});
  m.key("attention.indexer.local_blocks", blocks.n_local);
  return m;
}

double bounded_swiglu(double gate, double up) {
  const double g = std::min(gate, 7.0), u = std::clamp(up, -7.0, 7.0);
  return g * sigmoid(double{1.702f} * g) * (u + 1);
}

Vec bounded_block(TinyModel& w, const std::string& names, const Vec& x, int64_t n_ff, int64_t n_matrices = 1,
                  int64_t matrix = 0) {
  const auto name = [&](const char* which) { return fmt::format(fmt::runtime(names), which); };
  const Vec gate = product(w, name("gate"), x, n_ff, n_matrices, matrix),
            up = product(w, name("up"), x, n_ff, n_matrices, matrix);
  Vec h;
  for (size_t i = 0; i < gate.size(); ++i) h.push_back(bounded_swiglu(gate[i], up[i]));
  return product(w, name("down"), h, kWidth, n_matrices, matrix);
}

/// By KV head.
std::vector<Seen> chosen_blocks(TinyModel& w, const std::string& blk, const Rows& x, const Blocks& blocks) {
  std::vector<Seen> seen(2);
  Rows keys;
  for (size_t t = 0; t < x.size(); ++t) {
    const auto turned = [&](const char* which, Vec head) {
      return rotated(normed(w, blk + "indexer." + which + "_norm.weight", head), t, false);
    };
    keys.push_back(turned("k", product(w, blk + "indexer.k_proj", x[t], kIndexDim)));
    const Vec q = product(w, blk + "indexer.q_proj", x[t], 2 * kIndexDim);
    for (size_t kv = 0; kv < 2; ++kv) {
      const Vec head = turned("q", part(q, static_cast<int64_t>(kv) * kIndexDim, kIndexDim));
      Vec scores(t / kUnit + 1, -1e300);
      for (size_t s = 0; s <= t; ++s) scores[s / kUnit] = std::max(scores[s / kUnit], dot(head, keys[s]));
      for (size_t i = 0; i < std::min(static_cast<size_t>(blocks.n_local), scores.size()); ++i)
        scores[t / kUnit - i] = 1e300;
      seen[kv].push_back(best_units(scores, static_cast<size_t>(blocks.n_chosen)));
    }
  }
  return seen;
}

Vec minimax_mixture(TinyModel& w, const std::string& blk, const Vec& row) {
  Vec p = product(w, blk + "ffn_gate_inp", row, kNExperts);
  for (double& v : p) v = sigmoid(v);
  // exp_probs_b is required, so it takes part in the choice.
  Vec chosen_by = p;
  const auto& bias = weight(w, blk + "exp_probs_b.bias", {kNExperts}, 0.5f);
  for (size_t i = 0; i < p.size(); ++i) chosen_by[i] += bias[i];
  const std::vector<bool> chosen = best_units(chosen_by, kNUsed);
  double total = 0;
  for (size_t id = 0; id < p.size(); ++id) total += chosen[id] ? p[id] : 0;
  Vec y = bounded_block(w, blk + "ffn_{}_shexp", row, kNFfExperts);
  for (size_t id = 0; id < p.size(); ++id)
    if (chosen[id])
      y = plus(y, bounded_block(w, blk + "ffn_{}_exps", row, kNFfExperts, kNExperts, static_cast<int64_t>(id)),
               p[id] / total);
  return y;
}

// The first layer is dense and attends to all keys.
void expect_minimax_formula(const Blocks& blocks) {
  TinyModel m = minimax_model(blocks, 3);
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t il = 0; il < 3; ++il) {
      const std::string blk = block(il);
      const Rows n = all_normed(w, blk + "attn_norm.weight", x);
      Heads heads = kMiniMaxHeads;
      std::vector<Seen> seen;
      if (il > 0) {
        seen = chosen_blocks(w, blk, n, blocks);
        heads.sees = [&](size_t t, size_t kv, size_t s) { return seen[kv][t][s / kUnit]; };
      }
      x = each_plus(x, attended(w, blk, n, heads));
      x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x), [&](const Vec& row) {
                      return il == 0 ? bounded_block(w, blk + "ffn_{}", row, kNFf) : minimax_mixture(w, blk, row);
                    }));
    }
    return output_logits(w, x);
  });
}

TEST(KeyChoice, MiniMaxM3ChoosesBlocksForEachKvHead) { expect_minimax_formula({.n_chosen = 3, .n_local = 1}); }
TEST(KeyChoice, MiniMaxM3MayHaveSeveralLocalBlocks) { expect_minimax_formula({.n_chosen = 4, .n_local = 3}); }
TEST(KeyChoice, MiniMaxM3MayHaveNoLocalBlocks) { expect_minimax_formula({.n_chosen = 2, .n_local = 0}); }
// 43 blocks of 3 tokens are more than the context of 128.
TEST(KeyChoice, MiniMaxM3ChoosesAllBlocksOfAShortContext) { expect_minimax_formula({.n_chosen = 43, .n_local = 1}); }

TEST(KeyChoice, MiniMaxM3RefusesAnotherNumberOfHeads) {
  TinyModel m = minimax_model({.n_chosen = 3, .n_local = 1}, 2);
  m.key("attention.indexer.head_count", 3);
  EXPECT_ERROR(load_engine(m.write("choice.gguf")), "layer 1 has 2 KV heads, and 3 heads choose keys, want as many");
}

}  // namespace
}  // namespace tessera
