// Transformers with a part that no other has: an activation, a mask of logits, passes through the same layers, a second
// mixture of experts. Their logits are compared with the formulas in double precision, and have the same bits for any
// batching of the tokens.
#include "tests/support/formula_model.h"

namespace tessera {
namespace {

using namespace testing;
using namespace testing::tiny;

constexpr double kAlphaP = 0.25, kBeta = 0.5, kXieluEps = -0x1p-20;
constexpr std::array<double, 2> kAlphaN = {0.75, -0.5};

template <int kLayer>
double xielu(double x) {
  const double square = softplus(kAlphaP), exponential = kBeta + softplus(kAlphaN[kLayer]);
  return kBeta * x + (x > 0 ? square * x * x : exponential * (std::expm1(std::min(x, kXieluEps)) - x));
}

TinyModel apertus_model(const Heads& heads) {
  TinyModel m = tiny_model("apertus", 2, heads);
  m.builder.set("xielu.alpha_p", static_cast<float>(kAlphaP));
  m.builder.set_array("xielu.alpha_n", std::vector<float>(kAlphaN.begin(), kAlphaN.end()));
  m.builder.set("xielu.beta", static_cast<float>(kBeta));
  m.builder.set("xielu.eps", static_cast<float>(kXieluEps));
  // A bias that files may have and that has no effect.
  m.add("blk.0.attn_q_norm.bias", {heads.dim});
  return m;
}

TEST(FormulaModels, Apertus) {
  const Heads heads{.norms = HeadNorms::before};
  TinyModel m = apertus_model(heads);
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t il = 0; il < 2; ++il) {
      const std::string blk = block(il);
      x = each_plus(x, attended(w, blk, all_normed(w, blk + "attn_norm.weight", x), heads));
      x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x), [&](const Vec& row) {
                      return block_of(w, blk + "ffn_{}", row, kNFf, il == 0 ? xielu<0> : xielu<1>, false);
                    }));
    }
    return output_logits(w, x);
  });
}

TEST(FormulaModels, ApertusRefusesNumbersOutOfRange) {
  const auto load_with = [](const char* key, float value) {
    TinyModel m = apertus_model({});
    m.builder.set(key, value);
    return load_engine(m.write("apertus.gguf"));
  };
  EXPECT_ERROR(load_with("xielu.eps", 0.5f), "key 'xielu.eps': 0.5 in layer 0, want at most 0");
  EXPECT_ERROR(load_with("xielu.alpha_p", 1e5f), "key 'xielu.alpha_p': 100000 in layer 0, want -10000 to 10000");
  EXPECT_ERROR(load_with("xielu.beta", std::nanf("")), "key 'xielu.beta': nan in layer 0");
}

// Norms of heads are layer norms with a row of weights per head.
Rows chameleon_attention(TinyModel& w, const std::string& blk, const Rows& x, const Heads& a) {
  std::vector<Rows> qs, ks, vs;
  for (size_t t = 0; t < x.size(); ++t) {
    const auto heads_of = [&](const char* name, int64_t n, bool is_rotated) {
      const Vec all = product(w, blk + "attn_" + name, x[t], n * a.dim);
      Rows heads;
      for (int64_t h = 0; h < n; ++h) {
        Vec head = part(all, h * a.dim, a.dim);
        if (is_rotated) {
          const std::string norm = blk + "attn_" + name + "_norm";
          const auto &scale = weight(w, norm + ".weight", {a.dim, n}, 0.3f, 1.0f),
                     &bias = weight(w, norm + ".bias", {a.dim, n}, 0.3f);
          head = layer_norm(head, double{1e-5f});
          for (int64_t i = 0; i < a.dim; ++i) {
            const auto at = static_cast<size_t>(h * a.dim + i);
            double& value = head[static_cast<size_t>(i)];
            value = value * scale[at] + bias[at];
          }
          rotate_head(head, t, a);
        }
        heads.push_back(head);
      }
      return heads;
    };
    qs.push_back(heads_of("q", a.n, true));
    ks.push_back(heads_of("k", a.n_kv, true));
    vs.push_back(heads_of("v", a.n_kv, false));
  }
  return each(mixed(w, blk, qs, ks, vs, a),
              [&](const Vec& row) { return product(w, blk + "attn_output", row, kWidth); });
}

constexpr int64_t kFirstImageToken = 4;

