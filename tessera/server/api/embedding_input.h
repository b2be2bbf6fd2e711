// Fields that requests for embeddings share: texts, and the form of vectors in answers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/server/api/context.h"
#include "tessera/server/json/field_reader.h"
#include "tessera/server/json/writer.h"

namespace tessera::server {

inline constexpr size_t kMaxEmbeddedTexts = 2048;

/// The tokens of the texts in `value`: a text, ids, texts and ids, {"prompt_string"}, or a list of these. Special
/// tokens spelled out in a text are plain text. Errors: those of read_prompts() and tokenize_prompt(); a text that the
/// context does not hold.
FieldResult<std::vector<std::vector<int32_t>>> read_embedding_texts(const ServedModel& model, const Json& value,
                                                                    std::string_view field);

/// The form of vectors in an answer.
struct VectorForm {
  int32_t norm = 2;                     // see normalize(); not used without pooling
  std::optional<int64_t> dimensions{};  // the first ones only
  bool is_base64 = false;               // little-endian f32
};

/// Reads encoding_format and embd_normalize, whose default is the server's.
FieldResult<VectorForm> read_vector_form(const ApiContext& context, const FieldReader& reader);

/// Cuts a vector to the dimensions and normalizes it. Returns the part that is left.
std::span<const float> shape_vector(std::vector<float>& vector, const VectorForm& form);

/// Writes a vector as a list of numbers, or as a text.
void write_vector(JsonWriter& writer, std::span<const float> vector, const VectorForm& form);

/// Appends the base64 of bytes (RFC 4648, with padding).
void append_base64(std::string& out, std::span<const std::byte> bytes);

}  // namespace tessera::server
