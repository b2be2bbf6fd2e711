#include "tessera/convert/source/bare_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace tessera::convert {

namespace {

constexpr size_t kFirstByte = 3, kLastByte = 258;  // ids of bytes

// The rope scaling of Llama 3.1, but for its factor.
constexpr double kLowFactor = 1, kHighFactor = 4;
constexpr int64_t kOriginalContext = 8192;

const StoredTensor* find_tensor(std::span<const StoredTensor> tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &StoredTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

Result<int64_t> rows_of(std::span<const StoredTensor> tensors, std::string_view name) {
  const StoredTensor* tensor = find_tensor(tensors, name);
  if (tensor == nullptr || tensor->shape.size() != 2) return fail(ErrorCode::format, "no matrix {}", name);
  return tensor->shape[0];
}

// U+2581 is SentencePiece's space.
std::string with_marked_spaces(std::string_view text) {
  std::string marked;
  for (const char c : text) c == ' ' ? marked += "\xE2\x96\x81" : marked += c;
  return marked;
}

}  // namespace

Json bare_config(const BareModel& model) {
  Json config = {{"architectures", {kBareClass}},        {"hidden_size", model.n_embd},
                 {"intermediate_size", model.n_ff},      {"num_hidden_layers", model.n_layers},
                 {"num_attention_heads", model.n_heads}, {"num_key_value_heads", model.n_kv_heads},
                 {"vocab_size", model.n_vocab},          {"max_position_embeddings", model.n_context},
                 {"rms_norm_eps", model.norm_eps},       {"rope_theta", model.rope_theta}};
  if (model.rope_factor)
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", *model.rope_factor},
                              {"low_freq_factor", kLowFactor},
                              {"high_freq_factor", kHighFactor},
                              {"original_max_position_embeddings", kOriginalContext}};
  return config;
}

Result<> add_extents_of_layer(std::span<const StoredTensor> tensors, BareModel& model) {
  if (model.n_heads < 1 || model.n_embd < 1 || model.n_embd % model.n_heads != 0)
    return fail(ErrorCode::format, "{} heads do not divide a width of {}", model.n_heads, model.n_embd);
  const int64_t n_head_rows = model.n_embd / model.n_heads;
  TESSERA_ASSIGN(model.n_ff, rows_of(tensors, "layers.0.feed_forward.w1.weight"));
  TESSERA_ASSIGN(const int64_t n_kv_rows, rows_of(tensors, "layers.0.attention.wk.weight"));
  if (n_kv_rows < 1 || n_kv_rows % n_head_rows != 0)
    return fail(ErrorCode::format, "{} rows of layers.0.attention.wk.weight are no heads of {}", n_kv_rows,
                n_head_rows);
  model.n_kv_heads = n_kv_rows / n_head_rows;
  return {};
}

void add_bare_token(std::string text, float score, BareModel& model) {
  using text::TokenType;
  const size_t id = model.tokens.size();
  constexpr std::string_view kFirstTokens[] = {"<unk>", "<s>", "</s>"};
  TokenType type = TokenType::normal;
  if (id < std::size(kFirstTokens)) {
    text = kFirstTokens[id];
    type = id == 0 ? TokenType::unknown : TokenType::control;
  } else if (text.empty()) {
    type = TokenType::control;
  } else if (id >= kFirstByte && id <= kLastByte) {
    const size_t byte = id - kFirstByte;
    const std::string name = fmt::format("<0x{:02X}>", byte);
    if (text == name || text == std::string(1, static_cast<char>(byte))) {
      text = name;
      type = TokenType::byte;
    }
  }
  model.tokens.push_back(type == TokenType::normal ? with_marked_spaces(text) : std::move(text));
  model.scores.push_back(score);
  model.types.push_back(type);
}

}  // namespace tessera::convert
