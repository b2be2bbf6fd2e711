// Models whose files have no config.json: those of llama.cpp before GGUF, of llama2.c and of Meta. All are llamas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/convert/source/stored_tensor.h"
#include "tessera/json/json.h"
#include "tessera/text/vocab.h"

namespace tessera::convert {

/// Tensors have the names of Meta's files, "layers.0.attention.wq.weight", and the rows of q and k the order of GGUF.
struct BareModel {
  int64_t n_vocab = 0, n_embd = 0, n_layers = 0, n_heads = 0, n_kv_heads = 0, n_ff = 0;
  int64_t n_context = 2048;
  double norm_eps = 1e-5, rope_theta = 10000;
  std::optional<double> rope_factor{};  // of the scaling of Llama 3.1 and later

  // One for each token; empty if the vocabulary is in other files.
  std::vector<std::string> tokens{};
  std::vector<float> scores{};
  std::vector<text::TokenType> types{};
};

struct BareFile {
  BareModel model{};
  std::vector<StoredTensor> tensors{};
};

/// The class of bare models in architectures[0] of bare_config().
inline constexpr std::string_view kBareClass = "MetaLlama";

/// A config.json with these values under the hub's names.
Json bare_config(const BareModel& model);

/// The numbers of feed-forward rows and of KV heads, from the shapes of layer 0, and that heads divide the width.
/// Errors: format.
Result<> add_extents_of_layer(std::span<const StoredTensor> tensors, BareModel& model);

/// Adds a token as SentencePiece writes it. `text`: its text, with spaces as spaces; a byte as such or as "<0x0A>".
void add_bare_token(std::string text, float score, BareModel& model);

}  // namespace tessera::convert
