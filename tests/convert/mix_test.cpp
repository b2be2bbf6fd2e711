// The type of each tensor in a mix. Expectations were written by hand from the rules of llama-quantize, for models of
// every kind that a rule distinguishes.
#include "tessera/convert/mix.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using enum DType;

// A model's tensors in the order of an output file, with the names kept alive.
struct SmallModel {
  MixModel model;
  std::vector<std::string> names;
  std::vector<MixTensor> tensors;

  void add(const std::string& name, Shape shape, DType dtype = f16) {
    names.push_back(name);
    tensors.push_back({"", dtype, shape});
  }
  void sort() {
    std::vector<size_t> order(names.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](size_t i) { return std::pair(layer_of(names[i]), names[i]); });
    std::vector<std::string> sorted_names;
    std::vector<MixTensor> sorted;
    for (const size_t i : order) {
      sorted_names.push_back(names[i]);
      sorted.push_back(tensors[i]);
    }
    names = sorted_names;
    tensors = sorted;
    for (size_t i = 0; i < names.size(); ++i) tensors[i].name = names[i];
  }
};

struct Kind {
  std::string_view arch = "llama";
  int64_t n_layers = 16;
  int64_t n_heads = 32, n_heads_kv = 32;
  int64_t n_experts = 0;
  bool tied = false;
  bool fused_qkv = false;
  int64_t width = 512;
};

