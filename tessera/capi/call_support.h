// Arguments that the calls on files and measurements share: paths, flags, numbers of threads, progress.
#pragma once

#include <string>
#include <string_view>

#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"

namespace tessera::capi {

/// A text that must be there and ends with a NUL, such as a path. Error: invalid_argument.
inline Result<std::string> require_text(const char* text, std::string_view name) {
  if (text == nullptr) return fail(ErrorCode::invalid_argument, "{}: is NULL", name);
  if (*text == '\0') return fail(ErrorCode::invalid_argument, "{}: is empty", name);
  return std::string(text);
}

/// "" for NULL.
inline std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

/// A number of a caller, where 0 stands for `usual`. Error: invalid_argument (negative).
inline Result<int64_t> count_or(int64_t wanted, int64_t usual, std::string_view name) {
  if (wanted < 0) return fail(ErrorCode::invalid_argument, "{}: {}, want 0 or more", name, wanted);
  return wanted == 0 ? usual : wanted;
}

/// A pool for one call. n_threads 0: those of the runtime. Errors: invalid_argument; those of ThreadPool::create().
inline Result<std::unique_ptr<ThreadPool>> create_threads(int32_t n_threads, const tessera_runtime& runtime) {
  ThreadPoolOptions options = runtime.thread_options;
  TESSERA_ASSIGN(const int64_t n, count_or(n_threads, options.n_threads, "n_threads"));
  options.n_threads = static_cast<int>(n);
  options.poll = 0;
  return ThreadPool::create(options);
}

/// The size word of a result that may be NULL. Error: invalid_argument.
template <class T>
Result<> require_info(const T* info) {
  return info == nullptr ? Result<>() : require_size(info->size, "info");
}

/// Fills a result that require_info() has accepted.
template <class T>
void write_info(T* info, const T& value) {
  if (info != nullptr) write_sized(info, info->size, value);
}

/// The progress function of a caller. Each call returns whether the work goes on.
class Progress {
 public:
  Progress(tessera_progress_function function, void* user, const CancelToken* cancel)
      : function_(function), user_(user), cancel_(cancel) {}

  const CancelToken* cancel() const { return cancel_; }
  bool operator()(float share) const {
    const bool goes_on = function_ == nullptr || function_(user_, begin_ + share * (end_ - begin_)) == 0;
    return goes_on && (cancel_ == nullptr || !cancel_->cancelled());
  }
  /// The same for a part of the work, whose own share goes from 0 to 1.
  Progress part(float begin, float end) const {
    Progress other = *this;
    other.begin_ = begin;
    other.end_ = end;
    return other;
  }

 private:
  tessera_progress_function function_;
  void* user_;
  const CancelToken* cancel_;
  float begin_ = 0, end_ = 1;
};

/// Error: invalid_argument (cancel is a handle of another kind).
inline Result<Progress> progress_of(tessera_progress_function progress, void* user, const tessera_cancel* cancel) {
  TESSERA_ASSIGN(const CancelToken* const token, token_of(cancel));
  return Progress(progress, user, token);
}

}  // namespace tessera::capi
