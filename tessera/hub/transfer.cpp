#include "tessera/hub/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "tessera/json/reader.h"

namespace tessera::hub {

namespace {

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxWordBytes = 4096;  // read of a refusal's body
constexpr size_t kMaxShownBytes = 300;  // and shown
constexpr std::chrono::milliseconds kMaxPoll(100);

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool may_pass(int status) { return status == 408 || status == 416 || status == 429 || status >= 500; }

// URLs are shown without their queries, which may hold signatures.
std::string shown(const Url& url) { return fmt::format("{}://{}{}", url.scheme, host_and_port(url), path_of(url)); }

// The reason that a hub gives: a field of the head, or the member "error" of a JSON body.
std::string words_of(const HttpHead& head, const std::string& body) {
  std::string words(head.field("x-error-message"));
  if (words.empty()) {
    const auto json = read_json(body);
    if (json && json->is_object())
      if (const auto error = json->find("error"); error != json->end() && error->is_string()) words = *error;
  }
  if (words.size() > kMaxShownBytes) words.resize(kMaxShownBytes);
  return words;
}

std::chrono::milliseconds retry_after(const HttpHead& head, std::chrono::seconds most) {
  const std::string_view field = head.field("retry-after");
  uint32_t seconds = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), seconds);
  if (error != std::errc() || end != field.data() + field.size()) return {};  // or a date: our own delay
  return std::min(most, std::chrono::seconds(seconds));
}