SmallModel make(const Kind& kind) {
  SmallModel m;
  m.model = {.arch = kind.arch,
             .n_layers = kind.n_layers,
             .n_heads = kind.n_heads,
             .n_heads_kv = kind.n_heads_kv,
             .n_experts = kind.n_experts};
  const int64_t n = kind.width;
  m.add("token_embd.weight", {n, 1000});
  if (!kind.tied) m.add("output.weight", {n, 1000});
  m.add("output_norm.weight", {n}, f32);
  for (int64_t i = 0; i < kind.n_layers; ++i) {
    const auto name = [&](const char* part) { return fmt::format("blk.{}.{}", i, part); };
    m.add(name("attn_norm.weight"), {n}, f32);
    if (kind.fused_qkv) {
      m.add(name("attn_qkv.weight"), {n, 3 * n});
    } else {
      m.add(name("attn_q.weight"), {n, n});
      m.add(name("attn_k.weight"), {n, n});
      m.add(name("attn_v.weight"), {n, n});
    }
    m.add(name("attn_output.weight"), {n, n});
    if (kind.n_experts > 0) {
      m.add(name("ffn_gate_inp.weight"), {n, kind.n_experts}, f32);
      for (const char* part : {"ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"})
        m.add(name(part), {n, n, kind.n_experts});
    } else {
      for (const char* part : {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"}) m.add(name(part), {n, n});
    }
  }
  m.sort();
  return m;
}

// "attn_v: q6_K*2 q4_K*3": the types of a part over the layers, in order.
class Chosen {
 public:
  Chosen(const SmallModel& model, FileType type, bool has_imatrix = false)
      : Chosen(model, MixOptions{.file_type = type, .has_imatrix = has_imatrix}) {}
  Chosen(const SmallModel& model, const MixOptions& options) {
    const auto choices = choose_types(model.tensors, model.model, options);
    for (size_t i = 0; i < choices.size(); ++i) by_name_.emplace(model.names[i], choices[i]);
    n_layers_ = model.model.n_layers;
  }

  DType of(const std::string& name) const { return by_name_.at(name).dtype; }
  MixReason why(const std::string& name) const { return by_name_.at(name).reason; }

  // Returns the type of a part such as "attn_v" in all layers, or "mixed".
  std::string all(const std::string& part) const {
    const std::string first(info(layer(0, part)).name);
    for (int64_t i = 1; i < n_layers_; ++i)
      if (info(layer(i, part)).name != first) return "mixed";
    return first;
  }

  // Returns the layers in which a part has a type.
  std::set<int64_t> layers_with(const std::string& part, DType type) const {
    std::set<int64_t> layers;
    for (int64_t i = 0; i < n_layers_; ++i)
      if (layer(i, part) == type) layers.insert(i);
    return layers;
  }

 private:
  DType layer(int64_t i, const std::string& part) const { return of(fmt::format("blk.{}.{}.weight", i, part)); }

  std::map<std::string, MixChoice> by_name_;
  int64_t n_layers_ = 0;
};

using Layers = std::set<int64_t>;

// of 16: i < 2, i >= 14, and every third from 4 on
const Layers kMoreOf16 = {0, 1, 4, 7, 10, 13, 14, 15};

Layers all_but(const Layers& some, int64_t n) {
  Layers rest;
  for (int64_t i = 0; i < n; ++i)
    if (!some.contains(i)) rest.insert(i);
  return rest;
}

TEST(Mix, Q4KMRaisesValueAndDownWhereMoreBitsHelp) {
  const Chosen chosen(make({}), FileType::q4_k_m);
  EXPECT_EQ(chosen.layers_with("attn_v", q6_k), kMoreOf16);
  EXPECT_EQ(chosen.layers_with("attn_v", q4_k), all_but(kMoreOf16, 16));
  EXPECT_EQ(chosen.layers_with("ffn_down", q6_k), kMoreOf16);
  EXPECT_EQ(chosen.layers_with("ffn_down", q4_k), all_but(kMoreOf16, 16));
  for (const char* part : {"attn_q", "attn_k", "attn_output", "ffn_gate", "ffn_up"})
    EXPECT_EQ(chosen.all(part), "q4_K") << part;
  EXPECT_EQ(chosen.of("output.weight"), q6_k);
  EXPECT_EQ(chosen.of("token_embd.weight"), q4_k);
  EXPECT_EQ(chosen.why("output.weight"), MixReason::rule);
  EXPECT_EQ(chosen.why("token_embd.weight"), MixReason::base);
  EXPECT_EQ(chosen.of("blk.3.attn_norm.weight"), f32);
  EXPECT_EQ(chosen.why("blk.3.attn_norm.weight"), MixReason::kept);
}

TEST(Mix, KMixesOfADenseModelWithoutGroups) {
  const SmallModel model = make({});
  struct Want {
    FileType type;
    const char *v, *output, *down, *others;
  };
  const Want wants[] = {
      {FileType::q2_k, "q3_K", "q3_K", "q3_K", "q2_K"},      {FileType::q3_k_s, "q3_K", "q3_K", "q3_K", "q3_K"},
      {FileType::q3_k_l, "q5_K", "q5_K", "q5_K", "q3_K"},    {FileType::q5_k_s, "q5_K", "q5_K", "q5_K", "q5_K"},
      {FileType::q6_k, "q6_K", "q6_K", "q6_K", "q6_K"},      {FileType::q4_1, "q4_1", "q4_1", "q4_1", "q4_1"},
      {FileType::q8_0, "q8_0", "q8_0", "q8_0", "q8_0"},      {FileType::tq2_0, "tq2_0", "tq2_0", "tq2_0", "tq2_0"},
      {FileType::nvfp4, "nvfp4", "nvfp4", "nvfp4", "nvfp4"},
  };
  for (const Want& want : wants) {
    const Chosen chosen(model, want.type);
    EXPECT_EQ(chosen.all("attn_v"), want.v) << info(want.type).name;
    EXPECT_EQ(chosen.all("attn_output"), want.output) << info(want.type).name;
    EXPECT_EQ(chosen.all("ffn_down"), want.down) << info(want.type).name;
    for (const char* part : {"attn_q", "attn_k", "ffn_gate", "ffn_up"})
      EXPECT_EQ(chosen.all(part), want.others) << info(want.type).name << " " << part;
  }
}

TEST(Mix, CountersOfTheSmallerKMixes) {
  const SmallModel model = make({.n_layers = 32});
  const Chosen q3(model, FileType::q3_k_m), q4(model, FileType::q4_k_s), q5(model, FileType::q5_k_m),
      q2(model, FileType::q2_k_s);
  EXPECT_EQ(q3.layers_with("attn_v", q5_k), (Layers{0, 1}));
  EXPECT_EQ(q3.layers_with("attn_v", q4_k), all_but({0, 1}, 32));
  EXPECT_EQ(q3.layers_with("ffn_down", q5_k), (Layers{0, 1}));
  EXPECT_EQ(q3.layers_with("ffn_down", q4_k), all_but({0, 1}, 32));
  EXPECT_EQ(q3.all("attn_output"), "q4_K");
  EXPECT_EQ(q4.layers_with("attn_v", q5_k), (Layers{0, 1, 2, 3}));
  EXPECT_EQ(q4.layers_with("ffn_down", q5_k), (Layers{0, 1, 2, 3}));
  const Layers more = {0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31};
  EXPECT_EQ(q5.layers_with("attn_v", q6_k), more);
  EXPECT_EQ(q5.layers_with("ffn_down", q6_k), more);
  EXPECT_EQ(q2.layers_with("ffn_down", q4_k), (Layers{0, 1, 2, 3}));
  EXPECT_EQ(q2.all("attn_v"), "q2_K");
}

// The order of the file matters: blk.10 comes after blk.9, not after blk.1.
TEST(Mix, LayersAreOrderedAsNumbers) {
  EXPECT_EQ(layer_of("blk.10.attn_v.weight"), 10);
  EXPECT_EQ(layer_of("token_embd.weight"), -1);
  EXPECT_EQ(layer_of("blk.x.attn_v.weight"), -1);
  EXPECT_EQ(layer_of("blk.-1.attn_v.weight"), -1);
  EXPECT_EQ(layer_of("blk.99999999999.attn_v.weight"), -1);
  EXPECT_EQ(layer_of("blk.3"), -1);
}

TEST(Mix, SharedValueHeadsGetMoreBits) {
  const SmallModel gqa4 = make({.n_heads_kv = 8}), gqa2 = make({.n_heads_kv = 16}), gqa8 = make({.n_heads_kv = 4});
  EXPECT_EQ(Chosen(gqa4, FileType::q2_k).all("attn_v"), "q4_K");
  EXPECT_EQ(Chosen(gqa8, FileType::q2_k).all("attn_v"), "q4_K");
  EXPECT_EQ(Chosen(gqa2, FileType::q2_k).all("attn_v"), "q3_K");
  EXPECT_EQ(Chosen(gqa4, FileType::q2_k_s).all("attn_v"), "q4_K");
  EXPECT_EQ(Chosen(gqa4, FileType::iq4_xs).all("attn_v"), "q5_K");
  EXPECT_EQ(Chosen(gqa2, FileType::iq4_xs).all("attn_v"), "iq4_xs");
  EXPECT_EQ(Chosen(gqa4, FileType::iq3_s).all("attn_v"), "q4_K");
  EXPECT_EQ(Chosen(gqa4, FileType::iq2_xxs).all("attn_v"), "q4_K");
  EXPECT_EQ(Chosen(gqa2, FileType::iq2_xxs).all("attn_v"), "q2_K");
  EXPECT_EQ(Chosen(gqa2, FileType::iq2_m).all("attn_v"), "iq3_s");
  EXPECT_EQ(Chosen(gqa4, FileType::q3_k_s).all("attn_v"), "q3_K");
}

TEST(Mix, TinyMixes) {
  const SmallModel model = make({});
  const Chosen m(model, FileType::iq2_m), s(model, FileType::iq2_s), xs(model, FileType::iq2_xs),
      one(model, FileType::iq1_s);
  EXPECT_EQ(m.all("attn_q"), "iq2_s");
  EXPECT_EQ(m.all("attn_output"), "iq3_s");
  EXPECT_EQ(m.layers_with("ffn_down", iq3_s), (Layers{0, 1}));
  EXPECT_EQ(m.layers_with("ffn_down", iq2_s), all_but({0, 1}, 16));
  EXPECT_EQ(m.of("token_embd.weight"), iq3_s);
  EXPECT_EQ(m.of("output.weight"), q5_k);
  EXPECT_EQ(s.all("ffn_up"), "iq2_xs");
  EXPECT_EQ(s.layers_with("ffn_down", iq3_s), (Layers{0, 1}));
  EXPECT_EQ(xs.all("attn_output"), "iq2_xs");
  EXPECT_EQ(xs.layers_with("ffn_down", q2_k), (Layers{0, 1}));
  EXPECT_EQ(xs.of("token_embd.weight"), q2_k);
  EXPECT_EQ(one.all("attn_output"), "iq2_xxs");
  EXPECT_EQ(one.all("attn_k"), "iq1_s");
  EXPECT_EQ(one.all("attn_v"), "q2_K");
  EXPECT_EQ(one.of("output.weight"), q5_k);
}

TEST(Mix, ThreeBitCodebookMixes) {
  const SmallModel model = make({});
  const Chosen m(model, FileType::iq3_m), xs(model, FileType::iq3_xs), xxs(model, FileType::iq3_xxs),
      weighted(model, FileType::iq3_xxs, true);
  EXPECT_EQ(m.all("attn_v"), "q4_K");
  EXPECT_EQ(m.all("attn_output"), "q4_K");
  EXPECT_EQ(m.layers_with("ffn_down", q4_k), (Layers{0, 1}));
  EXPECT_EQ(m.all("ffn_up"), "iq3_s");
  EXPECT_EQ(m.of("output.weight"), q6_k);
  EXPECT_EQ(xs.all("attn_q"), "iq3_xxs");
  EXPECT_EQ(xs.all("attn_k"), "iq3_xxs");
  EXPECT_EQ(xs.all("attn_v"), "iq3_s");
  EXPECT_EQ(xs.layers_with("ffn_gate", iq3_s), (Layers{0, 1, 14, 15}));
  EXPECT_EQ(xs.layers_with("ffn_up", iq3_xxs), all_but({0, 1, 14, 15}, 16));
  EXPECT_EQ(xxs.all("attn_q"), "iq2_s");
  EXPECT_EQ(xxs.all("attn_v"), "iq3_s");
  EXPECT_EQ(xxs.layers_with("ffn_down", q4_k), (Layers{0, 1}));
  EXPECT_EQ(xxs.layers_with("ffn_down", q3_k), all_but({0, 1}, 16));
  EXPECT_EQ(xxs.of("token_embd.weight"), iq3_s);
  EXPECT_EQ(xxs.of("output.weight"), q5_k);
  EXPECT_EQ(weighted.all("attn_v"), "iq3_xxs");
  EXPECT_EQ(weighted.all("ffn_down"), "iq3_xxs");
}

TEST(Mix, AnImportanceMatrixChangesTheFirstDownTensors) {
  const SmallModel model = make({});
  EXPECT_EQ(Chosen(model, FileType::q4_0).all("ffn_down"), "q4_0");
  EXPECT_EQ(Chosen(model, FileType::q4_0, true).layers_with("ffn_down", q4_1), (Layers{0, 1}));
  EXPECT_EQ(Chosen(model, FileType::q5_0, true).layers_with("ffn_down", q5_1), (Layers{0, 1}));
  EXPECT_EQ(Chosen(model, FileType::iq4_nl).layers_with("ffn_down", q5_k), (Layers{0, 1}));
  EXPECT_EQ(Chosen(model, FileType::iq4_nl, true).all("ffn_down"), "iq4_nl");
}

TEST(Mix, EightExperts) {
  const SmallModel model = make({.n_heads_kv = 8, .n_experts = 8});
  const Chosen q4(model, FileType::q4_k_m), q0(model, FileType::q4_0), l(model, FileType::q3_k_l),
      m(model, FileType::iq3_m), two(model, FileType::iq2_xs);
  EXPECT_EQ(q4.all("attn_v"), "q8_0");
  EXPECT_EQ(q4.all("attn_k"), "q8_0");
  EXPECT_EQ(q4.all("attn_q"), "q4_K");
  EXPECT_EQ(q4.all("attn_output"), "q5_K");
  EXPECT_EQ(q4.layers_with("ffn_down_exps", q6_k), kMoreOf16);
  EXPECT_EQ(q4.why("blk.0.ffn_gate_inp.weight"), MixReason::kept);
  EXPECT_EQ(q0.all("attn_v"), "q8_0");
  EXPECT_EQ(q0.all("attn_k"), "q8_0");
  EXPECT_EQ(q0.all("attn_output"), "q4_0");
  EXPECT_EQ(l.all("attn_output"), "q3_K");
  EXPECT_EQ(m.layers_with("ffn_down_exps", q4_k), kMoreOf16);
  EXPECT_EQ(two.all("attn_k"), "q4_K");
  EXPECT_EQ(two.all("attn_v"), "q4_K");
  EXPECT_EQ(two.all("attn_output"), "q5_K");
}

// Layers without experts have no down tensors of that name, so the layer's number counts, not the number of tensors.
TEST(Mix, ManyExpertsCountLayersByName) {
  SmallModel model = make({.n_heads_kv = 8, .n_experts = 64});
  model.add("blk.8.ffn_down_shexp.weight", {512, 512});
  model.sort();
  const Chosen q4(model, FileType::q4_k_m), two(model, FileType::iq2_m);
  EXPECT_EQ(q4.layers_with("ffn_down_exps", q6_k), kMoreOf16);
  EXPECT_EQ(q4.of("blk.8.ffn_down_shexp.weight"), q4_k);
  EXPECT_EQ(q4.all("attn_k"), "q4_K");
  EXPECT_EQ(q4.layers_with("attn_v", q6_k), kMoreOf16);
  EXPECT_EQ(two.all("attn_v"), "q4_K");
  EXPECT_EQ(two.layers_with("ffn_down_exps", iq3_s), (Layers{0, 1}));
}

TEST(Mix, EightyLayersRaiseTheValues) {
  const SmallModel model = make({.n_layers = 80, .n_heads = 64, .n_heads_kv = 8});
  EXPECT_EQ(Chosen(model, FileType::q2_k).all("attn_v"), "q5_K");
  EXPECT_EQ(Chosen(model, FileType::q3_k_s).all("attn_v"), "q5_K");
  EXPECT_EQ(Chosen(model, FileType::q4_k_m).layers_with("attn_v", q4_k), Layers{});
  EXPECT_EQ(Chosen(model, FileType::q4_k_m).layers_with("attn_v", q5_k).size(), 40u);
  EXPECT_EQ(Chosen(model, FileType::q4_0).all("attn_v"), "q4_0");
  EXPECT_EQ(Chosen(make({.n_layers = 80, .n_heads = 64, .n_heads_kv = 64}), FileType::q3_k_s).all("attn_v"), "q3_K");
  EXPECT_EQ(Chosen(make({.arch = "qwen2", .n_layers = 80}), FileType::q3_k_s).all("attn_v"), "q5_K");
}

TEST(Mix, Falcon) {
  const SmallModel model = make({.arch = "falcon", .n_layers = 32, .fused_qkv = true});
  const Chosen q4(model, FileType::q4_k_m), q3(model, FileType::q3_k_m), l(model, FileType::q3_k_l),
      s(model, FileType::q4_k_s);
  const Layers more = {0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31};
  EXPECT_EQ(q4.of("output.weight"), q8_0);
  EXPECT_EQ(q4.layers_with("attn_qkv", q6_k), more);  // counted as values
  EXPECT_EQ(q4.layers_with("ffn_down", q6_k), (Layers{0, 1}));
  EXPECT_EQ(q4.layers_with("ffn_down", q5_k).size(), 14u);
  EXPECT_EQ(q4.all("attn_output"), "q4_K");
  EXPECT_EQ(q3.layers_with("ffn_down", q5_k), (Layers{0, 1}));
  EXPECT_EQ(q3.layers_with("ffn_down", q3_k), all_but(more, 32));
  EXPECT_EQ(q3.all("attn_output"), "q3_K");
  EXPECT_EQ(l.all("ffn_down"), "q4_K");
  EXPECT_EQ(l.all("attn_output"), "q4_K");
  EXPECT_EQ(s.all("ffn_down"), "q4_K");
}

TEST(Mix, TiedEmbeddingIsTheOutput) {
  const SmallModel model = make({.tied = true});
  EXPECT_EQ(Chosen(model, FileType::q4_k_m).of("token_embd.weight"), q6_k);
  EXPECT_EQ(Chosen(model, FileType::iq2_xxs).of("token_embd.weight"), q5_k);
  EXPECT_EQ(Chosen(model, FileType::q4_0).of("token_embd.weight"), q6_k);
  EXPECT_EQ(Chosen(model, FileType::q8_0).of("token_embd.weight"), q8_0);
  EXPECT_EQ(Chosen(model, {.file_type = FileType::q4_k_m, .output_type = q5_1}).of("token_embd.weight"), q5_1);
  EXPECT_EQ(Chosen(make({}), FileType::tq1_0).of("token_embd.weight"), q4_k);
}

TEST(Mix, Mxfp4MoeIsForExpertsOnly) {
  const Chosen moe(make({.n_experts = 64}), FileType::mxfp4_moe), dense(make({}), FileType::mxfp4_moe);
  EXPECT_EQ(moe.all("ffn_down_exps"), "mxfp4");
  EXPECT_EQ(moe.all("attn_v"), "q8_0");
  EXPECT_EQ(moe.of("output.weight"), q8_0);
  EXPECT_EQ(moe.of("token_embd.weight"), q8_0);
  EXPECT_EQ(dense.all("ffn_down"), "q8_0");
}

TEST(Mix, FlagsWinOverRules) {
  const SmallModel model = make({});
  MixOptions options{.file_type = FileType::q4_k_m, .output_type = q8_0, .embedding_type = q3_k};
  for (const auto& [pattern, type] : {std::pair("blk\\.[01]\\.ATTN_V", q5_1), std::pair("attn_v", q8_0)})
    options.tensor_types.push_back({*TensorPattern::compile(pattern), type});
  const Chosen chosen(model, options);
  EXPECT_EQ(chosen.of("output.weight"), q8_0);
  EXPECT_EQ(chosen.of("token_embd.weight"), q3_k);
  EXPECT_EQ(chosen.layers_with("attn_v", q5_1), (Layers{0, 1}));
  EXPECT_EQ(chosen.layers_with("attn_v", q8_0), all_but({0, 1}, 16));
  EXPECT_EQ(chosen.why("blk.0.attn_v.weight"), MixReason::asked);
  EXPECT_EQ(chosen.layers_with("ffn_down", q6_k), kMoreOf16);
}

TEST(Mix, PureCopyAndLeaveOutput) {
  const SmallModel model = make({});
  const Chosen pure(model, {.file_type = FileType::q4_k_m, .pure = true});
  EXPECT_EQ(pure.all("attn_v"), "q4_K");
  EXPECT_EQ(pure.of("output.weight"), q4_k);
  EXPECT_EQ(Chosen(model, {.file_type = FileType::q4_k_m, .keep_output = true}).of("output.weight"), f16);
  EXPECT_EQ(Chosen(model, {.copy_all = true}).all("attn_v"), "f16");
  EXPECT_EQ(Chosen(model, FileType::bf16).of("output.weight"), bf16);
}

TEST(Mix, RowsThatDoNotDivideFallBack) {
  const Chosen q4(make({.width = 288}), FileType::q4_k_m), three(make({.width = 96}), FileType::iq3_s),
      odd(make({.width = 100}), FileType::q4_0);
  EXPECT_EQ(q4.all("attn_q"), "q5_0");
  EXPECT_EQ(q4.layers_with("attn_v", q8_0), kMoreOf16);  // the rule's q6_K
  EXPECT_EQ(q4.of("output.weight"), q8_0);
  EXPECT_EQ(q4.why("blk.0.attn_q.weight"), MixReason::fallback);
  EXPECT_EQ(three.all("ffn_up"), "iq4_nl");
  EXPECT_EQ(odd.all("ffn_up"), "f16");
  EXPECT_EQ(odd.of("output.weight"), f16);
  const std::pair<DType, DType> at_32[] = {
      {iq1_s, iq4_nl}, {iq2_xxs, iq4_nl}, {iq4_xs, iq4_nl}, {q2_k, q4_0}, {q3_k, q4_0}, {tq1_0, q4_0},  {q2_0, q4_0},
      {q4_k, q5_0},    {q5_k, q5_1},      {q6_k, q8_0},     {q1_0, f16},  {nvfp4, f16}, {mxfp4, mxfp4}, {q8_0, q8_0}};
  for (const auto& [wanted, fallback] : at_32) EXPECT_EQ(fitting_type(wanted, 32), fallback) << info(wanted).name;
  for (const DTypeInfo& row : all_dtypes())
    EXPECT_EQ(fitting_type(row.dtype, 33), row.is_blocked() ? f16 : row.dtype) << row.name;
}

TEST(Mix, WhatIsNeverQuantized) {
  SmallModel model = make({});
  const std::vector<std::string> kept = {"blk.0.ffn_gate_inp.weight",
                                         "blk.0.ssm_conv1d.weight",
                                         "blk.0.time_mix_w1.weight",
                                         "blk.0.attn_q.bias",
                                         "position_embd.weight",
                                         "token_types.weight",
                                         "blk.0.time_mix_lerp_fused.weight",
                                         "v.patch_embd.weight",
                                         "blk.0.altup_proj.weight",
                                         "blk.0.attn_q.weight.lora_a"};
  for (const std::string& name : kept) model.add(name, {512, 512});
  model.add("blk.0.indices.weight", {512, 512}, i32);
  model.add("blk.0.row.weight", {512, 1, 1});
  model.add("blk.0.ssm_in.weight", {512, 512});
  model.sort();
  const Chosen chosen(model, FileType::q8_0);
  for (const std::string& name : kept) EXPECT_EQ(chosen.why(name), MixReason::kept) << name;
  EXPECT_EQ(chosen.of("blk.0.indices.weight"), i32);
  EXPECT_EQ(chosen.of("blk.0.row.weight"), f16);
  EXPECT_EQ(chosen.of("blk.0.ssm_in.weight"), q8_0);
}

TEST(Mix, StreamsAndChoicesOfDeepseek4StayFloats) {
  const std::vector<std::string> names = {"blk.0.hc_attn_fn.weight",
                                          "blk.0.hc_ffn_fn.weight",
                                          "output_hc_fn.weight",
                                          "blk.0.attn_compressor_ape.weight",
                                          "blk.0.indexer_compressor_ape.weight",
                                          "blk.0.indexer.proj.weight"};
  const auto reason_of = [&](std::string_view arch, const std::string& name) {
    SmallModel model = make({.arch = arch});
    model.add(name, {512, 24}, f32);
    model.sort();
    return Chosen(model, FileType::q4_k_m).why(name);
  };
  for (const std::string& name : names) EXPECT_EQ(reason_of("deepseek4", name), MixReason::kept) << name;
  for (const char* name : {"blk.0.ffn_gate_inp.weight", "blk.0.attn_compressor_norm.weight"})
    EXPECT_EQ(reason_of("deepseek4", name), MixReason::kept) << name;
  for (const char* name : {"blk.0.attn_output_a.weight", "blk.0.attn_compressor_kv.weight", "blk.0.attn_kv.weight"})
    EXPECT_NE(reason_of("deepseek4", name), MixReason::kept) << name;
  EXPECT_NE(reason_of("deepseek32", "blk.0.indexer.proj.weight"), MixReason::kept);
}

// The type that a flag sets is for weights.
TEST(Mix, IntegersKeepTheirTypeWhateverIsAsked) {
  SmallModel model = make({.arch = "deepseek4", .n_experts = 4});
  const std::vector<std::string> names = {"blk.0.ffn_gate_tid2eid.weight", "blk.0.indices.weight"};
  for (const std::string& name : names) model.add(name, {512, 512}, i32);
  model.sort();
  for (const FileType type : {FileType::f16, FileType::q8_0, FileType::q4_k_m, FileType::iq1_s, FileType::mxfp4_moe}) {
    MixOptions options{.file_type = type};
    options.tensor_types.push_back({*TensorPattern::compile("tid2eid|indices"), q8_0});
    const Chosen chosen(model, options);
    for (const std::string& name : names) EXPECT_EQ(chosen.of(name), i32) << name;
  }
}

TEST(Mix, WhoWantsAnImportanceMatrix) {
  EXPECT_TRUE(wants_imatrix("blk.0.attn_q.weight", iq2_xxs, FileType::iq2_xxs));
  EXPECT_TRUE(wants_imatrix("blk.0.attn_q.weight", iq3_xxs, FileType::iq3_xs));
  EXPECT_TRUE(wants_imatrix("blk.0.attn_q.weight", q2_k, FileType::q2_k_s));
  EXPECT_FALSE(wants_imatrix("blk.0.attn_q.weight", q2_k, FileType::q2_k));
  EXPECT_FALSE(wants_imatrix("blk.0.attn_q.weight", iq3_s, FileType::iq3_s));
  EXPECT_FALSE(wants_imatrix("token_embd.weight", iq2_xxs, FileType::iq2_xxs));
  EXPECT_FALSE(wants_imatrix("output.weight", iq2_xxs, FileType::iq2_xxs));
}

}  // namespace
}  // namespace tessera::convert
