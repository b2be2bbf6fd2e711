// HttpClient with libcurl's multi interface. Redirects, cookies, credentials of files and other protocols are off.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <new>

#include "tessera/hub/ascii.h"
#include "tessera/hub/curl_library.h"
#include "tessera/hub/http.h"

namespace tessera::hub {

namespace {

constexpr size_t kMaxHeadBytes = size_t{256} << 10;
constexpr long kConnectSeconds = 30;
constexpr long kStallBytesPerSecond = 1000;
constexpr long kBufferBytes = 256L << 10;

// Reasons that the same request meets again.
constexpr CURLcode kLasting[] = {CURLE_UNSUPPORTED_PROTOCOL,     CURLE_URL_MALFORMAT,
                                 CURLE_SSL_CACERT_BADFILE,       CURLE_SSL_CERTPROBLEM,
                                 CURLE_PEER_FAILED_VERIFICATION, CURLE_OUT_OF_MEMORY};

std::string_view without_space(std::string_view text) {
  while (!text.empty() && std::string_view(" \t\r\n").contains(text.front())) text.remove_prefix(1);
  while (!text.empty() && std::string_view(" \t\r\n").contains(text.back())) text.remove_suffix(1);
  return text;
}

// One request: the handle, and its answer as far as it has come.
class CurlRequest {
 public:
  CurlRequest(const CurlLibrary& curl, HttpReceiver& receiver) : curl_(curl), receiver_(receiver) {}
  CurlRequest(const CurlRequest&) = delete;
  CurlRequest& operator=(const CurlRequest&) = delete;
  ~CurlRequest() {
    if (handle_ != nullptr) curl_.easy_cleanup(handle_);
    if (fields_ != nullptr) curl_.slist_free_all(fields_);
  }

  Result<> prepare(const HttpRequest& request, const HttpOptions& options) {
    handle_ = curl_.easy_init();
    if (handle_ == nullptr) return fail(ErrorCode::out_of_memory, "no memory for a request");
    for (const std::string& field : request.fields) {
      curl_slist* longer = curl_.slist_append(fields_, field.c_str());
      if (longer == nullptr) return fail(ErrorCode::out_of_memory, "no memory for a request");
      fields_ = longer;
    }
    bool is_set = set(CURLOPT_URL, request.url.c_str()) && set(CURLOPT_HTTPHEADER, fields_) &&
                  set(CURLOPT_USERAGENT, options.user_agent.c_str()) && set(CURLOPT_PROTOCOLS_STR, "http,https") &&
                  set(CURLOPT_FOLLOWLOCATION, 0L) && set(CURLOPT_NOSIGNAL, 1L) &&
                  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) && set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds) &&
                  set(CURLOPT_LOW_SPEED_LIMIT, kStallBytesPerSecond) &&
                  set(CURLOPT_LOW_SPEED_TIME, long{options.stall_seconds}) && set(CURLOPT_BUFFERSIZE, kBufferBytes);
    // A connection per request: several ranges over one connection of HTTP/2 are no faster than one.
    is_set = is_set && set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
    if (!options.ca_file.empty()) is_set = is_set && set(CURLOPT_CAINFO, options.ca_file.c_str());
    if (!options.ca_dir.empty()) is_set = is_set && set(CURLOPT_CAPATH, options.ca_dir.c_str());
    is_set = is_set && set(CURLOPT_ERRORBUFFER, reason_) && set(CURLOPT_HEADERFUNCTION, &on_header) &&
             set(CURLOPT_HEADERDATA, this) && set(CURLOPT_WRITEFUNCTION, &on_write) && set(CURLOPT_WRITEDATA, this) &&
             set(CURLOPT_PRIVATE, this);
    if (!is_set) return fail(ErrorCode::internal, "libcurl refuses an option: it is older than 7.85");
    return {};
  }

  CURL* handle() const { return handle_; }
  HttpReceiver& receiver() const { return receiver_; }

  void end(CURLcode code) {
    if (is_stopped_) return;
    HttpEnd end;
    if (has_long_head_) {
      end = {.reason = fmt::format("an answer's head has more than {} bytes", kMaxHeadBytes), .may_retry = false};
    } else if (code != CURLE_OK) {
      end.reason = reason_[0] != '\0' ? reason_ : curl_.easy_strerror(code);
      end.may_retry = std::ranges::find(kLasting, code) == std::end(kLasting);
    } else if (!is_head_passed_) {
      end.reason = "the answer has no head";
    }
    receiver_.on_end(end);
  }

 private:
  template <class Value>
  bool set(CURLoption option, Value value) {
    return curl_.easy_setopt(handle_, option, value) == CURLE_OK;
  }

  // Both functions return 0 to end the request. No exception may pass through the frames of a C library.
  static size_t on_header(char* data, size_t size, size_t count, void* self) try {
    const size_t n = size * count;
    return static_cast<CurlRequest*>(self)->take_line({data, n}) ? n : 0;
  } catch (const std::bad_alloc&) {
    return 0;
  }

