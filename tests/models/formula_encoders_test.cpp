// Encoders as tiny files of random weights. The embeddings of all tokens are compared with the formulas of the
// architecture in double precision.
#include "tessera/engine/embedding.h"
#include "tests/support/formula_model.h"

namespace tessera {
namespace {

using namespace testing;
using namespace testing::tiny;

// Sums of f32 products of a few layers: squares of relative errors of about 1e-7.
constexpr double kEncoderBound = 1e-11;

/// Encoders read several tokens at once, with another text beside them.
void expect_embeddings(TinyModel& m, const Formula& formula) {
  formula(m, embedded(m, std::vector<int32_t>{1, 2, 3}));
  const std::string path = m.write("encoder.gguf");
  expect_documented(path, "formulas");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 128,
                                                                    .n_sequences = 2,
                                                                    .n_outputs = 2 * kTokens,
                                                                    .embeddings = true,
                                                                    .type_k = DType::f32,
                                                                    .type_v = DType::f32}));
  const auto tokens = token_ids(*engine, kTokens), other = token_ids(*engine, kTokens, 7);
  Batch batch;
  for (int32_t p = 0; p < kTokens; ++p)
    batch.add({.token = other[static_cast<size_t>(p)], .position = p, .sequence = 0, .wants_logits = true});
  for (int32_t p = 0; p < kTokens; ++p)
    batch.add({.token = tokens[static_cast<size_t>(p)], .position = p, .sequence = 1, .wants_logits = true});
  ASSERT_OK(session->decode(batch));
  const Rows expected = formula(m, embedded(m, tokens));
  double error = 0, power = 0;
  for (size_t t = 0; t < expected.size(); ++t) {
    const std::span<const float> row = session->embedding(kTokens + static_cast<int64_t>(t));
    ASSERT_EQ(row.size(), expected[t].size());
    for (size_t i = 0; i < row.size(); ++i) {
      error += (row[i] - expected[t][i]) * (row[i] - expected[t][i]);
      power += expected[t][i] * expected[t][i];
    }
  }
  EXPECT_LE(error / power, kEncoderBound);
}

const Heads kAll{.n_kv = 4, .is_causal = false};

Rows layer_normed(TinyModel& m, const std::string& name, const Rows& rows, bool has_bias = true) {
  return each(rows, [&](const Vec& row) {
    const auto n = static_cast<int64_t>(row.size());
    weight(m, name + ".weight", {n}, 0.3f, 1.0f);
    if (has_bias) weight(m, name + ".bias", {n}, 0.3f);
    const Vec scaled = times(layer_norm(row, double{1e-5f}), vector_of(m, name + ".weight"));
    return has_bias ? plus(scaled, vector_of(m, name + ".bias")) : scaled;
  });
}

Vec product_and_bias(TinyModel& m, const std::string& name, const Vec& row, int64_t n_out) {
  const Vec y = product(m, name, row, n_out);
  weight(m, name + ".bias", {n_out}, 0.3f);
  return plus(y, vector_of(m, name + ".bias"));
}

TinyModel bert_model(const std::string& architecture, const Heads& heads) {
  TinyModel m = tiny_model(architecture, 3, heads);
  m.builder.set("tokenizer.ggml.token_type_count", uint32_t{2});
  return m;
}

Rows bert_input(TinyModel& m, const Rows& x) {
  const auto& types = weight(m, "token_types.weight", {kWidth, 2});
  return layer_normed(m, "token_embd_norm",
                      each(x, [&](const Vec& row) { return plus(row, Vec(types.begin(), types.begin() + kWidth)); }));
}

Vec gelu_block(TinyModel& m, const std::string& blk, const Vec& row) {
  Vec h = product_and_bias(m, blk + "ffn_up", row, kNFf);
  for (double& v : h) v = gelu(v);
  return product_and_bias(m, blk + "ffn_down", h, kWidth);
}

TEST(FormulaEncoders, JinaBertV3HasRope) {
  TinyModel m = bert_model("jina-bert-v3", kAll);
  expect_embeddings(m, [&](TinyModel& w, Rows x) {
    x = bert_input(w, x);
    for (int64_t il = 0; il < 3; ++il) {
      const std::string blk = block(il);
      x = layer_normed(w, blk + "attn_output_norm", each_plus(x, attended(w, blk, x, kAll, true)));
      const Rows f = each(x, [&](const Vec& row) { return gelu_block(w, blk, row); });
      x = layer_normed(w, blk + "layer_output_norm", each_plus(x, f));
    }
    return x;
  });
}

