// A server for tests of the client: it speaks llama-server's HTTP API without a model. One thread serves all
// connections in rounds; a round gives each stream one token and sends at most a fragment of what is waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::load {

class FakeServer {
 public:
  struct Options {
    int port = 0;                 // 0: the system's choice
    size_t fragment_bytes = 0;    // bytes sent per connection and round; 0: everything
    int64_t n_active_max = 1000;  // more completions get 503
    int round_ms = 0;             // pause between two rounds
    bool closes = false;          // ends the connection after each answer, without announcing it
    int64_t n_cut_after = -1;     // cuts each stream's connection after that many tokens
  };

  static Result<std::unique_ptr<FakeServer>> start(const Options& options);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  int port() const { return port_; }
  int64_t n_connections() const { return n_connections_; }  // accepted so far

 private:
  struct Peer;

  FakeServer(const Options& options, int listener, int port);
  void run();
  void round();
  void accept_all();
  bool serve(Peer& peer, short events);
  void read_requests(Peer& peer);
  void answer(Peer& peer, std::string_view head, const std::string& body);
  void answer_post(Peer& peer, std::string_view target, const std::string& body);
  void complete(Peer& peer, const std::string& body);
  void step(Peer& peer);
  void end_stream(Peer& peer);
  int64_t n_computed(const std::vector<int64_t>& ids);
  std::string metrics() const;

  Options options_;
  int listener_, port_;
  std::atomic<bool> stops_ = false;
  std::atomic<int64_t> n_connections_ = 0;
  int64_t n_active_ = 0, n_predicted_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::vector<int64_t>> seen_;  // prompts, as a prefix cache holds them
  std::thread thread_;
};

}  // namespace tessera::load
