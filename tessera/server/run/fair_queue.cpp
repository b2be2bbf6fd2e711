#include "tessera/server/run/fair_queue.h"

#include <algorithm>

namespace tessera::server {

int64_t FairQueue::age_steps(const Waiting& waiting, Clock::time_point now) {
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - waiting.since).count();
  return std::max<int64_t>(age, 0) / kAgeStepMs;
}

// Returns the group of an entry, and makes it if there is none. A group without entries has its nodes of the order.
FairQueue::Group& FairQueue::group_of(const Waiting& waiting) {
  ClientState& state = clients_[waiting.client];
  Group& group = state.groups[{waiting.priority, waiting.is_first}];
  group.client = &state;
  group.priority = waiting.priority;
  group.is_first = waiting.is_first;
  if (group.entries.empty() && group.next_age.empty()) {
    Order order{{}};
    Ages ages{{}};
    group.rank = order.extract(order.begin());
    group.next_age = ages.extract(ages.begin());
  }
  return group;
}

void FairQueue::push(Waiting waiting) {
  if (waiting.arrival == 0) waiting.arrival = ++n_arrivals_;
  Group& group = group_of(waiting);
  ClientState& state = *group.client;
  Counters counter;
  if (state.n_active == 0) counter.insert(0);
  Entries entry;
  const uint64_t arrival = waiting.arrival;
  entry.emplace(arrival, std::move(waiting));
  // Nothing throws from here on.
  if (state.n_active++ == 0) {
    // A client that comes back does not get the time that it has not used.
    if (!active_counters_.empty()) state.counter = std::max(state.counter, *active_counters_.begin());
    auto node = counter.extract(counter.begin());
    node.value() = state.counter;
    active_counters_.insert(std::move(node));
  }
  const Waiting& added = entry.begin()->second;
  ++n_by_priority_[priority_index(added.priority)];
  ++n_waiting_;
  earliest_deadline_ = std::min(earliest_deadline_, added.deadline);
  const bool is_oldest = group.entries.empty() || arrival < group.entries.begin()->first;
  if (is_oldest) leave_order(group);
  group.entries.insert(entry.extract(entry.begin()));
  if (is_oldest) enter_order(group);
  if (clients_.size() - active_counters_.size() > kMostIdleClients) forget_idle_clients();
}

FairQueue::Waiting FairQueue::take(const Waiting* entry) {
  Group& group = clients_.find(entry->client)->second.groups.find({entry->priority, entry->is_first})->second;
  leave_order(group);
  const auto place = std::ranges::find_if(group.entries, [&](const auto& one) { return &one.second == entry; });
  if (!is_long(*entry)) {
    for (auto it = group.entries.begin(); it != place; ++it)
      if (is_long(it->second)) ++it->second.n_passed;
  }
  Waiting taken = std::move(place->second);
  note_removed(taken);
  group.entries.erase(place);
  enter_or_erase(group);
  return taken;
}

void FairQueue::note_removed(const Waiting& waiting) {
  --n_waiting_;
  --n_by_priority_[priority_index(waiting.priority)];
}

std::vector<const FairQueue::Waiting*> FairQueue::in_order(Clock::time_point now) const {
  std::vector<std::pair<std::tuple<int64_t, bool, double, uint64_t>, const Waiting*>> ranked;
  ranked.reserve(n_waiting_);
  for (const Rank& rank : order_) {
    for (const auto& [arrival, one] : std::get<Group*>(rank)->entries)
      ranked.push_back({{one.priority - age_steps(one, now), !one.is_first, std::get<double>(rank), arrival}, &one});
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& one) { return one.first; });
  std::vector<const Waiting*> order;
  order.reserve(ranked.size());
  for (const auto& [rank, one] : ranked) order.push_back(one);
  return order;
}

// --- clients

void FairQueue::end(const std::string& client) {
  ClientState& state = clients_.find(client)->second;
  if (--state.n_active == 0) active_counters_.erase(active_counters_.find(state.counter));
}

void FairQueue::charge(const std::string& client, double cost) {
  ClientState& state = clients_[client];
  for (auto& [key, group] : state.groups) leave_order(group);
  Counters::node_type active;
  if (state.n_active > 0) active = active_counters_.extract(active_counters_.find(state.counter));
  state.counter += cost;
  if (active) {
    active.value() = state.counter;
    active_counters_.insert(std::move(active));
  }
  for (auto& [key, group] : state.groups) enter_order(group);
}

double FairQueue::counter(const std::string& client) const {
  const auto found = clients_.find(client);
  return found == clients_.end() ? 0 : found->second.counter;
}

// An idle client whose counter is below that of all active ones would get theirs when it comes back.
void FairQueue::forget_idle_clients() {
  std::erase_if(clients_, [](const auto& entry) { return entry.second.n_active == 0; });
}

// --- the order of groups

FairQueue::Rank FairQueue::rank_of(Group& group) {
  return {group.priority - group.age, !group.is_first, group.client->counter, group.entries.begin()->first, &group};
}

Clock::time_point FairQueue::next_age_of(const Group& group) {
  return group.entries.begin()->second.since + std::chrono::milliseconds((group.age + 1) * kAgeStepMs);
}

// Ages begin at 0: next() corrects them.
void FairQueue::enter_order(Group& group, int64_t age) {
  if (group.entries.empty()) return;
  group.age = age;
  group.rank.value() = rank_of(group);
  group.next_age.value() = {next_age_of(group), &group};
  order_.insert(std::move(group.rank));
  ages_.insert(std::move(group.next_age));
}

void FairQueue::leave_order(Group& group) {
  if (group.entries.empty()) return;
  group.rank = order_.extract(rank_of(group));
  group.next_age = ages_.extract({next_age_of(group), &group});
}

void FairQueue::enter_or_erase(Group& group) {
  if (!group.entries.empty()) return enter_order(group);
  group.client->groups.erase({group.priority, group.is_first});
}

void FairQueue::update_ages(Clock::time_point now) {
  while (!ages_.empty() && ages_.begin()->first <= now) {
    Group& group = *ages_.begin()->second;
    leave_order(group);
    enter_order(group, age_steps(group.entries.begin()->second, now));
  }
}

}  // namespace tessera::server
