#include "tessera/mpi/backend.h"

#include <utility>

#include "tessera/base/cpu_info.h"
#include "tessera/base/index.h"

namespace tessera::mpi {

namespace {

class RemotePlan final : public GraphPlan {
 public:
  RemotePlan(const RemoteDevice& remote, uint64_t backend, uint64_t number, NodeId n_nodes)
      : remote(remote), backend(backend), number(number), n_nodes(n_nodes) {}
  ~RemotePlan() override { remote.client->post(remote.rank, FreePlanRequest{backend, number}); }

  RemoteDevice remote;
  uint64_t backend, number;
  NodeId n_nodes;
};

class RemoteBackend final : public Backend {
 public:
  RemoteBackend(const Device& device, RemoteDevice remote, uint64_t number)
      : device_(device), remote_(std::move(remote)), number_(number) {}
  ~RemoteBackend() override { remote_.client->post(remote_.rank, CloseBackendRequest{number_}); }

  const Device& device() const override { return device_; }

  Result<size_t> work_bytes(const Graph& graph) const override {
    TESSERA_TRY(require_supported(device_, graph));
    TESSERA_ASSIGN(const DoneAnswer bytes,
                   remote_.client->ask<DoneAnswer>(remote_.rank, WorkBytesRequest{number_, wire(graph)}));
    if (bytes.number > device_.buffer_type().max_size())
      return fail(ErrorCode::limit, "{} asks for {} bytes of scratch memory, its largest buffer has {}", device_.name(),
                  bytes.number, device_.buffer_type().max_size());
    return bytes.number;
  }

  Result<std::unique_ptr<GraphPlan>> compile(const Graph& graph, std::span<const Tensor> tensors,
                                             const BufferRange& work) override {
    TESSERA_TRY(require_supported(device_, graph));
    TESSERA_TRY(require_tensors(device_, graph, tensors));
    CompileRequest request{
        .backend = number_, .graph = wire(graph), .places = {}, .work = {}, .work_bytes = work.bytes};
    for (const Tensor& tensor : tensors) request.places.push_back(place(*tensor.buffer, tensor.offset));
    if (work.bytes != 0) {
      if (work.buffer == nullptr || !device_.can_use(work.buffer->type()))
        return fail(ErrorCode::invalid_argument, "{} cannot address the scratch memory", device_.name());
      request.work = place(*work.buffer, work.offset);
    }
    TESSERA_ASSIGN(const DoneAnswer plan, remote_.client->ask<DoneAnswer>(remote_.rank, std::move(request)));
    return std::make_unique<RemotePlan>(remote_, number_, plan.number, graph.size());
  }

  Result<> run(GraphPlan& plan, const CancelToken* cancel) override {
    const RunRequest request{number_, static_cast<const RemotePlan&>(plan).number, false};
    TESSERA_TRY(remote_.client->ask<DoneAnswer>(remote_.rank, request, cancel));
    return {};
  }

  Result<std::vector<NodeTime>> run_timed(GraphPlan& plan, const CancelToken* cancel) override {
    const auto& own = static_cast<const RemotePlan&>(plan);
    TESSERA_ASSIGN(const TimesAnswer answer,
                   remote_.client->ask<TimesAnswer>(remote_.rank, RunRequest{number_, own.number, true}, cancel));
    std::vector<NodeTime> times;
    for (const auto& [node, us] : answer.times) {
      if (node < 0 || node >= own.n_nodes)
        return fail(ErrorCode::format, "{}: the time of node {}, want 0 to {}", device_.name(), node, own.n_nodes - 1);
      times.push_back({.node = node, .begin_us = us[0], .us = us[1], .prepare_us = us[2], .wait_us = us[3]});
    }
    return times;
  }

 private:
  // All buffers that the device can use are its own.
  WirePlace place(const Buffer& buffer, size_t offset) const {
    return {static_cast<const RemoteBuffer&>(buffer).number(), offset};
  }

  WireGraph wire(const Graph& graph) const {
    return to_wire(graph, [&](const Tensor& tensor) {
      const BufferType* type = tensor.buffer_type;
      return type != nullptr && device_.can_use(*type) ? static_cast<const RemoteBufferType&>(*type).index()
                                                       : kNoBufferType;
    });
  }

  const Device& device_;
  RemoteDevice remote_;
  uint64_t number_;
};

}  // namespace

int32_t wire_threads(const ThreadPoolOptions& threads) {
  return threads.n_threads == default_thread_count() ? 0 : threads.n_threads;
}

Result<std::unique_ptr<Backend>> open_backend(const Device& device, const RemoteDevice& remote,
                                              const BackendOptions& options) {
  const OpenBackendRequest request{remote.index, wire_threads(options.threads), options.activations};
  TESSERA_ASSIGN(const DoneAnswer made, remote.client->ask<DoneAnswer>(remote.rank, request));
  return std::make_unique<RemoteBackend>(device, remote, made.number);
}

}  // namespace tessera::mpi
