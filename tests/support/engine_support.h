// Engines and sessions for tests: loaded models, models rewritten with other weight types, logits of token lists.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/app/app.h"
#include "tessera/engine/session.h"
#include "tessera/gguf/writer.h"
#include "tessera/quant/formats.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// Loads an engine, which keeps its registry alive.
inline Result<std::shared_ptr<Engine>> load_engine(const std::string& path, EngineOptions options = {},
                                                   const std::string& isa = "") {
  TESSERA_ASSIGN(std::shared_ptr<Registry> registry, create_registry(isa));
  TESSERA_ASSIGN(std::shared_ptr<Engine> engine, Engine::open(*registry, path, options));
  TESSERA_TRY(engine->load({}));
  return std::shared_ptr<Engine>(engine.get(), [owner = engine, registry](Engine*) mutable {
    owner.reset();
    registry.reset();
  });
}

/// Writes a copy of a model to a temporary file, with matrices converted to another type if their rows are whole
/// blocks.
inline Result<std::string> requantize(const std::string& path, DType dtype, const std::string& name) {
  TESSERA_ASSIGN(const auto file, GgufFile::open(path));
  GgufBuilder builder;
  TESSERA_TRY(builder.set_all(file->metadata()));
  std::vector<std::vector<std::byte>> data;
  for (const GgufTensor& tensor : file->tensors()) {
    const auto bytes = file->data(tensor);
    const bool converts = tensor.shape[1] > 1 && row_bytes(dtype, tensor.shape[0]).has_value();
    TESSERA_TRY(builder.add_tensor(tensor.name, converts ? dtype : tensor.dtype, tensor.shape));
    data.emplace_back(bytes.begin(), bytes.end());
    if (!converts) continue;
    if (tensor.dtype != DType::f32) return fail(ErrorCode::unsupported, "{} is not f32", tensor.name);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    TESSERA_ASSIGN(const size_t n_bytes, nbytes(dtype, tensor.shape));
    data.back().resize(n_bytes);
    quant::find_format(dtype)->quantize_row_compat(values.data(), nullptr, tensor.shape.n_elements(),
                                                   data.back().data());
  }
  const std::vector<std::span<const std::byte>> spans(data.begin(), data.end());
  TESSERA_ASSIGN(const auto bytes, gguf_to_bytes(builder, spans));
  return write_temporary(name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

/// Returns n pseudo-random token ids, the same for the same seed.
inline std::vector<int32_t> token_ids(const Engine& engine, int64_t n, uint32_t seed = 1) {
  std::vector<int32_t> ids;
  uint32_t state = seed;
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    ids.push_back(static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(engine.model().info().n_vocab)));
  }
  return ids;
}

/// Returns the ids of a text, including BOS if the vocabulary adds it.
inline std::vector<int32_t> text_ids(const Engine& engine, std::string_view text) {
  const auto ids = engine.tokenizer().tokenize(text, {.add_special = true});
  EXPECT_OK(ids);
  return ids.value_or(std::vector<int32_t>());
}

/// Returns a batch of tokens of one sequence at consecutive positions, with logits for all.
inline Batch all_logits(std::span<const int32_t> tokens, int32_t position = 0, int32_t sequence = 0) {
  Batch batch;
  for (const int32_t token : tokens)
    batch.add({.token = token, .position = position++, .sequence = sequence, .wants_logits = true});
  return batch;
}

/// The logits of the last batch, one row after another.
inline std::vector<float> all_rows(const Session& session) {
  std::vector<float> rows;
  for (int64_t i = 0; i < session.n_outputs(); ++i)
    rows.insert(rows.end(), session.logits(i).begin(), session.logits(i).end());
  return rows;
}

/// Decodes tokens from position 0 of sequence 0 on, and returns the logits of all.
inline Result<std::vector<float>> logits_of(Session& session, std::span<const int32_t> tokens) {
  TESSERA_TRY(session.decode(all_logits(tokens)));
  return all_rows(session);
}

/// Returns the prompt `ids` followed by n greedily chosen tokens.
inline Result<std::vector<int32_t>> greedy_ids(Session& session, std::vector<int32_t> ids, int n) {
  Batch batch;
  for (size_t i = 0; i < ids.size(); ++i)
    batch.add({.token = ids[i], .position = static_cast<int32_t>(i), .wants_logits = i + 1 == ids.size()});
  for (int i = 0; i < n; ++i) {
    TESSERA_TRY(session.decode(batch));
    const std::span<const float> logits = session.logits(0);
    const auto next = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
    batch = Batch();
    batch.add({.token = next, .position = static_cast<int32_t>(ids.size()), .wants_logits = true});
    ids.push_back(next);
  }
  return ids;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace tessera::testing