class TextSink final : public TransferSink {
 public:
  explicit TextSink(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  std::string range() override { return ""; }
  Attempt check(const HttpHead&) override { return {}; }
  Attempt begin(const HttpHead& head) override {
    answer = {.head = head, .body = {}};
    if (head.status == 200) return {};
    return lasting(Error(ErrorCode::format, fmt::format("status {} where 200 is wanted", head.status)));
  }
  Attempt write(std::span<const std::byte> bytes) override {
    if (bytes.size() > max_bytes_ - answer.body.size())
      return lasting(Error(ErrorCode::limit, fmt::format("an answer of more than {} bytes", max_bytes_)));
    answer.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  Attempt finish() override { return {}; }
  uint64_t n_kept() const override { return 0; }

  TextAnswer answer;

 private:
  const uint64_t max_bytes_;
};

}  // namespace

Result<> Transfer::start() {
  HttpRequest request{.url = to_string(url_), .fields = {}};
  const Settings& settings = context_.settings;
  if (!settings.token.empty() && same_origin(url_, settings.endpoint))
    request.fields.push_back("Authorization: Bearer " + settings.token);
  if (const std::string range = sink_.range(); !range.empty()) request.fields.push_back("Range: bytes=" + range);
  refused_ = {};
  words_.clear();
  state_ = State::running;
  return context_.client.start(request, *this);
}

bool Transfer::on_head(const HttpHead& head) {
  auto taken = take_head(head);
  if (!taken) settle(std::move(taken).error());
  return state_ == State::running;
}

Attempt Transfer::take_head(const HttpHead& head) {
  if (auto checked = sink_.check(head); !checked) return checked;
  if (is_redirect(head.status)) return redirect(head);
  if (head.status == 200 || head.status == 206) {
    if (auto begun = sink_.begin(head); !begun) return begun;
    if (!sink_.wants_body()) state_ = State::done;
    return {};
  }
  refused_ = head;
  return {};
}

Attempt Transfer::redirect(const HttpHead& head) {
  if (++n_redirects_ > kMaxRedirects)
    return lasting(Error(ErrorCode::limit, fmt::format("more than {} redirects", kMaxRedirects)));
  auto next = follow_redirect(url_, head.field("location"));
  if (!next) return lasting(std::move(next).error());
  url_ = std::move(*next);
  state_ = State::due;
  return {};
}

bool Transfer::on_body(std::span<const std::byte> bytes) {
  if (refused_.status != 0) {
    const size_t n = std::min(bytes.size(), kMaxWordBytes - words_.size());
    words_.append(reinterpret_cast<const char*>(bytes.data()), n);
    if (n == bytes.size()) return true;
    settle(refusal());
    return false;
  }
  auto written = sink_.write(bytes);
  if (written) return true;
  settle(std::move(written).error());
  return false;
}

void Transfer::on_end(const HttpEnd& end) {
  if (refused_.status != 0) return settle(refusal());
  if (!end.reason.empty()) return settle({Error(ErrorCode::io, end.reason), end.may_retry});
  auto finished = sink_.finish();
  if (!finished) return settle(std::move(finished).error());
  state_ = State::done;
}

// The trouble of an answer with an error's status.
Trouble Transfer::refusal() const {
  const int status = refused_.status;
  std::string message = fmt::format("status {}", status);
  if (const std::string words = words_of(refused_, words_); !words.empty()) message += ": " + words;
  if (status == 401 || status == 403)
    message += context_.settings.token.empty()
                   ? " (if it is gated, accept its terms on the hub and set HF_TOKEN)"
                   : " (if it is gated, accept its terms on the hub with this token's account)";
  return {Error(status == 404 ? ErrorCode::not_found : ErrorCode::io, std::move(message)), may_pass(status)};
}

void Transfer::settle(Trouble trouble) {
  if (sink_.n_kept() >= n_kept_ + context_.settings.retry.progress_bytes) {
    n_retries_ = 0;
    n_kept_ = sink_.n_kept();
  }
  Error error = std::move(trouble.error).within(shown(url_));
  if (trouble.may_retry && n_retries_ < context_.settings.retry.n_retries) return wait_for_retry(error);
  error_ = std::move(error);
  state_ = State::failed;
}

void Transfer::wait_for_retry(const Error& error) {
  const RetryPolicy& policy = context_.settings.retry;
  const auto delay = policy.first_delay * (int64_t{1} << n_retries_) + retry_after(refused_, policy.max_retry_after);
  const auto noisy = delay + std::chrono::milliseconds(
                                 static_cast<int64_t>(context_.clock.noise() * static_cast<double>(delay.count()) / 4));
  ++n_retries_;
  if (context_.on_note)
    context_.on_note(fmt::format("{}; retry {} of {} in {:.1f} s", error.message(), n_retries_, policy.n_retries,
                                 std::chrono::duration<double>(noisy).count()));
  wake_time_ = context_.clock.now() + noisy;
  url_ = first_url_;
  n_redirects_ = 0;
  state_ = State::waiting;
}

Result<> step(TransferContext& context, std::span<Transfer* const> transfers) {
  if (context.cancel.cancelled()) return fail(ErrorCode::cancelled, "cancelled");
  bool is_running = false;
  std::optional<Clock::TimePoint> wake;
  const Clock::TimePoint now = context.clock.now();
  for (Transfer* transfer : transfers) {
    const bool is_awake = transfer->state() == Transfer::State::waiting && transfer->wake_time() <= now;
    if (transfer->state() == Transfer::State::due || is_awake) TESSERA_TRY(transfer->start());
    is_running |= transfer->state() == Transfer::State::running;
    if (transfer->state() == Transfer::State::waiting)
      wake = std::min(wake.value_or(transfer->wake_time()), transfer->wake_time());
  }
  if (!is_running) {
    if (wake) context.clock.sleep_until(*wake, context.cancel);
    return {};
  }
  auto wait = kMaxPoll;
  if (wake) wait = std::min(wait, std::chrono::ceil<std::chrono::milliseconds>(*wake - now));
  return context.client.poll(wait);
}

Result<TextAnswer> get_text(TransferContext& context, const Url& url, uint64_t max_bytes) {
  TextSink sink(max_bytes);
  Transfer transfer(context, url, sink);
  Transfer* const only[] = {&transfer};
  while (transfer.state() != Transfer::State::done) {
    TESSERA_TRY(step(context, only));
    if (transfer.state() == Transfer::State::failed) return std::unexpected(transfer.error());
  }
  return std::move(sink.answer);
}

}  // namespace tessera::hub
