// Answers of the Responses API that clients may go on from, in memory. The least recently used go first when their
// bytes exceed the limit. A client sees only its own.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tessera::server {

struct StoredResponse {
  std::string id{};
  std::string client{};
  std::string object{};    // JSON of the answer
  std::string messages{};  // JSON: a list of all messages up to and with the answer, without instructions
};

/// All functions may be called from any thread.
class ResponseStore {
 public:
  /// max_bytes: of all texts together; 0: nothing is stored.
  explicit ResponseStore(size_t max_bytes) : max_bytes_(max_bytes) {}

  void put(StoredResponse response);
  std::optional<StoredResponse> find(std::string_view id, std::string_view client);
  /// Whether there was one.
  bool erase(std::string_view id, std::string_view client);

 private:
  using Place = std::list<StoredResponse>::iterator;

  std::optional<Place> place_of(std::string_view id, std::string_view client);
  void remove(Place place);

  size_t max_bytes_;
  std::mutex mutex_;
  size_t n_bytes_ = 0;
  std::list<StoredResponse> responses_;  // the last used first
  std::unordered_map<std::string_view, Place> by_id_;
};

}  // namespace tessera::server
