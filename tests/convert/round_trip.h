// Models in GGUF that are written as hubs store them, and converted back. The tables here and in the tests lead from
// GGUF to the hub, so they share nothing with the rules of conversions. The result must have the tensors of the model,
// and compute its logits.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/convert/conversion.h"
#include "tests/convert/checkpoint_folder.h"
#include "tests/convert/hub_folder.h"
#include "tests/support/engine_support.h"
#include "tests/support/float_model.h"
#include "tests/support/spec_model.h"

namespace tessera::testing {

/// Values with their extents, outermost first.
struct HubPiece {
  std::vector<int64_t> shape{};
  std::vector<float> values{};

  int64_t n_columns() const { return std::ssize(values) / shape[0]; }
};

/// Makes a tensor of the hub from tensors of GGUF.
using HubChange = std::function<HubPiece(std::vector<HubPiece>)>;

/// A tensor of the hub: its name, and the tensors of GGUF that it holds, one after another unless a change says
/// otherwise. {i} in the hub's name is a layer, whose tensors are named without blk.N; {e} is an expert, which the
/// outermost extent counts; {} at the end of all names is weight or bias.
struct HubRow {
  std::string hub, gguf;
  HubChange change{};
};

inline HubPiece one_after_another(std::vector<HubPiece> pieces) {
  HubPiece all = std::move(pieces[0]);
  for (size_t i = 1; i < pieces.size(); ++i) {
    all.shape[0] += pieces[i].shape[0];
    all.values.insert(all.values.end(), pieces[i].values.begin(), pieces[i].values.end());
  }
  return all;
}

/// Pairs of rows of each head become halves.
inline HubPiece halves_of_heads(HubPiece piece, int64_t n_heads) {
  const int64_t n = piece.n_columns(), size = piece.shape[0] / n_heads;
  const std::vector<float> old = piece.values;
  for (int64_t row = 0; row < piece.shape[0]; ++row) {
    const int64_t in_head = row % size, to = row - in_head + in_head % 2 * (size / 2) + in_head / 2;
    std::copy_n(old.begin() + row * n, n, piece.values.begin() + to * n);
  }
  return piece;
}

inline HubChange halves(int64_t n_heads) {
  return [=](std::vector<HubPiece> pieces) { return halves_of_heads(std::move(pieces[0]), n_heads); };
}

/// q and k in halves, and v.
inline HubChange halves_and_v(int64_t n_heads, int64_t n_heads_kv) {
  return [=](std::vector<HubPiece> p) {
    p[0] = halves_of_heads(std::move(p[0]), n_heads), p[1] = halves_of_heads(std::move(p[1]), n_heads_kv);
    return one_after_another(std::move(p));
  };
}

inline HubChange changed_values(float (*change)(float)) {
  return [=](std::vector<HubPiece> pieces) {
    for (float& value : pieces[0].values) value = change(value);
    return std::move(pieces[0]);
  };
}

/// The same values with other extents. One of -1 is what is left.
inline HubChange reshaped_to(std::vector<int64_t> shape) {
  return [=](std::vector<HubPiece> pieces) {
    HubPiece all = one_after_another(std::move(pieces));
    all.shape = shape;
    int64_t n = 1;
    for (const int64_t extent : shape) n *= extent > 0 ? extent : 1;
    for (int64_t& extent : all.shape)
      if (extent < 0) extent = std::ssize(all.values) / n;
    return all;
  };
}

/// Rows and columns of a matrix, or of each matrix, exchanged.
inline HubPiece exchanged(HubPiece piece) {
  const size_t last = piece.shape.size() - 1;
  const auto n_rows = static_cast<size_t>(piece.shape[last - 1]), n_columns = static_cast<size_t>(piece.shape[last]);
  const std::vector<float> old = piece.values;
  for (size_t first = 0; first < old.size(); first += n_rows * n_columns)
    for (size_t row = 0; row < n_rows; ++row)
      for (size_t column = 0; column < n_columns; ++column)
        piece.values[first + column * n_rows + row] = old[first + row * n_columns + column];
  std::swap(piece.shape[last - 1], piece.shape[last]);
  return piece;
}
inline HubPiece exchanged_one(std::vector<HubPiece> pieces) { return exchanged(std::move(pieces[0])); }

/// The names of most decoders.
inline const std::vector<HubRow>& hub_decoder_rows() {
  static const std::vector<HubRow> kRows = {
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.norm.{}", "output_norm.{}"},
      {"lm_head.weight", "output.weight"},
      {"model.layers.{i}.input_layernorm.{}", "attn_norm.{}"},
      {"model.layers.{i}.self_attn.q_proj.{}", "attn_q.{}"},
      {"model.layers.{i}.self_attn.k_proj.{}", "attn_k.{}"},
      {"model.layers.{i}.self_attn.v_proj.{}", "attn_v.{}"},
      {"model.layers.{i}.self_attn.o_proj.{}", "attn_output.{}"},
      {"model.layers.{i}.self_attn.q_norm.weight", "attn_q_norm.weight"},
      {"model.layers.{i}.self_attn.k_norm.weight", "attn_k_norm.weight"},
      {"model.layers.{i}.post_attention_layernorm.{}", "ffn_norm.{}"},
      {"model.layers.{i}.mlp.gate_proj.{}", "ffn_gate.{}"},
      {"model.layers.{i}.mlp.up_proj.{}", "ffn_up.{}"},
      {"model.layers.{i}.mlp.down_proj.{}", "ffn_down.{}"},
      {"model.layers.{i}.mlp.gate.weight", "ffn_gate_inp.weight"},
      {"model.layers.{i}.mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
      {"model.layers.{i}.mlp.experts.{e}.gate_proj.weight", "ffn_gate_exps.weight"},
      {"model.layers.{i}.mlp.experts.{e}.up_proj.weight", "ffn_up_exps.weight"},
      {"model.layers.{i}.mlp.experts.{e}.down_proj.weight", "ffn_down_exps.weight"},
      {"model.layers.{i}.mlp.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight"},
      {"model.layers.{i}.mlp.shared_experts.up_proj.weight", "ffn_up_shexp.weight"},
      {"model.layers.{i}.mlp.shared_experts.down_proj.weight", "ffn_down_shexp.weight"}};
  return kRows;
}

/// q and k of four heads and two KV heads in halves, as Llama and its kin have them.
inline std::vector<HubRow> llama_rope_rows(int64_t n_heads = 4, int64_t n_heads_kv = 2) {
  return {{"model.layers.{i}.self_attn.q_proj.{}", "attn_q.{}", halves(n_heads)},
          {"model.layers.{i}.self_attn.k_proj.{}", "attn_k.{}", halves(n_heads_kv)}};
}

/// A model, and what makes a folder of the hub of it.
struct RoundTrip {
  std::string class_name;
  FloatModel model;
  nlohmann::json config = nlohmann::json::object();  // over the common members
  std::vector<HubRow> rows{};                        // before those of most decoders
  bool has_other_values = false;                     // values of the result are rounded otherwise
  std::vector<std::string> extra{};  // tensors of the hub, of one value each, that the result does not have
  bool is_encoder = false;           // gives embeddings instead of logits
};

/// The model of a specification without the scales of weights, and without the tensors of these names in any layer.
inline FloatModel spec_float_model(const std::string& name, const std::vector<std::string>& dropped = {}) {
  FloatModel model(arch_model(name));
  model.drop_scales();
  model.drop("cls.output.weight");
  std::erase_if(model.tensors, [&](const FloatModel::Entry& entry) {
    return std::ranges::any_of(dropped, [&](const std::string& part) { return entry.name.ends_with(part); });
  });
  return model;
}

inline std::string of_layer(int il, const std::string& name) { return "blk." + std::to_string(il) + "." + name; }

/// Tensors of specifications that many architectures load and do not apply.
inline const std::vector<std::string> kUnusedTensors = {"ffn_gate.bias",    "ffn_up.bias", "ffn_down.bias",
                                                        "attn_output.bias", "output.bias", "rope_freqs.weight"};

/// The model of a specification as one of another architecture.
inline FloatModel twin_of(const std::string& golden, const std::string& architecture) {
  FloatModel model = spec_float_model(golden, kUnusedTensors);
  model.become(architecture);
  return model;
}

/// The dense blocks of layers from `first` on become n experts, which differ.
inline void become_experts(FloatModel& m, int first, int n) {
  for (int il = first; m.find(of_layer(il, "attn_norm.weight")) != nullptr; ++il) {
    for (const std::string part : {"gate", "up", "down"}) {
      const FloatModel::Entry dense = m.at(of_layer(il, "ffn_" + part + ".weight"));
      FloatModel::Entry experts{of_layer(il, "ffn_" + part + "_exps.weight"), {dense.shape[0], dense.shape[1], n}, {}};
      for (int i = 0; i < n; ++i)
        for (const float value : dense.values) experts.values.push_back(value * (1.0f + 0.1f * static_cast<float>(i)));
      m.drop(dense.name);
      m.tensors.push_back(std::move(experts));
    }
    FloatModel::Entry router{of_layer(il, "ffn_gate_inp.weight"), {128, n}, spec_weights("router", 128u * 4u, 0, 1, 5)};
    router.values.resize(static_cast<size_t>(128 * n));
    m.tensors.push_back(std::move(router));
  }
}

inline void add_shared_expert(FloatModel& m, int il, const FloatModel& of) {
  for (const std::string part : {"gate", "up", "down"}) {
    FloatModel copy = of;
    FloatModel::Entry entry = copy.at(of_layer(il, "ffn_" + part + ".weight"));
    entry.name = of_layer(il, "ffn_" + part + "_shexp.weight");
    m.tensors.push_back(std::move(entry));
  }
}

/// Layers from the second on have experts and a shared one.
inline void add_mixture(FloatModel& m, const std::string& arch, bool is_normalized, float scale) {
  const FloatModel dense = m;
  become_experts(m, 1, 4);
  for (int il = 1; m.find(of_layer(il, "attn_norm.weight")) != nullptr; ++il) add_shared_expert(m, il, dense);
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, uint32_t>>{{"expert_count", 4},
                                                               {"expert_used_count", 2},
                                                               {"expert_feed_forward_length", 192},
                                                               {"expert_shared_count", 1},
                                                               {"expert_shared_feed_forward_length", 192},
                                                               {"leading_dense_block_count", 1},
                                                               {"expert_gating_func", 2}})
    m.keys.set(arch + "." + key, value);
  m.keys.set(arch + ".expert_weights_norm", is_normalized);
  m.keys.set(arch + ".expert_weights_scale", scale);
}

/// A model without tensors, with the sizes that hub_folder_of() states.
inline FloatModel empty_model(const std::string& architecture) {
  FloatModel model = twin_of("qwen3-dense", architecture);
  model.tensors.clear();
  return model;
}

/// Values of a tensor [shape], in [-limit, limit).
inline void add_weight(FloatModel& m, const std::string& name, const Shape& shape, double limit = 0.2) {
  m.tensors.push_back({name, shape, spec_weights(name, static_cast<size_t>(shape.n_elements()), 0, limit, 7)});
}

/// A norm of values near 1, and a bias.
inline void add_norm(FloatModel& m, const std::string& name, int64_t n, bool has_bias = false) {
  m.tensors.push_back({name + ".weight", {n}, spec_weights(name, static_cast<size_t>(n), 1, 0.3, 7)});
  if (has_bias) add_weight(m, name + ".bias", {n});
}

/// A matrix [n_in, n_out], and a bias.
inline void add_linear(FloatModel& m, const std::string& name, int64_t n_in, int64_t n_out, bool has_bias = false) {
  add_weight(m, name + ".weight", {n_in, n_out});
  if (has_bias) add_weight(m, name + ".bias", {n_out});
}

inline void add_vector(FloatModel& m, const std::string& name, int64_t n) {
  m.tensors.push_back({name, {n}, spec_weights(name, static_cast<size_t>(n), 0, 0.5, 7)});
}

inline std::string with_place(std::string text, const std::string& place, const std::string& with) {
  if (const size_t at = text.find(place); at != std::string::npos) text.replace(at, place.size(), with);
  return text;
}

inline void add_hub_piece(HubFolder& folder, const std::string& name, const HubPiece& piece) {
  if (name.find("{e}") == std::string::npos) {
    folder.tensors.push_back({name, "F32", piece.shape, hub_bytes(piece.values, "F32")});
    return;
  }
  const int64_t n = piece.n_columns();
  for (int64_t e = 0; e < piece.shape[0]; ++e) {
    const std::vector<float> values(piece.values.begin() + e * n, piece.values.begin() + (e + 1) * n);
    folder.tensors.push_back({with_place(name, "{e}", std::to_string(e)),
                              "F32",
                              {piece.shape.begin() + 1, piece.shape.end()},
                              hub_bytes(values, "F32")});
  }
}

/// Adds the tensor of a row for a layer and an end, if the model has its parts and no row before has used them.
inline void add_hub_row(HubFolder& folder, FloatModel& model, const HubRow& row, int64_t layer, const std::string& end,
                        std::set<std::string>& used) {
  std::vector<HubPiece> pieces;
  std::vector<std::string> names;
  std::istringstream stream(row.gguf);
  const std::string block = layer >= 0 ? "blk." + std::to_string(layer) + "." : "";
  for (std::string name; stream >> name;) names.push_back(block + with_place(name, "{}", end));
  for (const std::string& name : names) {
    const FloatModel::Entry* const entry = model.find(name);
    if (entry == nullptr || used.contains(name)) continue;
    HubPiece piece{.values = entry->values};
    int rank = kMaxRank;
    while (rank > 1 && entry->shape[static_cast<size_t>(rank - 1)] == 1) --rank;
    for (int i = rank; i-- > 0;) piece.shape.push_back(entry->shape[static_cast<size_t>(i)]);
    pieces.push_back(std::move(piece));
  }
  if (pieces.empty()) return;
  EXPECT_EQ(pieces.size(), names.size()) << row.hub;
  if (pieces.size() != names.size()) return;
  used.insert(names.begin(), names.end());
  const std::string hub = with_place(with_place(row.hub, "{i}", std::to_string(layer)), "{}", end);
  add_hub_piece(folder, hub, row.change ? row.change(std::move(pieces)) : one_after_another(std::move(pieces)));
}

inline HubFolder hub_folder_of(RoundTrip& trip) {
  nlohmann::json config = {{"architectures", {trip.class_name}},
                           {"hidden_size", 128},
                           {"num_hidden_layers", 2},
                           {"num_attention_heads", 4},
                           {"num_key_value_heads", 2},
                           {"vocab_size", 256},
                           {"max_position_embeddings", 128},
                           {"rope_theta", 10000.0},
                           {"rms_norm_eps", 1e-5},
                           {"intermediate_size", 192}};
  config.merge_patch(trip.config);
  HubFolder folder{.config = config.dump()};
  constexpr int64_t kMostLayers = 32;
  std::set<std::string> used;
  std::vector<HubRow> rows = trip.rows;
  rows.insert(rows.end(), hub_decoder_rows().begin(), hub_decoder_rows().end());
  for (const HubRow& row : rows) {
    const bool has_layers = row.hub.find("{i}") != std::string::npos;
    for (int64_t layer = has_layers ? 0 : -1; layer < (has_layers ? kMostLayers : 0); ++layer)
      for (const char* end : {"weight", "bias"})
        if (*end == 'w' || row.hub.ends_with("{}")) add_hub_row(folder, trip.model, row, layer, end, used);
  }
  for (const FloatModel::Entry& entry : trip.model.tensors) EXPECT_TRUE(used.contains(entry.name)) << entry.name;
  for (const std::string& name : trip.extra) folder.add(name, {1});
  return folder;
}

inline void expect_close(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double error = 0, power = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - double{want[i]}, 2);
    power += std::pow(double{want[i]}, 2);
  }
  EXPECT_GT(power, 0) << what;
  EXPECT_LE(error, tolerance * power) << what;
}

