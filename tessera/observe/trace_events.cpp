#include "tessera/observe/trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/graph/op_info.h"
#include "tessera/text/json_quoted.h"

namespace tessera::observe {

namespace {

constexpr int kTokens = 1;

// Tracks of a device by its index: one for copies to it, one for its computations.
int copies_to(int device) { return 2 + 2 * device; }
int track_of(int device) { return 3 + 2 * device; }

std::string facts_of(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  return fmt::format(R"("node":{},"label":{},"type":{},"shape":{},"bytes":{})", id,
                     text::json_quoted(label_of(graph, id)), text::json_quoted(info(node.spec.dtype).name),
                     text::json_quoted(to_string(node.spec.shape())), span_bytes(node.spec.dtype, node.spec.layout));
}

}  // namespace

TraceEvents::TraceEvents(Clock::time_point begin) : begin_(begin), last_end_(begin) {
  events_ = R"({"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":"tessera"}})";
  add_track(kTokens, "tokens");
}

void TraceEvents::add_devices(std::span<const Device* const> devices) {
  for (int d = 0; d < static_cast<int>(devices.size()); ++d) {
    const std::string name(devices[to_size(d)]->name());
    if (devices.size() > 1) add_track(copies_to(d), "copies to " + name);
    add_track(track_of(d), name);
  }
}

void TraceEvents::add_track(int track, std::string_view name) {
  fmt::format_to(
      std::back_inserter(events_),
      ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{0},\"args\":{{\"name\":{1}}}}}"
      ",\n{{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":1,\"tid\":{0},\"args\":{{\"sort_index\":{0}}}}}",
      track, text::json_quoted(name));
}

// Begin and end are rounded to nanoseconds, so that events that meet at a point in time also meet in the text.
void TraceEvents::add(std::string_view name, std::string_view category, int track, double begin_us, double us,
                      std::string_view arguments) {
  const auto nanoseconds = [](double t) { return std::llround(std::max(t, 0.0) * 1e3); };
  const int64_t begin = nanoseconds(begin_us), ns = nanoseconds(begin_us + us) - begin;
  fmt::format_to(std::back_inserter(events_),
                 ",\n{{\"name\":{},\"cat\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{}.{:03},\"dur\":{}.{:03},"
                 "\"args\":{{{}}}}}",
                 text::json_quoted(name), category, track, begin / 1000, begin % 1000, ns / 1000, ns % 1000, arguments);
}

void TraceEvents::add_phase(std::string_view name, Clock::time_point begin, Clock::time_point end) {
  add(name, "phase", kTokens, us_of(begin), us_of(end) - us_of(begin), "");
}

void TraceEvents::add_step(std::string_view name, const StepView& step) {
  const Schedule& schedule = step.graph.schedule();
  const Graph& graph = schedule.graph;
  const double begin = us_of(step.begin);
  double end = 0;
  for (const RunLog::Slice& slice : step.log.slices) {
    const Slice& planned = schedule.slices[slice.index];
    end = std::max(end, slice.begin_us + slice.us);
    add(fmt::format("slice {}", slice.index), "slice", track_of(planned.device), begin + slice.begin_us, slice.us,
        fmt::format(R"("nodes":{},"copies":{})", planned.end - planned.begin, planned.copies.size()));
  }
  for (const NodeTime& node : step.log.nodes)
    add(info(graph[node.node].op).name, "node", track_of(schedule.assignment.device(node.node)), begin + node.begin_us,
        node.us, facts_of(graph, node.node));
  for (const NodeTime& copy : step.log.copies)
    add(fmt::format("copy {}", label_of(graph, copy.node)), "copy", copies_to(schedule.assignment.device(copy.node)),
        begin + copy.begin_us, copy.us, facts_of(graph, copy.node));
  add(name, "step", kTokens, begin, end, fmt::format(R"("tokens":{},"outputs":{})", step.n_tokens, step.n_outputs));
  last_end_ = step.begin + std::chrono::ceil<Clock::duration>(std::chrono::duration<double, std::micro>(end));
}

std::string TraceEvents::json() && {
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n", std::move(events_));
}

}  // namespace tessera::observe
