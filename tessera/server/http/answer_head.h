// The bytes of an answer's head. Pure code; a connection and its tests call it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/server/http/message.h"

namespace tessera::server {

struct AnswerFraming {
  int minor_version = 1;                     // of the request
  bool keeps_alive = true;                   // otherwise the connection closes after the answer
  std::optional<uint64_t> content_length{};  // nothing: of unknown length, in chunks for HTTP/1.1
  std::string_view request_id{};
  std::string_view date{};
  const std::vector<HttpField>* cors = nullptr;
};

/// "Sun, 06 Nov 1994 08:49:37 GMT" for seconds since 1970 (RFC 9110, section 5.6.7).
std::string http_date(int64_t seconds);

/// Status line, fields and the blank line. Fields of the answer with characters that would end a line are left out.
std::string write_answer_head(const HttpAnswer& answer, const AnswerFraming& framing);

}  // namespace tessera::server