TEST(FormulaEncoders, NomicBertMoeHasExpertsInEverySecondLayer) {
  TinyModel m = bert_model("nomic-bert-moe", kAll);
  m.key("expert_count", kNExperts);
  m.key("expert_used_count", kNUsed);
  m.key("feed_forward_length", kNFf);
  m.key("moe_every_n_layers", 2);
  expect_embeddings(m, [&](TinyModel& w, Rows x) {
    x = bert_input(w, x);
    for (int64_t il = 0; il < 3; ++il) {
      const std::string blk = block(il);
      x = layer_normed(w, blk + "attn_output_norm", each_plus(x, attended(w, blk, x, kAll)));
      const Rows f = each(x, [&](const Vec& row) {
        if (il != 1) return gelu_block(w, blk, row);
        return mixture(w, blk, row, row, {.normalize = false, .has_gate = false, .act = gelu, .n_ff = kNFf});
      });
      x = layer_normed(w, blk + "layer_output_norm", each_plus(x, f));
    }
    return x;
  });
}

void check_jina_v2(bool is_fused, bool has_norms) {
  Heads heads = kAll;
  heads.n_rot = 0, heads.max_alibi = 8.0;
  TinyModel m = bert_model("jina-bert-v2", heads);
  expect_embeddings(m, [&](TinyModel& w, Rows x) {
    x = bert_input(w, x);
    for (int64_t il = 0; il < 3; ++il) {
      const std::string blk = block(il);
      const int64_t n = heads.n * heads.dim;
      std::vector<Rows> q, k, v;
      const auto projected = [&](const char* name, bool is_normed) {
        Rows rows = each(x, [&](const Vec& row) { return product(w, blk + name, row, n); });
        if (is_normed) rows = layer_normed(w, blk + name + "_norm", rows);
        std::vector<Rows> split;
        for (const Vec& row : rows) {
          split.emplace_back();
          for (int64_t h = 0; h < heads.n; ++h) split.back().push_back(part(row, h * heads.dim, heads.dim));
        }
        return split;
      };
      const Rows y = each(mixed(w, blk, projected("attn_q", has_norms), projected("attn_k", has_norms),
                                projected("attn_v", false), heads),
                          [&](const Vec& row) { return product(w, blk + "attn_output", row, kWidth); });
      const Rows first = layer_normed(w, blk + "attn_output_norm", each_plus(x, y));
      x = has_norms ? layer_normed(w, blk + "attn_norm_2", each_plus(x, first)) : first;
      const Rows f = each(x, [&](const Vec& row) {
        if (!is_fused) return block_of(w, blk + "ffn_{}", row, kNFf, gelu);
        Vec h = product(w, blk + "ffn_up", row, 2 * kNFf), gate = part(h, 0, kNFf);
        for (double& value : gate) value = gelu(value);
        return product(w, blk + "ffn_down", times(gate, part(h, kNFf, kNFf)), kWidth);
      });
      x = layer_normed(w, blk + "layer_output_norm", each_plus(x, f));
    }
    return x;
  });
}

TEST(FormulaEncoders, JinaBertV2HasAlibiAndOptionalNorms) {
  check_jina_v2(false, false);
  check_jina_v2(true, true);
}

TEST(FormulaEncoders, NeoBertAndEuroBertHaveNormsBeforeBlocks) {
  for (const bool is_neo : {true, false}) {
    Heads heads = kAll;
    heads.n_kv = 2, heads.is_adjacent = is_neo;
    TinyModel m = tiny_model(is_neo ? "neo-bert" : "eurobert", 2, heads);
    expect_embeddings(m, [&](TinyModel& w, Rows x) {
      for (int64_t il = 0; il < 2; ++il) {
        const std::string blk = block(il);
        x = each_plus(x, attended(w, blk, all_normed(w, blk + "attn_norm.weight", x), heads, is_neo));
        x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x), [&](const Vec& row) {
                        if (!is_neo) return block_of(w, blk + "ffn_{}", row, kNFf);
                        Vec h = product(w, blk + "ffn_up", row, 2 * kNFf), gate = part(h, 0, kNFf);
                        for (double& v : gate) v = silu(v);
                        return product(w, blk + "ffn_down", times(gate, part(h, kNFf, kNFf)), kWidth);
                      }));
      }
      return all_normed(w, is_neo ? "enc.output_norm.weight" : "output_norm.weight", x);
    });
  }
}

