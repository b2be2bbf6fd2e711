#include "tessera/server/http/reactor.h"

#include <unistd.h>

// Asio's fences around handlers are not needed, as its queues have mutexes. The thread sanitizer does not know fences.
#ifdef TESSERA_SANITIZED
#define BOOST_ASIO_DISABLE_FENCED_BLOCK
#endif
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

namespace tessera::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

class AsioDescriptor final : public WatchedDescriptor {
 public:
  explicit AsioDescriptor(asio::io_context& context) : descriptor_(context) {}

  Result<> assign(int descriptor) {
    error_code error;
    static_cast<void>(descriptor_.assign(descriptor, error));
    if (!error) return {};
    ::close(descriptor);
    return fail(ErrorCode::io, "socket: {}", error.message());
  }

  int descriptor() const override { return const_cast<asio::posix::stream_descriptor&>(descriptor_).native_handle(); }

  void wait(IoEvent event, std::shared_ptr<IoHandler> handler) override {
    const auto kind =
        event == IoEvent::readable ? asio::posix::descriptor_base::wait_read : asio::posix::descriptor_base::wait_write;
    descriptor_.async_wait(kind, [event, handler = std::move(handler)](const error_code& error) {
      // After other errors the handler's read or write fails.
      if (error != asio::error::operation_aborted) handler->on_event(event);
    });
  }

 private:
  asio::posix::stream_descriptor descriptor_;
};

class AsioReactor final : public Reactor {
 public:
  void run() override {
    const auto guard = asio::make_work_guard(context_);
    while (!context_.stopped()) {
      try {
        if (call_due()) continue;
        if (call_ == nullptr) {
          context_.run_one();
        } else {
          context_.run_one_until(call_time_);
        }
      } catch (const std::exception&) {
        // An exception of a callback or of Asio itself, such as bad_alloc. The other callbacks go on.
      }
    }
  }

  void stop() override { context_.stop(); }

  bool post(void (*f)(void*), void* argument) override {
    try {
      asio::post(context_, [f, argument] { f(argument); });
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  void call_after(int64_t ms, void (*f)(void*), void* argument) override {
    call_ = f;
    call_argument_ = argument;
    call_time_ = Clock::now() + std::chrono::milliseconds(ms);
  }

  Result<std::unique_ptr<WatchedDescriptor>> watch(int descriptor) override {
    std::unique_ptr<AsioDescriptor> watched;
    try {
      watched = std::make_unique<AsioDescriptor>(context_);
    } catch (const std::exception& error) {
      ::close(descriptor);
      return fail(ErrorCode::io, "socket: {}", error.what());
    }
    TESSERA_TRY(watched->assign(descriptor));
    return watched;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Makes the call of call_after() if its time has come.
  bool call_due() {
    if (call_ == nullptr || Clock::now() < call_time_) return false;
    std::exchange(call_, nullptr)(call_argument_);
    return true;
  }

  asio::io_context context_{1};
  void (*call_)(void*) = nullptr;  // kept here and not by Asio, whose timers need memory
  void* call_argument_ = nullptr;
  Clock::time_point call_time_{};
};

}  // namespace

Result<std::unique_ptr<Reactor>> Reactor::create() {
  try {
    return std::make_unique<AsioReactor>();
  } catch (const std::exception& error) {
    return fail(ErrorCode::io, "event loop: {}", error.what());
  }
}

}  // namespace tessera::server
