#include "tessera/server/http/listener.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace tessera::server {
namespace {

constexpr int kBacklog = 4096;  // the system lowers it to net.core.somaxconn
// The system's memory of a reader that takes nothing. Without this it grows to megabytes.
constexpr int kSendBufferBytes = 128 << 10;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t n_bytes = 0;
  std::string host{};

  int family() const { return storage.ss_family; }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

bool is_socket_path(std::string_view host) { return host.ends_with(".sock"); }

bool is_loopback_address(const SocketAddress& address) {
  if (address.family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

std::string address_text(const SocketAddress& address) {
  char text[NI_MAXHOST] = "";
  if (getnameinfo(address.get(), address.n_bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return text;
}

uint16_t& port_of(SocketAddress& address) {
  if (address.family() == AF_INET) return reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port;
  return reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port;
}

Result<std::vector<SocketAddress>> resolve_host(const std::string& host) {
  std::string name = host;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  if (name.empty()) return fail(ErrorCode::invalid_argument, "--host: an empty address");
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(name.c_str(), nullptr, &hints, &list); error != 0)
    return fail(ErrorCode::invalid_argument, "--host {}: {}", host, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(list, freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.n_bytes = entry->ai_addrlen;
    address.host = host;
    addresses.push_back(address);
  }
  if (addresses.empty()) return fail(ErrorCode::invalid_argument, "--host {}: no address", host);
  return addresses;
}

void set_socket_flag(int descriptor, int level, int option, int value) {
  ::setsockopt(descriptor, level, option, &value, sizeof value);
}

// Binds and listens. The result is -1 with errno after an error.
int open_tcp(const SocketAddress& address, const ListenOptions& options) {
  const int descriptor = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  set_socket_flag(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);
  set_socket_flag(descriptor, SOL_SOCKET, SO_SNDBUF, kSendBufferBytes);  // accepted sockets inherit it
  if (options.reuse_port) set_socket_flag(descriptor, SOL_SOCKET, SO_REUSEPORT, 1);
  // "::" alone listens to IPv4 as well; beside other addresses it would take theirs.
  if (address.family() == AF_INET6)
    set_socket_flag(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, options.hosts.size() > 1 ? 1 : 0);
  if (::bind(descriptor, address.get(), address.n_bytes) == 0 && ::listen(descriptor, kBacklog) == 0) return descriptor;
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return -1;
}

Result<Listener> listen_tcp(SocketAddress address, uint16_t port, const ListenOptions& options) {
  port_of(address) = htons(port);
  Listener listener{.descriptor = open_tcp(address, options), .is_loopback = is_loopback_address(address)};
  if (listener.descriptor < 0)
    return fail(ErrorCode::io, "--host {} --port {}: {}", address.host, port, std::strerror(errno));
  ::getsockname(listener.descriptor, address.get(), &address.n_bytes);
  const bool is_v6 = address.family() == AF_INET6;
  listener.address = fmt::format("{}://{}{}{}:{}", options.is_tls ? "https" : "http", is_v6 ? "[" : "",
                                 address_text(address), is_v6 ? "]" : "", ntohs(port_of(address)));
  return listener;
}

bool is_answered(const sockaddr_un& address) {
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return true;
  const bool connected = ::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const bool answered = connected || errno != ECONNREFUSED;  // a full queue (EAGAIN) has a server, too
  ::close(descriptor);
  return answered;
}

// Removes a socket that nobody listens to any more. Anything else at the path stays.
Result<> remove_stale_socket(const sockaddr_un& address) {
  struct stat status {};
  if (::lstat(address.sun_path, &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) return fail(ErrorCode::io, "--host {}: exists and is not a socket", address.sun_path);
  if (is_answered(address)) return fail(ErrorCode::io, "--host {}: another server answers there", address.sun_path);
  ::unlink(address.sun_path);
  return {};
}

Result<Listener> listen_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return fail(ErrorCode::invalid_argument, "--host {}: {} bytes, limit {}", path, path.size(),
                sizeof address.sun_path - 1);
  std::memcpy(address.sun_path, path.data(), path.size());  // the rest is zero
  TESSERA_TRY(remove_stale_socket(address));
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return fail(ErrorCode::io, "--host {}: {}", path, std::strerror(errno));
  set_socket_flag(descriptor, SOL_SOCKET, SO_SNDBUF, kSendBufferBytes);
  // The mode of the socket becomes that of its file, so no moment has a wider one (Linux). chmod() is for other
  // systems.
  struct stat status {};
  if (::fchmod(descriptor, 0600) != 0 ||
      ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(address.sun_path, 0600) != 0 || ::listen(descriptor, kBacklog) != 0 ||
      ::lstat(address.sun_path, &status) != 0) {
    auto failed = fail(ErrorCode::io, "--host {}: {}", path, std::strerror(errno));
    ::close(descriptor);
    return failed;
  }
  return Listener{
      .descriptor = descriptor, .address = "unix:" + path, .path = path, .inode = status.st_ino, .is_loopback = true};
}

uint16_t port_of_listener(const Listener& listener) {
  SocketAddress address;
  address.n_bytes = sizeof address.storage;
  if (::getsockname(listener.descriptor, address.get(), &address.n_bytes) != 0) return 0;
  return ntohs(port_of(address));
}

// A name may have addresses of a family that this machine lacks: one that opens is enough.
Result<> listen_host(const std::vector<SocketAddress>& addresses, const ListenOptions& options, uint16_t& port,
                     std::vector<Listener>& listeners) {
  Result<> first = {};
  size_t n_open = 0;
  for (const SocketAddress& address : addresses) {
    auto listener = listen_tcp(address, port, options);
    if (!listener) {
      if (first) first = forward_error(listener);
      continue;
    }
    ++n_open;
    if (port == 0) port = port_of_listener(*listener);
    listeners.push_back(std::move(*listener));
  }
  return n_open > 0 ? Result<>{} : first;
}

}  // namespace

Result<std::vector<Listener>> open_listeners(const ListenOptions& options) {
  if (options.hosts.empty()) return fail(ErrorCode::invalid_argument, "--host: no address");
  std::vector<std::vector<SocketAddress>> hosts;  // in the order of the options; empty: a Unix socket
  for (const std::string& host : options.hosts) {
    if (is_socket_path(host)) {
      hosts.emplace_back();
      continue;
    }
    TESSERA_ASSIGN(auto addresses, resolve_host(host));
    for (const SocketAddress& address : addresses)
      if (options.only_loopback && !is_loopback_address(address))
        return fail(ErrorCode::invalid_argument,
                    "--host {}: other machines could use the server without a key: want --api-key, or --insecure",
                    host);
    hosts.push_back(std::move(addresses));
  }
  std::vector<Listener> listeners;
  uint16_t port = options.port;
  for (size_t i = 0; i < hosts.size(); ++i) {
    Result<> opened = {};
    if (!hosts[i].empty()) {
      opened = listen_host(hosts[i], options, port, listeners);
    } else if (auto listener = listen_unix(options.hosts[i])) {
      listeners.push_back(std::move(*listener));
    } else {
      opened = forward_error(listener);
    }
    if (!opened) {
      close_listeners(listeners);
      return forward_error(opened);
    }
  }
  return listeners;
}

void remove_socket_file(const Listener& listener) {
  struct stat status {};
  if (!listener.path.empty() && ::lstat(listener.path.c_str(), &status) == 0 && status.st_ino == listener.inode)
    ::unlink(listener.path.c_str());
}

void close_listeners(std::vector<Listener>& listeners) {
  for (const Listener& listener : listeners) {
    if (listener.descriptor >= 0) ::close(listener.descriptor);
    remove_socket_file(listener);
  }
  listeners.clear();
}

}  // namespace tessera::server
