// Parts of answers that the routes of the OpenAI API share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/server/json/writer.h"
#include "tessera/server/run/task.h"

namespace tessera::server {

/// A new random id with a prefix: "chatcmpl-" and 24 letters and digits.
std::string new_id(std::string_view prefix);

int64_t unix_seconds();

struct Usage {
  int64_t n_prompt = 0, n_cached = 0, n_generated = 0;
  int64_t n_reasoning = -1;  // -1: not known
};

/// The members that every object of an answer has.
struct OpenAiHead {
  std::string id;
  std::string model;
  std::string fingerprint;
  int64_t created_s = unix_seconds();

  /// With the usage where the API has it. null: none.
  void write(JsonWriter& writer, std::string_view object, const Usage* usage = nullptr) const;
};

/// "stop" or "length".
const char* finish_reason_of(EndReason reason);

void write_usage(JsonWriter& writer, const Usage& usage);

}  // namespace tessera::server
