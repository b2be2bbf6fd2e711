// A transfer: one GET with our rules for redirects, tokens and retries. Several run at once in a TransferLoop.
//
// Redirects lead to http and https only, never from https to http, 10 at most. The token goes to the endpoint's own
// host. A retry begins at the first URL again, because the links to which hubs redirect expire.
#pragma once

#include <expected>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "tessera/base/cancel.h"
#include "tessera/hub/clock.h"
#include "tessera/hub/http.h"
#include "tessera/hub/settings.h"

namespace tessera::hub {

/// A failed attempt.
struct Trouble {
  Error error;
  bool may_retry = false;
};
using Attempt = std::expected<void, Trouble>;

/// An attempt that may be repeated, or not.
inline std::unexpected<Trouble> passing(Error error) { return std::unexpected(Trouble{std::move(error), true}); }
inline std::unexpected<Trouble> lasting(Error error) { return std::unexpected(Trouble{std::move(error), false}); }

/// Takes the body of a transfer.
class TransferSink {
 public:
  virtual ~TransferSink() = default;
  /// The value of the field Range for the next attempt; "": all.
  virtual std::string range() = 0;
  /// Checks the head of an answer on the way: of redirects too.
  virtual Attempt check(const HttpHead& head) = 0;
  /// Begins a body: of status 200 or 206.
  virtual Attempt begin(const HttpHead& head) = 0;
  /// Whether the body is wanted after begin(). Otherwise the transfer is done.
  virtual bool wants_body() const { return true; }
  virtual Attempt write(std::span<const std::byte> bytes) = 0;
  /// Ends a body that came completely.
  virtual Attempt finish() = 0;
  /// Bytes that no later attempt will ask for.
  virtual uint64_t n_kept() const = 0;
};

/// The parts that all transfers share.
struct TransferContext {
  HttpClient& client;
  Clock& clock;
  const CancelToken& cancel;
  const Settings& settings;
  std::function<void(const std::string&)> on_note;  // "URL: reason; retry 2 of 5 in 2 s"; may be empty
};

class Transfer final : public HttpReceiver {
 public:
  enum class State : uint8_t { due, running, waiting, done, failed };

  /// All must outlive the transfer.
  Transfer(TransferContext& context, Url url, TransferSink& sink)
      : context_(context), first_url_(std::move(url)), url_(first_url_), sink_(sink) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() override { context_.client.stop(*this); }

  State state() const { return state_; }
  /// The time of the next attempt, of a transfer that waits.
  Clock::TimePoint wake_time() const { return wake_time_; }
  const Error& error() const { return *error_; }

  /// Starts an attempt. Errors: those of HttpClient::start().
  Result<> start();

 private:
  bool on_head(const HttpHead& head) override;
  bool on_body(std::span<const std::byte> bytes) override;
  void on_end(const HttpEnd& end) override;

  Attempt take_head(const HttpHead& head);
  Attempt redirect(const HttpHead& head);
  Trouble refusal() const;
  void settle(Trouble trouble);
  void wait_for_retry(const Error& error);

  TransferContext& context_;
  const Url first_url_;
  Url url_;  // after redirects
  TransferSink& sink_;
  State state_ = State::due;
  int n_redirects_ = 0;
  int n_retries_ = 0;
  uint64_t n_kept_ = 0;  // when the retries were counted anew
  HttpHead refused_{};   // head of an answer without a body for the sink
  std::string words_;    // its body, as far as it is shown
  Clock::TimePoint wake_time_{};
  std::optional<Error> error_;
};

/// Starts the transfers that are due, then waits until something happens: at most 100 ms, or the delay of a retry.
/// Errors: cancelled; those of HttpClient.
Result<> step(TransferContext& context, std::span<Transfer* const> transfers);

struct TextAnswer {
  HttpHead head;
  std::string body;
};

/// Gets a text of at most max_bytes. Errors: those of step() and of the transfer; limit.
Result<TextAnswer> get_text(TransferContext& context, const Url& url, uint64_t max_bytes);

}  // namespace tessera::hub