void check_chameleon(bool has_post_norms) {
  const Heads heads{.is_adjacent = true};
  TinyModel m = tiny_model("chameleon", 2, heads);
  m.key("swin_norm", has_post_norms);
  expect_formula(
      m,
      [&](TinyModel& w, Rows x) {
        for (int64_t il = 0; il < 2; ++il) {
          const std::string blk = block(il);
          const auto around = [&](const std::string& name, const std::function<Rows(const Rows&)>& f) {
            return has_post_norms ? all_normed(w, blk + name, f(x)) : f(all_normed(w, blk + name, x));
          };
          x = each_plus(
              x, around("attn_norm.weight", [&](const Rows& y) { return chameleon_attention(w, blk, y, heads); }));
          x = each_plus(x, around("ffn_norm.weight", [&](const Rows& y) {
                          return each(y, [&](const Vec& row) { return block_of(w, blk + "ffn_{}", row, kNFf); });
                        }));
        }
        return output_logits(w, x);
      },
      kFirstImageToken);
}

TEST(FormulaModels, Chameleon) {
  check_chameleon(false);
  check_chameleon(true);
}

// Tokens 4 to 8195 are those of images.
TEST(FormulaModels, ChameleonNeverChoosesImages) {
  constexpr int64_t kTexts = 8250, kEndOfImages = 8196;
  for (const int64_t n_vocab : {int64_t{3}, int64_t{40}, kTexts}) {
    TinyModel m("chameleon", 1, 1, n_vocab);
    m.key("attention.head_count", 2);
    m.key("feed_forward_length", kNFf);
    m.key("attention.key_length", 8);
    m.key("attention.value_length", 8);
    for (const char* name : {"blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"}) m.norm(name, {kWidth});
    add_attention(m, "blk.0.", {.n_heads_kv = 2});
    for (const char* name : {"attn_q_norm", "attn_k_norm"}) m.norm(std::string("blk.0.") + name, {8, 2});
    add_ffn(m, "blk.0.", "", kNFf);
    ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(m.write("images.gguf")));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 8}));
    ASSERT_OK_AND_ASSIGN(const auto logits, logits_of(*session, std::vector<int32_t>{1}));
    ASSERT_EQ(logits.size(), static_cast<size_t>(n_vocab));
    for (int64_t i = 0; i < n_vocab; ++i) {
      const bool is_image = i >= kFirstImageToken && i < kEndOfImages;
      EXPECT_EQ(logits[static_cast<size_t>(i)] == std::numeric_limits<float>::lowest(), is_image) << i;
    }
  }
}

void check_loops(bool skips_norm) {
  const Heads heads{.is_adjacent = true};
  TinyModel m = tiny_model("nanbeige", 2, heads);
  m.key("num_loops", 3);
  m.key("skip_loop_final_norm", skips_norm);
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t pass = 0; pass < 3; ++pass) {
      if (pass > 0 && !skips_norm) x = all_normed(w, "output_norm.weight", x);
      for (int64_t il = 0; il < 2; ++il) {
        const std::string blk = block(il);
        x = each_plus(x, attended(w, blk, all_normed(w, blk + "attn_norm.weight", x), heads));
        x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x),
                              [&](const Vec& row) { return block_of(w, blk + "ffn_{}", row, kNFf); }));
      }
    }
    return output_logits(w, x);
  });
}

TEST(FormulaModels, NanbeigeRepeatsItsLayers) {
  check_loops(false);
  check_loops(true);
}

TEST(FormulaModels, NanbeigeHasACacheForEachPass) {
  const auto load_with = [](int n_loops) {
    TinyModel m = tiny_model("nanbeige", 2, {});
    m.key("num_loops", n_loops);
    for (int64_t il = 0; il < 2; ++il) {
      m.norm(block(il) + "attn_norm", {kWidth});
      m.norm(block(il) + "ffn_norm", {kWidth});
      add_attention(m, block(il), {.n_heads = 4, .n_heads_kv = 2});
      add_ffn(m, block(il), "", kNFf);
    }
    m.norm("output_norm", {kWidth});
    return load_engine(m.write("loops.gguf"));
  };
  ASSERT_OK_AND_ASSIGN(const auto engine, load_with(3));
  const ModelInfo& info = engine->model().info();
  EXPECT_EQ(info.n_layers, 2);
  EXPECT_EQ(info.kv_layers.size(), 6u);
  EXPECT_EQ(info.kv_blocks, (std::vector<int64_t>{0, 1, 0, 1, 0, 1}));
  EXPECT_ERROR(load_with(300), "key 'nanbeige.num_loops': 300, want 1 to 256");
}

