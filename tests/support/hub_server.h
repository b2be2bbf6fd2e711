// The server of shared/tools/hub_server.py as a process of a test: a hub on loopback with its CDN, and with faults.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/testing.h"

namespace tessera::testing {

/// Writes a file below a folder, with the folders above it.
inline void write_below(const std::filesystem::path& root, const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories((root / path).parent_path());
  std::ofstream(root / path, std::ios::binary) << bytes;
}

/// Pseudo-random bytes, the same for the same seed.
inline std::string random_bytes(size_t n, uint32_t seed) {
  std::string bytes(n, '\0');
  for (char& byte : bytes) {
    seed = seed * 1664525u + 1013904223u;
    byte = static_cast<char>(seed >> 24);
  }
  return bytes;
}

class HubServer {
 public:
  /// script: the path of hub_server.py. root: a folder USER/MODEL/files. args: "--fault", "drop=1".
  HubServer(const std::string& script, const std::string& root, const std::vector<std::string>& args = {}) {
    static int n_servers = 0;
    log_path_ = temporary_path("hub_log_" + std::to_string(++n_servers));
    std::vector<std::string> words = {"python3", script, root, "--log", log_path_};
    words.insert(words.end(), args.begin(), args.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::array<int, 2> in{}, out{};
    EXPECT_EQ(::pipe2(in.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    EXPECT_EQ(::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    stdin_ = in[1];
    std::FILE* ports = ::fdopen(out[0], "r");
    EXPECT_EQ(std::fscanf(ports, "%d %d", &port_, &cdn_port_), 2) << "hub_server.py has not started";
    std::fclose(ports);
  }
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;
  ~HubServer() {
    ::close(stdin_);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string cdn_url() const { return "http://127.0.0.1:" + std::to_string(cdn_port_); }

  /// A request as the server has logged it.
  struct Request {
    std::string on, path, range, agent;  // on: "hub" or "cdn"
    bool has_token = false, is_proxied = false;
    int status = 0;
  };
  std::vector<Request> requests() const {
    std::vector<Request> all;
    std::ifstream log(log_path_);
    size_t n_lines = 0;
    for (std::string line; std::getline(log, line);) {
      if (n_lines++ < n_forgotten_) continue;
      const auto row = nlohmann::json::parse(line);
      all.push_back({.on = row["on"],
                     .path = row["path"],
                     .range = row["range"].is_null() ? "" : row["range"].get<std::string>(),
                     .agent = row["agent"],
                     .has_token = row["auth"],
                     .is_proxied = row["proxied"],
                     .status = row["status"]});
    }
    return all;
  }
  /// From now on, requests() begins with the next one: for a server of several tests.
  void forget() { n_forgotten_ += requests().size(); }
  /// The number of requests of this listener whose path contains `part`.
  size_t n_requests(const std::string& on, const std::string& part = "") const {
    size_t n = 0;
    for (const Request& request : requests()) n += request.on == on && request.path.find(part) != std::string::npos;
    return n;
  }

 private:
  std::string log_path_;
  pid_t pid_ = -1;
  int stdin_ = -1;
  size_t n_forgotten_ = 0;
  int port_ = 0, cdn_port_ = 0;
};

}  // namespace tessera::testing
