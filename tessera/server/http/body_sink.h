// A receiver of a large body, such as a file: it gets the bytes as they come, so that they need not be in memory.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string_view>

#include "tessera/server/http/body.h"

namespace tessera::server {

struct HttpRequest;

/// All functions are called on an I/O thread, so they do not wait.
class BodySink {
 public:
  /// Bytes that the server reserves for a sink. A sink holds no more of them.
  static constexpr size_t kMaxHeldBytes = 4 << 20;

  enum class State : uint8_t { ready, full, failed };

  /// The end of a sink whose request did not come to its handler leaves nothing behind.
  virtual ~BodySink() = default;
  /// Takes the next bytes of the body. After `full` the connection waits for `resume`, see OpenBody. After `failed` it
  /// refuses the request with error().
  virtual State write(std::string_view bytes) = 0;
  virtual BodyError error() const = 0;
};

/// Opens the sink for a request whose head has come, or refuses the request. The sink calls `resume`, from any thread,
/// when it is not full any more.
using OpenBody = std::function<std::expected<std::shared_ptr<BodySink>, BodyError>(const HttpRequest& request,
                                                                                   std::function<void()> resume)>;

}  // namespace tessera::server
