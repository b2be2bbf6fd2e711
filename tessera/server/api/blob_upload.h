// An uploaded file on its way to the disk. Its bytes are written and hashed as they come, by a thread that may wait for
// the disk. The file gets its name if its digest is right; otherwise nothing is left of it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/server/http/body_sink.h"
#include "tessera/server/http/exchange.h"
#include "tessera/server/storage/storage.h"

namespace tessera::server {

struct BlobTarget {
  std::string directory{};
  std::string folder{};  // of the file in the directory, made if it is missing
  std::string file{};    // relative to the directory
  std::string sha256{};  // of the bytes, in hexadecimal digits
};

class BlobUpload final : public BodySink {
 public:
  /// `thread` must outlive this.
  BlobUpload(DiskThread& thread, BlobTarget target, std::function<void()> resume);
  ~BlobUpload() override;

  State write(std::string_view bytes) override;
  BodyError error() const override;
  /// Ends the file, and then answers: 201, 400 for another digest, or the error of the disk.
  void finish(std::shared_ptr<Exchange> exchange);

 private:
  class Writer;
  DiskThread& thread_;
  std::shared_ptr<Writer> writer_;  // jobs of the thread use it, in their order
};

/// The handler of a request whose sink is a BlobUpload.
void finish_blob(std::shared_ptr<Exchange> exchange);

}  // namespace tessera::server
