#include "tessera/server/run/outbox.h"

namespace tessera::server {

void Outbox::add(const std::shared_ptr<Task>& task, TaskEvent event) {
  const size_t io_thread = task->spec().io_thread;
  if (events_.size() <= io_thread) events_.resize(io_thread + 1);
  events_[io_thread].emplace_back(task, std::move(event));
}

void Outbox::post() {
  for (size_t io_thread = 0; io_thread < events_.size(); ++io_thread) {
    Events& collected = events_[io_thread];
    if (collected.empty()) continue;
    auto events = std::make_shared<Events>(std::exchange(collected, {}));
    collected.reserve(events->size());
    post_to_io_(io_thread, [events] {
      for (auto& [task, event] : *events) task->spec().sink->on_event(event);
      for (size_t i = 0; i < events->size(); ++i)
        if (i == 0 || (*events)[i].first != (*events)[i - 1].first) (*events)[i].first->spec().sink->flush();
    });
  }
}

}  // namespace tessera::server
