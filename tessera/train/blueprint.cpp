#include "tessera/train/blueprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "tessera/base/checked.h"
#include "tessera/base/hash.h"
#include "tessera/base/index.h"
#include "tessera/base/rng.h"
#include "tessera/gguf/keys.h"

namespace tessera::train {

namespace {

enum class Ffn : uint8_t { gated, plain };

struct Row {
  std::string_view architecture;
  std::string_view epsilon_key;
  Ffn ffn;
  bool has_rope;
  bool has_kv_heads;                         // allows fewer KV heads than heads
  bool always_ties;                          // the output layer always shares the embedding's weights
  std::array<std::string_view, 8> optional;  // optional tensors that files of this architecture usually have
};

constexpr std::string_view kRmsEpsilon = "attention.layer_norm_rms_epsilon";
constexpr std::string_view kLayerEpsilon = "attention.layer_norm_epsilon";

// clang-format off
constexpr std::array kRows = {
    Row{"llama", kRmsEpsilon, Ffn::gated, true, true, false, {}},
    Row{"qwen2", kRmsEpsilon, Ffn::gated, true, true, false, {"attn_q.bias", "attn_k.bias", "attn_v.bias"}},
    Row{"qwen3", kRmsEpsilon, Ffn::gated, true, true, false, {}},
    Row{"gemma", kRmsEpsilon, Ffn::gated, true, true, true, {}},
    Row{"gpt2", kLayerEpsilon, Ffn::plain, false, false, false, {"attn_qkv.weight", "attn_qkv.bias", "attn_output.bias", "ffn_up.bias", "ffn_down.bias",
         "attn_norm.bias", "ffn_norm.bias", "output_norm.bias"}},
};
// clang-format on

constexpr float kEpsilon = 1e-5f;
constexpr float kDeviation = 0.55f;  // times 1 / sqrt(n_in): 0.02 at GPT-2's width of 768
constexpr int64_t kMaxSize = int64_t{1} << 20;

Result<const Row*> find_row(std::string_view architecture) {
  const auto row = std::ranges::find(kRows, architecture, &Row::architecture);
  if (row != kRows.end()) return &*row;
  return fail(ErrorCode::unsupported, "architecture '{}' cannot be trained from scratch (these can: {})", architecture,
              blueprint_architectures());
}

Result<> check(const ModelSizes& s, const Row& row) {
  const auto want = [](std::string_view what, int64_t n, int64_t max) -> Result<> {
    if (n >= 1 && n <= max) return {};
    return fail(ErrorCode::invalid_argument, "{}: {}, want 1 to {}", what, n, max);
  };
  TESSERA_TRY(want("layers", s.n_layers, 512));
  TESSERA_TRY(want("embedding width", s.n_embd, kMaxSize));
  TESSERA_TRY(want("heads", s.n_heads, s.n_embd));
  TESSERA_TRY(want("KV heads", s.n_heads_kv, s.n_heads));
  TESSERA_TRY(want("feed-forward width", s.n_ff, kMaxSize));
  TESSERA_TRY(want("context", s.n_ctx, kMaxContext));
  if (s.n_embd % s.n_heads != 0)
    return fail(ErrorCode::invalid_argument, "embedding width {}, {} heads: want a multiple", s.n_embd, s.n_heads);
  if (row.has_rope && s.n_embd / s.n_heads % 2 != 0)
    return fail(ErrorCode::invalid_argument, "embedding width {}, {} heads: heads of {} elements, want an even number",
                s.n_embd, s.n_heads, s.n_embd / s.n_heads);
  if (s.n_heads % s.n_heads_kv != 0 || (!row.has_kv_heads && s.n_heads_kv != s.n_heads))
    return fail(ErrorCode::invalid_argument, "{} heads, {} KV heads: want {}", s.n_heads, s.n_heads_kv,
                row.has_kv_heads ? "a multiple" : "as many");
  if (row.always_ties && !s.ties_output)
    return fail(ErrorCode::invalid_argument, "{}: the output layer's weights are always the embedding's",
                row.architecture);
  return {};
}

ModelSizes filled(ModelSizes s, const Row& row) {
  constexpr int64_t kMultiple = 32;  // rows of whole blocks, for quantizing
  if (s.n_heads_kv == 0) s.n_heads_kv = s.n_heads;
  if (s.n_ff == 0 && s.n_embd >= 1 && s.n_embd <= kMaxSize)
    s.n_ff = round_up(row.ffn == Ffn::gated ? s.n_embd * 8 / 3 : s.n_embd * 4, kMultiple);
  return s;
}

void set_keys(GgufBuilder& keys, const ModelSizes& s, const Row& row) {
  keys.set(keys::kArchitecture, s.architecture);
  keys.set(keys::kType, "model");
  if (!s.name.empty()) keys.set(keys::kName, s.name);
  const auto set = [&](std::string_view key, int64_t value) {
    keys.set(keys::arch_key(s.architecture, key), static_cast<uint32_t>(value));
  };
  set("context_length", s.n_ctx);
  set("embedding_length", s.n_embd);
  set("block_count", s.n_layers);
  set("feed_forward_length", s.n_ff);
  set("attention.head_count", s.n_heads);
  set("attention.head_count_kv", s.n_heads_kv);
  set("attention.key_length", s.n_embd / s.n_heads);
  set("attention.value_length", s.n_embd / s.n_heads);
  keys.set(keys::arch_key(s.architecture, row.epsilon_key), kEpsilon);
  if (!row.has_rope) return;
  set("rope.dimension_count", s.n_embd / s.n_heads);
  keys.set(keys::arch_key(s.architecture, "rope.freq_base"), s.rope_base);
}

// The Irwin-Hall sum of twelve uniform values approximates a normal distribution. It calls no function of the
// mathematics library, so the result is the same on every machine.
float next_normal(Rng& rng) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += rng.next_u32() * 0x1p-32;
  return static_cast<float>(sum);
}

}  // namespace

