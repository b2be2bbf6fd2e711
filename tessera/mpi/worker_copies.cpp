#include "tessera/mpi/worker_copies.h"

#include <algorithm>
#include <utility>

namespace tessera::mpi {

std::optional<WorkerCopies::Copy> WorkerCopies::add_request(std::shared_ptr<ReceivedMessage> request) {
  const uint64_t number = std::get<ReceiveCopyRequest>(request->envelope.message).copy;
  copies_[number].request = std::move(request);
  return take_if_whole(number);
}

std::optional<WorkerCopies::Copy> WorkerCopies::add_data(int from, std::shared_ptr<ReceivedMessage> data) {
  const uint64_t number = std::get<CopyMessage>(data->envelope.message).copy;
  copies_[number].from = from;
  copies_[number].data = std::move(data);
  return take_if_whole(number);
}

bool WorkerCopies::cancel(uint64_t request) {
  return std::erase_if(copies_, [&](const auto& entry) {
           return entry.second.request != nullptr && entry.second.request->envelope.request == request;
         }) != 0;
}

std::vector<uint64_t> WorkerCopies::cancel_from(int rank) {
  std::vector<uint64_t> requests;
  std::erase_if(copies_, [&](const auto& entry) {
    const std::shared_ptr<ReceivedMessage>& request = entry.second.request;
    const bool waits = request != nullptr &&
                       static_cast<int>(std::get<ReceiveCopyRequest>(request->envelope.message).from_rank) == rank;
    if (waits) requests.push_back(request->envelope.request);
    return waits;
  });
  return requests;
}

std::optional<WorkerCopies::Copy> WorkerCopies::take_if_whole(uint64_t number) {
  const auto copy = copies_.find(number);
  if (copy->second.request == nullptr || copy->second.data == nullptr) return std::nullopt;
  return std::move(copies_.extract(copy).mapped());
}

}  // namespace tessera::mpi