  static size_t on_write(char* data, size_t size, size_t count, void* self) try {
    const size_t n = size * count;
    auto& request = *static_cast<CurlRequest*>(self);
    request.is_stopped_ = request.is_stopped_ || !request.receiver_.on_body(std::as_bytes(std::span(data, n)));
    return request.is_stopped_ ? 0 : n;
  } catch (const std::bad_alloc&) {
    return 0;
  }

  // Takes a line of a head. Heads of answers 1xx and trailers are dropped.
  bool take_line(std::string_view line) {
    head_bytes_ += line.size();
    has_long_head_ = head_bytes_ > kMaxHeadBytes;
    if (has_long_head_) return false;
    if (is_head_passed_) return true;
    line = without_space(line);
    if (line.starts_with("HTTP/")) {
      head_ = {};
      long status = 0;
      curl_.easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
      head_.status = static_cast<int>(status);
    } else if (line.empty()) {
      if (head_.status < 200) return true;
      is_head_passed_ = true;
      is_stopped_ = !receiver_.on_head(head_);
      return !is_stopped_;
    } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
      head_.fields.emplace_back(lower_case(line.substr(0, colon)), without_space(line.substr(colon + 1)));
    }
    return true;
  }

  const CurlLibrary& curl_;
  HttpReceiver& receiver_;
  CURL* handle_ = nullptr;
  curl_slist* fields_ = nullptr;
  char reason_[CURL_ERROR_SIZE] = {};
  HttpHead head_;
  size_t head_bytes_ = 0;
  bool has_long_head_ = false;
  bool is_head_passed_ = false;
  bool is_stopped_ = false;  // by the receiver
};

class CurlClient final : public HttpClient {
 public:
  CurlClient(const CurlLibrary& curl, CURLM* multi, HttpOptions options)
      : curl_(curl), multi_(multi), options_(std::move(options)) {}
  CurlClient(const CurlClient&) = delete;
  CurlClient& operator=(const CurlClient&) = delete;
  ~CurlClient() override {
    for (auto& [receiver, request] : requests_) curl_.multi_remove_handle(multi_, request->handle());
    requests_.clear();
    curl_.multi_cleanup(multi_);
  }

  Result<> start(const HttpRequest& request, HttpReceiver& receiver) override {
    stop(receiver);
    auto made = std::make_unique<CurlRequest>(curl_, receiver);
    TESSERA_TRY(made->prepare(request, options_));
    TESSERA_TRY(check(curl_.multi_add_handle(multi_, made->handle())));
    requests_.emplace(&receiver, std::move(made));
    return {};
  }

  void stop(HttpReceiver& receiver) override {
    const auto found = requests_.find(&receiver);
    if (found == requests_.end()) return;
    curl_.multi_remove_handle(multi_, found->second->handle());
    requests_.erase(found);
  }

  Result<> poll(std::chrono::milliseconds wait) override {
    TESSERA_TRY(check(curl_.multi_poll(multi_, nullptr, 0, static_cast<int>(wait.count()), nullptr)));
    int n_running = 0;
    TESSERA_TRY(check(curl_.multi_perform(multi_, &n_running)));
    int n_left = 0;
    while (const CURLMsg* message = curl_.multi_info_read(multi_, &n_left)) {
      if (message->msg != CURLMSG_DONE) continue;
      void* self = nullptr;
      curl_.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &self);
      const CURLcode code = message->data.result;
      // The receiver may start its next request within the call, so this one leaves the table before.
      auto node = requests_.extract(&static_cast<CurlRequest*>(self)->receiver());
      const std::unique_ptr<CurlRequest> ended = std::move(node.mapped());
      curl_.multi_remove_handle(multi_, ended->handle());
      ended->end(code);
    }
    return {};
  }

 private:
  Result<> check(CURLMcode code) const {
    if (code == CURLM_OK) return {};
    return fail(ErrorCode::internal, "libcurl: {}", curl_.multi_strerror(code));
  }

  const CurlLibrary& curl_;
  CURLM* multi_;
  const HttpOptions options_;
  std::map<HttpReceiver*, std::unique_ptr<CurlRequest>> requests_;
};

}  // namespace

std::string_view HttpHead::field(std::string_view name) const {
  const auto found = std::ranges::find(fields, name, [](const auto& field) { return std::string_view(field.first); });
  return found == fields.end() ? std::string_view() : std::string_view(found->second);
}

Result<std::unique_ptr<HttpClient>> create_http_client(const HttpOptions& options) {
  TESSERA_ASSIGN(const CurlLibrary* curl, CurlLibrary::open());
  CURLM* multi = curl->multi_init();
  if (multi == nullptr) return fail(ErrorCode::out_of_memory, "no memory for requests");
  return std::make_unique<CurlClient>(*curl, multi, options);
}

}  // namespace tessera::hub
