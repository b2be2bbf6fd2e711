#include "tessera/server/api/blob_upload.h"

#include <fmt/format.h>

#include <new>
#include <span>
#include <utility>

#include "tessera/server/api/context.h"
#include "tessera/server/sha256.h"
#include "tessera/server/storage/directory.h"

namespace tessera::server {

namespace {

constexpr size_t kFullBytes = BodySink::kMaxHeldBytes / 2;  // a piece more fits in any case
constexpr auto kStaleAge = std::chrono::hours(1);           // of a file that a killed server has left

}  // namespace

// The part of an upload that belongs to the thread. Other threads see the error and the number of waiting bytes.
class BlobUpload::Writer {
 public:
  Writer(BlobTarget target, std::function<void()> resume) : target_(std::move(target)), resume_(std::move(resume)) {}

  // --- from any thread

  /// Counts bytes that wait. Returns whether they are too many.
  bool add_waiting(size_t n) {
    const std::lock_guard lock(mutex_);
    n_waiting_ += n;
    is_full_ = n_waiting_ >= kFullBytes;
    return is_full_;
  }
  std::optional<FieldError> error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

  // --- on the thread

  void write(std::string_view bytes) {
    run([&] { return write_bytes(bytes); });
    bool resumes = false;
    {
      const std::lock_guard lock(mutex_);
      n_waiting_ -= bytes.size();
      resumes = is_full_ && n_waiting_ < kFullBytes / 2;
      if (resumes) is_full_ = false;
    }
    if (!resumes) return;
    try {
      resume_();
    } catch (const std::bad_alloc&) {  // the connection waits, and its time ends
    }
  }

  void finish(Exchange& exchange) {
    run([&] { return commit(); });
    file_.reset();
    const auto error = this->error();
    if (error) return answer_error(exchange, *error);
    exchange.answer({.status = 201});
  }

 private:
  // Runs a step unless one has failed before.
  template <class Step>
  void run(Step step) {
    if (error()) return;
    std::optional<FieldError> problem;
    try {
      if (auto done = step(); !done) problem = done.error();
    } catch (const std::bad_alloc&) {
      problem = unavailable(kOutOfMemory);
    }
    if (!problem) return;
    const std::lock_guard lock(mutex_);
    error_ = std::move(problem);
  }

  FieldResult<> create() {
    auto directory = Directory::open(target_.directory);
    if (!directory) return std::unexpected(field_error_of(directory.error(), {}));
    directory_ = std::move(*directory);
    if (auto made = directory_->make_directory(target_.folder); !made)
      return std::unexpected(field_error_of(made.error(), {}));
    directory_->remove_stale_temporaries(target_.folder, kStaleAge);
    auto file = directory_->create_file(target_.file);
    if (!file) return std::unexpected(field_error_of(file.error(), {}));
    file_ = std::move(*file);
    return {};
  }
  FieldResult<> write_bytes(std::string_view bytes) {
    if (!file_) TESSERA_READ(create());
    const auto raw = std::as_bytes(std::span(bytes));
    digest_.add(raw);
    if (auto written = file_->write(raw); !written) return std::unexpected(field_error_of(written.error(), {}));
    return {};
  }
  FieldResult<> commit() {
    if (!file_) TESSERA_READ(create());  // an empty one
    const std::string found = hex_text(digest_.finish());
    if (found != target_.sha256)
      return std::unexpected(FieldError{.message = fmt::format("the digest of the bytes is sha256:{}", found)});
    if (auto committed = file_->commit(); !committed) return std::unexpected(field_error_of(committed.error(), {}));
    return {};
  }

  const BlobTarget target_;
  const std::function<void()> resume_;
  Sha256 digest_;
  std::optional<Directory> directory_;
  std::unique_ptr<NewFile> file_;  // in the directory
  mutable std::mutex mutex_;
  std::optional<FieldError> error_;  // under the mutex
  size_t n_waiting_ = 0;             // likewise
  bool is_full_ = false;             // likewise
};

BlobUpload::BlobUpload(DiskThread& thread, BlobTarget target, std::function<void()> resume)
    : thread_(thread), writer_(std::make_shared<Writer>(std::move(target), std::move(resume))) {}

// The thread removes the file of an upload that has not ended, as that takes long for a large one.
BlobUpload::~BlobUpload() {
  try {
    thread_.post(DiskThread::Lane::urgent, [writer = writer_] {});
  } catch (const std::bad_alloc&) {  // then this thread removes it
  }
}

BodySink::State BlobUpload::write(std::string_view bytes) {
  if (writer_->error()) return State::failed;
  const bool is_full = writer_->add_waiting(bytes.size());
  thread_.post(DiskThread::Lane::urgent, [writer = writer_, piece = std::string(bytes)] { writer->write(piece); });
  return is_full ? State::full : State::ready;
}

BodyError BlobUpload::error() const {
  const FieldError error = writer_->error().value_or(FieldError{});
  return {error.status, error.message};
}

void BlobUpload::finish(std::shared_ptr<Exchange> exchange) {
  thread_.post(DiskThread::Lane::urgent, [writer = writer_, exchange = std::move(exchange)] {
    try {
      writer->finish(*exchange);
    } catch (const std::bad_alloc&) {  // no memory for the answer
      exchange->abort();
    }
  });
}

void finish_blob(std::shared_ptr<Exchange> exchange) {
  const auto upload = std::static_pointer_cast<BlobUpload>(exchange->request().sink);
  upload->finish(std::move(exchange));
}

}  // namespace tessera::server