constexpr int64_t kGroup = 2, kNFfGroup = 6;  // experts that share a small one, and its columns
constexpr double kGroupScale = 0.75;

// The second mixture takes the output of the first, and its weights are the scores of the experts whose numbers are
// those of the groups.
Vec grove_mixture(TinyModel& w, const std::string& blk, const Vec& row) {
  const Vec y = mixture(w, blk, row, row, {});
  const Vec scores = product(w, blk + "ffn_gate_inp", row, kNExperts);
  std::vector<size_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), size_t{0});
  std::ranges::stable_sort(ids, std::greater{}, [&](size_t id) { return scores[id]; });
  double total = 0;
  Vec sum(row.size(), 0.0);
  for (size_t i = 0; i < kNUsed; ++i) {
    const size_t group = ids[i] / kGroup;
    const double p = std::exp(scores[group]);
    total += p;
    sum = plus(
        sum,
        block_of(w, blk + "ffn_{}_chexps", y, kNFfGroup, silu, true, kNExperts / kGroup, static_cast<int64_t>(group)),
        p);
  }
  return plus(y, sum, kGroupScale / total);
}

TinyModel grove_model(const Heads& heads) {
  TinyModel m = tiny_model("grovemoe", 2, heads);
  set_expert_keys(m);
  m.key("expert_group_scale", static_cast<float>(kGroupScale));
  m.key("experts_per_group", kGroup);
  m.key("expert_chunk_feed_forward_length", kNFfGroup);
  return m;
}

TEST(FormulaModels, GroveMoe) {
  const Heads heads{.norms = HeadNorms::before};
  TinyModel m = grove_model(heads);
  expect_formula(m, [&](TinyModel& w, Rows x) {
    for (int64_t il = 0; il < 2; ++il) {
      const std::string blk = block(il);
      x = each_plus(x, attended(w, blk, all_normed(w, blk + "attn_norm.weight", x), heads));
      x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x),
                            [&](const Vec& row) { return grove_mixture(w, blk, row); }));
    }
    return output_logits(w, x);
  });
}

TEST(FormulaModels, GroveMoeRefusesGroupsThatDoNotDivideTheExperts) {
  TinyModel m = grove_model({});
  m.key("experts_per_group", 3);
  EXPECT_ERROR(load_engine(m.write("grove.gguf")), "4 experts in groups of 3: want a multiple");
}

// With windows, every fourth layer has neither a window nor rope.
TEST(FormulaModels, SmallThinkerWithoutWindowsRotatesAllLayers) {
  TinyModel m = tiny_model("smallthinker", 2, {});
  set_expert_keys(m);
  m.key("expert_gating_func", 2);
  m.key("attention.sliding_window", 0);
  expect_formula(m, [](TinyModel& w, Rows x) {
    const auto relu = [](double value) { return std::max(value, 0.0); };
    for (int64_t il = 0; il < 2; ++il) {
      const std::string blk = block(il);
      const Rows routed_by = x;
      x = each_plus(x, attended(w, blk, all_normed(w, blk + "attn_norm.weight", x), {}));
      const Rows normed_x = all_normed(w, blk + "ffn_norm.weight", x);
      for (size_t t = 0; t < x.size(); ++t)
        x[t] = plus(x[t], mixture(w, blk, routed_by[t], normed_x[t], {.is_sigmoid = true, .act = relu}));
    }
    return output_logits(w, x);
  });
}

TEST(FormulaModels, FilesMustStateTheWindowsOfSomeArchitectures) {
  for (const char* name :
       {"cohere2", "cohere2moe", "exaone-moe", "gemma-embedding", "gemma3n", "gpt-oss", "mimo2", "step35"}) {
    TinyModel m = tiny_model(name, 2, {});
    m.key("logit_scale", 1.0f);
    const std::string key = std::string(name) + ".attention.sliding_window";
    EXPECT_ERROR(load_engine(m.write("window.gguf")), "key '" + key + "': missing");
    TinyModel zero = tiny_model(name, 2, {});
    zero.key("logit_scale", 1.0f);
    zero.key("attention.sliding_window", 0);
    EXPECT_ERROR(load_engine(zero.write("window.gguf")), "key '" + key + "': 0, want 1 to");
  }
}

}  // namespace
}  // namespace tessera
