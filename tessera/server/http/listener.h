// Listening sockets: addresses, names and paths of Unix sockets, and the checks before they are opened.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::server {

/// An open listening socket. Its owner closes it, and then removes the file of a Unix socket.
struct Listener {
  int descriptor = -1;
  std::string address{};  // "http://127.0.0.1:8080", "https://[::1]:8080", "unix:PATH"
  std::string path{};     // of a Unix socket
  uint64_t inode = 0;     // of that path
  bool is_loopback = false;
};

struct ListenOptions {
  std::vector<std::string> hosts{};  // addresses, names, paths that end in .sock
  uint16_t port = 0;                 // 0: any free port, the same for all hosts
  bool reuse_port = false;
  bool is_tls = false;
  bool only_loopback = true;  // refuses other addresses before anything is opened
};

/// Opens a socket per address. Errors: invalid_argument (naming --host, --api-key and --insecure for an address that
/// only_loopback refuses); io with the address.
Result<std::vector<Listener>> open_listeners(const ListenOptions& options);

/// Closes the sockets, and removes the files of Unix sockets that are still theirs.
void close_listeners(std::vector<Listener>& listeners);

/// Removes the file of a Unix socket if it is still that of the listener.
void remove_socket_file(const Listener& listener);

}  // namespace tessera::server
