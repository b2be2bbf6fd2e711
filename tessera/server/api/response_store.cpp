#include "tessera/server/api/response_store.h"

#include <utility>

namespace tessera::server {

namespace {

constexpr size_t kEntryBytes = 512;  // of the containers

size_t bytes_of(const StoredResponse& response) {
  return kEntryBytes + response.id.size() + response.client.size() + response.object.size() + response.messages.size();
}

}  // namespace

void ResponseStore::put(StoredResponse response) {
  const size_t n_bytes = bytes_of(response);
  if (n_bytes > max_bytes_) return;
  const std::lock_guard lock(mutex_);
  while (n_bytes_ + n_bytes > max_bytes_) remove(std::prev(responses_.end()));
  responses_.push_front(std::move(response));
  by_id_[responses_.front().id] = responses_.begin();
  n_bytes_ += n_bytes;
}

std::optional<StoredResponse> ResponseStore::find(std::string_view id, std::string_view client) {
  const std::lock_guard lock(mutex_);
  const auto place = place_of(id, client);
  if (!place) return std::nullopt;
  responses_.splice(responses_.begin(), responses_, *place);
  return responses_.front();
}

bool ResponseStore::erase(std::string_view id, std::string_view client) {
  const std::lock_guard lock(mutex_);
  const auto place = place_of(id, client);
  if (place) remove(*place);
  return place.has_value();
}

std::optional<ResponseStore::Place> ResponseStore::place_of(std::string_view id, std::string_view client) {
  const auto at = by_id_.find(id);
  if (at == by_id_.end() || at->second->client != client) return std::nullopt;
  return at->second;
}

void ResponseStore::remove(Place place) {
  n_bytes_ -= bytes_of(*place);
  by_id_.erase(place->id);
  responses_.erase(place);
}

}  // namespace tessera::server
