// The fields that control generation, common to all dialects (fields.def), read from a request's body or options. The
// server's flags are the defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/sample/params.h"
#include "tessera/server/json/field_reader.h"

namespace tessera::server {

/// The bias of a token, or of each token of a text.
struct BiasEntry {
  std::variant<int32_t, std::string> token;
  float bias = 0;  // -infinity bans
};

/// A LoRA adapter of the server and its scale.
struct LoraScale {
  int32_t id = 0;
  float scale = 1;
};

struct GenerationFields {
  /// The chain's parameters. Its logit_bias stays empty: texts of `logit_bias` below need a tokenizer.
  sample::SamplerParams sampling{};

#define TESSERA_FIELD(shown, type, member, name, initial, min, max, aliases, dialects, help) type member = initial;
#include "tessera/server/json/fields.def"

  std::vector<std::string> stop{};
  std::vector<BiasEntry> logit_bias{};
  std::string json_schema{};  // as JSON, keys in their order; empty: none
  bool include_usage = false;
  std::vector<std::string> response_fields{};
  std::optional<std::vector<LoraScale>> lora{};  // by id; absent: the scales of the server
};

/// Ranges that depend on the server.
struct GenerationLimits {
  int32_t n_slots = 1;
  int32_t max_choices = 128;
  int32_t max_logprobs = 100;
  int32_t best_priority = -10;  // the most urgent one of the client
  int64_t n_vocab = INT32_MAX;  // bounds ids of logit_bias
  int32_t n_lora = INT32_MAX;   // number of loaded adapters
};

struct ReadGenerationFields {
  GenerationFields fields{};
  std::string ignored{};  // names of unknown fields for X-Ignored-Fields, at most 512 bytes; empty: none
};

/// Reads the fields of an object. An absent or null one takes its value of `defaults`. n_predict never exceeds that of
/// the defaults, unless that is -1.
///   dialect_names  top-level names that the dialect reads itself. They are not reported as unknown, and a field or
///                  alias of the table with such a name is left to the dialect.
///   parent         path of the object in errors, empty for a whole body
/// Errors: 400 for a body that is no object, and for a field of a wrong type or out of its range, with its name, its
/// value and the range; for a grammar beside a schema; for a refused field.
FieldResult<ReadGenerationFields> read_generation_fields(const Json& body, const GenerationFields& defaults,
                                                         const GenerationLimits& limits,
                                                         std::span<const std::string_view> dialect_names = {},
                                                         std::string_view parent = {});

/// A row of fields.def in words, for documentation and tests.
struct FieldDoc {
  std::string_view name;
  std::string_view aliases;
  std::string wants;    // type and range: "a number, 0 to 1"
  std::string initial;  // the value without flags of the server, as JSON; "" for a list or an object
  std::string_view dialects;
  std::string_view help;
};
std::vector<FieldDoc> generation_field_docs();

}  // namespace tessera::server