// Pooled embeddings pass through dense_2 and dense_3; embeddings of tokens do not.
void expect_projected(TinyModel& m, const Formula& formula) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(m.write("dense.gguf")));
  const std::vector<std::vector<int32_t>> texts = {{1, 2, 3, 4, 5}, {6, 7}};
  for (const auto pooling : {nn::Pooling::mean, nn::Pooling::last, nn::Pooling::none}) {
    ASSERT_OK_AND_ASSIGN(const SessionOptions options,
                         embedding_session(*engine, texts, pooling, {.type_k = DType::f32, .type_v = DType::f32}));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options));
    ASSERT_OK(embed(
        *session, texts, pooling,
        [&](size_t i, std::span<const float> values) -> Result<> {
          Rows rows = formula(m, embedded(m, texts[i]));
          const Rows all = rows;
          if (pooling == nn::Pooling::last) rows = {all.back()};
          if (pooling == nn::Pooling::mean) {
            rows = {Vec(kWidth, 0.0)};
            for (const Vec& row : all) rows[0] = plus(rows[0], row, 1.0 / static_cast<double>(all.size()));
          }
          if (pooling != nn::Pooling::none) rows[0] = product(m, "dense_3", product(m, "dense_2", rows[0], 8), kWidth);
          EXPECT_EQ(values.size(), rows.size() * kWidth);
          for (size_t at = 0; at < values.size(); ++at)
            EXPECT_NEAR(values[at], rows[at / kWidth][at % kWidth], 2e-5) << i << " at " << at;  // sums of f32 products
          return {};
        },
        nullptr));
  }
  EXPECT_ERROR(embedding_pooling(*engine, nn::Pooling::rank), "the model has no rank head");
}

TEST(FormulaEncoders, GemmaEmbeddingHasSymmetricWindows) {
  Heads full{.base = 700.0, .norms = HeadNorms::before, .is_causal = false};
  Heads windowed = full;
  windowed.base = 10000.0, windowed.window = 4;  // keys up to 3 away
  TinyModel m = tiny_model("gemma-embedding", 7, full);
  m.key("attention.sliding_window", 6);
  m.key("rope.freq_base", 700.0f);
  const Formula formula = [&](TinyModel& w, Rows x) {
    for (Vec& row : x)
      for (double& v : row) v *= std::sqrt(static_cast<double>(kWidth));
    for (int64_t il = 0; il < 7; ++il) {
      const std::string blk = block(il);
      const Rows y = attended(w, blk, all_normed(w, blk + "attn_norm.weight", x), il == 5 ? full : windowed);
      x = each_plus(x, all_normed(w, blk + "post_attention_norm.weight", y));
      const Rows f = each(all_normed(w, blk + "ffn_norm.weight", x),
                          [&](const Vec& row) { return block_of(w, blk + "ffn_{}", row, kNFf, gelu); });
      x = each_plus(x, all_normed(w, blk + "post_ffw_norm.weight", f));
    }
    return all_normed(w, "output_norm.weight", x);
  };
  TinyModel with_dense = m;
  formula(with_dense, embedded(m, std::vector<int32_t>{1, 2, 3}));
  weight(with_dense, "dense_2.weight", {kWidth, 8});
  TinyModel without_second = with_dense;
  without_second.key("dense_2_feat_out", 8);
  weight(with_dense, "dense_3.weight", {8, kWidth});
  TinyModel without_width = with_dense;
  with_dense.key("dense_2_feat_out", 8);
  expect_embeddings(m, formula);
  expect_projected(with_dense, formula);
  EXPECT_ERROR(load_engine(without_second.write("second.gguf")), "tensor dense_3.weight [8, 24] is missing");
  EXPECT_ERROR(load_engine(without_width.write("width.gguf")), "dense_2.weight");
}

TEST(FormulaEncoders, LlamaEmbedIsCausalUnlessTheFileSaysOtherwise) {
  for (const bool is_causal : {true, false}) {
    const Heads heads{.is_adjacent = true, .is_causal = is_causal};
    TinyModel m = tiny_model("llama-embed", 2, heads);
    if (!is_causal) m.key("attention.causal", false);
    expect_embeddings(m, [&](TinyModel& w, Rows x) {
      for (int64_t il = 0; il < 2; ++il) {
        const std::string blk = block(il);
        x = each_plus(x, attended(w, blk, all_normed(w, blk + "attn_norm.weight", x), heads));
        x = each_plus(x, each(all_normed(w, blk + "ffn_norm.weight", x),
                              [&](const Vec& row) { return block_of(w, blk + "ffn_{}", row, kNFf); }));
      }
      return all_normed(w, "output_norm.weight", x);
    });
  }
}

}  // namespace
}  // namespace tessera
