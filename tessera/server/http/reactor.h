// The event loop of an I/O thread, and descriptors that it watches. reactor.cpp alone includes Asio, because its
// headers are slow to compile.
//
// One thread runs a reactor, so its callbacks need no locks among each other: they are a strand.
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/base/result.h"

namespace tessera::server {

enum class IoEvent { readable, writable };

/// The owner of a descriptor. Called on the reactor's thread.
class IoHandler {
 public:
  virtual ~IoHandler() = default;
  virtual void on_event(IoEvent event) = 0;
};

/// A descriptor that belongs to a reactor. All functions run on the reactor's thread, or before it runs.
class WatchedDescriptor {
 public:
  virtual ~WatchedDescriptor() = default;  // closes the descriptor; its handler is called no more
  virtual int descriptor() const = 0;
  /// Calls the handler once when the descriptor is ready. At most one wait of each kind is pending. Throws
  /// std::bad_alloc.
  virtual void wait(IoEvent event, std::shared_ptr<IoHandler> handler) = 0;
};

class Reactor {
 public:
  static Result<std::unique_ptr<Reactor>> create();
  virtual ~Reactor() = default;

  /// Runs callbacks until stop().
  virtual void run() = 0;
  /// From any thread.
  virtual void stop() = 0;
  /// Calls f on the reactor's thread. From any thread; false: no memory.
  virtual bool post(void (*f)(void*), void* argument) = 0;
  /// Calls f once after some time. On the reactor's thread; a second call replaces the first. Needs no memory.
  virtual void call_after(int64_t ms, void (*f)(void*), void* argument) = 0;
  /// Takes a descriptor over. Error: io; then the descriptor is closed.
  virtual Result<std::unique_ptr<WatchedDescriptor>> watch(int descriptor) = 0;
};

}  // namespace tessera::server
