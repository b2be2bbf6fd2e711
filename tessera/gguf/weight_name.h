// Names of weights in GGUF files: "token_embd.weight", "blk.3.attn_q.weight", "dec.blk.0.cross_attn_q.weight".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

/// The parts of a name, as views into it.
struct WeightName {
  std::string_view stack;          // "enc" or "dec" of a model with both, else empty
  std::optional<int64_t> layer{};  // 3; none: outside the layers
  std::string_view role;           // "attn_q", "ffn_up_exps", "token_embd"
  std::string_view kind;           // "weight", "bias", "scale"; may be empty
  std::string_view within_layer;   // "attn_q.weight": role and kind

  /// The weights of a model with one stack of layers: "blk.N.".
  bool is_of_layer() const { return layer.has_value() && stack.empty(); }
  /// The table of token embeddings, which may be the output layer too.
  bool is_token_table() const { return !layer && stack.empty() && role == "token_embd" && kind == "weight"; }
  /// The output layer, its norm, and heads of classifiers.
  bool is_output() const { return !layer && (role.starts_with("output") || role.starts_with("cls")); }
  /// A tensor with one matrix or vector per routed expert.
  bool is_expert() const { return role.ends_with("_exps") || role.ends_with("_chexps"); }
};

/// Any text has parts. A layer is a number of digits only; "blk.x." and "blk.-1." name none.
WeightName parse_weight_name(std::string_view name);

}  // namespace tessera