/// The converted file has the tensors of the model and no others.
inline void expect_tensors_of(const std::string& path, FloatModel& model, double tolerance) {
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(path));
  for (const ModelFiles::Tensor& tensor : files->tensors()) {
    const std::string name(tensor.info.name);
    const FloatModel::Entry* const want = model.find(name);
    EXPECT_NE(want, nullptr) << name << " is in no model";
    if (want == nullptr) continue;
    EXPECT_EQ(tensor.info.shape, want->shape) << name;
    std::vector<float> values(static_cast<size_t>(tensor.info.shape.n_elements()));
    std::memcpy(values.data(), files->data(tensor).data(), values.size() * sizeof(float));
    if (tolerance == 0) {
      EXPECT_TRUE(values == want->values) << name;
    } else {
      expect_close(values, want->values, tolerance, name);
    }
  }
  EXPECT_EQ(files->tensors().size(), model.tensors.size());
}

/// Logits of some tokens, or the embeddings of all of them.
inline std::vector<float> outputs_of_file(const std::string& path, bool is_encoder) {
  constexpr int64_t kTokens = 24;
  const auto engine = load_engine(path);
  EXPECT_OK(engine);
  if (!engine) return {};
  const auto session = Session::create(
      *engine,
      {.n_ctx = 64, .n_outputs = kTokens, .embeddings = is_encoder, .type_k = DType::f32, .type_v = DType::f32});
  EXPECT_OK(session);
  if (!session) return {};
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < kTokens; ++i) tokens.push_back((i * i * 7 + 3 * i + 1) % 256);
  if (!is_encoder) {
    const auto logits = logits_of(**session, tokens);
    EXPECT_OK(logits);
    return logits ? *logits : std::vector<float>{};
  }
  std::vector<float> embeddings;
  EXPECT_OK((*session)->decode(all_logits(tokens, 0, 0)));
  for (int64_t i = 0; i < (*session)->n_outputs(); ++i) {
    const std::span<const float> row = (*session)->embedding(i);
    embeddings.insert(embeddings.end(), row.begin(), row.end());
  }
  return embeddings;
}