std::string blueprint_architectures() {
  std::string names;
  for (const Row& row : kRows) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.architecture);
  return names;
}

Result<std::unique_ptr<Blueprint>> Blueprint::create(const ModelSizes& sizes, const GgufBuilder& vocab) {
  TESSERA_ASSIGN(const Row* row, find_row(sizes.architecture));
  const ModelSizes s = filled(sizes, *row);
  TESSERA_TRY(check(s, *row));
  GgufBuilder builder = vocab;
  set_keys(builder, s, *row);
  std::unique_ptr<Blueprint> blueprint(new Blueprint);
  TESSERA_ASSIGN(blueprint->bytes_, builder.header());
  std::vector<std::string> optional;
  for (const std::string_view tensor : row->optional)
    if (!tensor.empty()) optional.emplace_back(tensor);
  if (!s.ties_output) optional.emplace_back("output.weight");
  TESSERA_ASSIGN(blueprint->files_, ModelFiles::blueprint(blueprint->bytes_, "the new model", std::move(optional)));
  TESSERA_ASSIGN(blueprint->model_, create_model(*blueprint->files_, {}));
  return blueprint;
}

std::vector<float> initial_values(const Weight& weight, int64_t n_layers, uint64_t seed) {
  const std::string& name = weight.tensor.name;
  const auto n = to_size(weight.tensor.shape().n_elements());
  if (name.ends_with(".bias")) return std::vector<float>(n, 0.0f);
  if (weight.use == Op::rms_norm || weight.use == Op::layer_norm) return std::vector<float>(n, 1.0f);
  float deviation = kDeviation / std::sqrt(static_cast<float>(weight.tensor.shape()[0]));
  if (name.ends_with("attn_output.weight") || name.ends_with("ffn_down.weight"))
    deviation /= std::sqrt(2 * static_cast<float>(n_layers));
  Rng rng(Hash64().add(seed).add(name).value());
  std::vector<float> values(n);
  for (float& value : values) value = deviation * next_normal(rng);
  return values;
}

}  // namespace tessera::train