inline std::vector<float> logits_of_file(const std::string& path) { return outputs_of_file(path, false); }

/// Converts a folder to floats of 32 bits; the path of the result.
inline Result<std::string> convert_to_floats(const std::string& folder) {
  const std::string vocabulary = write_folder(
      "vocabulary",
      {{"tokenizer.json", R"({"pre_tokenizer":{"type":"ByteLevel","use_regex":true},"model":{"type":"BPE",)"
                          R"("vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})"}});
  convert::QuantizeOptions options;
  const std::string output = temporary_path("round_trip.gguf");
  TESSERA_ASSIGN(const auto conversion,
                 convert::Conversion::open(folder, convert::FileType::f32, {.vocabulary = {.folder = vocabulary}}));
  options.mix.file_type = convert::FileType::f32;
  conversion->apply_to(options);
  TESSERA_ASSIGN(const auto plan, convert::plan_quantize(conversion->files(), options));
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = 2}));
  const auto progress = [](float) { return true; };
  TESSERA_TRY(convert::write_quantized(conversion->files(), plan, options, output, {*threads, nullptr, progress}));
  return output;
}

/// The folder becomes the model of the trip.
inline void expect_folder(const HubFolder& folder, RoundTrip trip) {
  SCOPED_TRACE(trip.class_name);
  ASSERT_OK_AND_ASSIGN(const std::string output, convert_to_floats(folder.write("round_trip")));
  expect_tensors_of(output, trip.model, trip.has_other_values ? 1e-12 : 0);
  expect_close(outputs_of_file(output, trip.is_encoder),
               outputs_of_file(trip.model.write("model.gguf"), trip.is_encoder), 1e-10, "outputs");
}

inline void expect_round_trip(RoundTrip trip) {
  const HubFolder folder = hub_folder_of(trip);
  expect_folder(folder, std::move(trip));
}

}  // namespace tessera::testing
