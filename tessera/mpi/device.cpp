#include "tessera/mpi/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/graph/builder.h"
#include "tessera/mpi/backend.h"

namespace tessera::mpi {

namespace {

using Properties = std::vector<std::pair<std::string, std::string>>;

std::string_view property(const Properties& properties, std::string_view name) {
  const auto found = std::ranges::find(properties, name, [](const auto& pair) { return std::string_view(pair.first); });
  return found == properties.end() ? std::string_view() : found->second;
}

class MpiDevice final : public Device {
 public:
  MpiDevice(RemoteDevice remote, std::string name, std::string host, WireDevice wire, std::unique_ptr<Device> twin)
      : remote_(std::move(remote)),
        name_(std::move(name)),
        host_(std::move(host)),
        wire_(std::move(wire)),
        twin_(std::move(twin)) {}

  // Compares the device with its twin. Errors: mismatch.
  Result<> open() {
    Properties theirs;
    for (const WireProperty& property : wire_.properties) theirs.emplace_back(property.name, property.value);
    const Properties ours = twin_->properties();
    if (property(ours, "isa") != property(theirs, "isa"))
      return fail(ErrorCode::mismatch,
                  "{} ({}) computes with {}, rank 0 with {}: results would differ. TESSERA_ISA chooses a set", name_,
                  host_, property(theirs, "isa"), property(ours, "isa"));
    const std::vector<const BufferType*> twins = twin_->buffer_types();
    if (!std::ranges::equal(twins, wire_.types, {}, &BufferType::name, &WireBufferType::name))
      return fail(ErrorCode::mismatch, "{} ({}) has other kinds of memory than rank 0", name_, host_);
    for (size_t i = 0; i < twins.size(); ++i) {
      const WireBufferType& type = wire_.types[i];
      if (type.alignment != twins[i]->alignment() || type.max_size == 0)
        return fail(ErrorCode::mismatch, "{} ({}): memory {} is aligned to {}, want {}", name_, host_, type.name,
                    type.alignment, twins[i]->alignment());
      types_.push_back(std::make_unique<RemoteBufferType>(*this, remote_, static_cast<uint32_t>(i),
                                                          i == 0 ? name_ : fmt::format("{}/{}", name_, type.name), type,
                                                          *twins[i]));
    }
    if (types_.empty()) return fail(ErrorCode::format, "{} ({}) has no memory", name_, host_);
    return {};
  }

  std::string_view name() const override { return name_; }
  std::string description() const override { return fmt::format("{} on {}", wire_.description, host_); }
  // Neither the CPU of this process nor a GPU that is used without being named.
  DeviceKind kind() const override { return DeviceKind::accelerator; }
  DeviceMemory memory() const override {
    const auto memory = remote_.client->ask<MemoryAnswer>(remote_.rank, MemoryRequest{remote_.index});
    return memory ? DeviceMemory{memory->total_bytes, memory->free_bytes} : DeviceMemory{};
  }
  Properties properties() const override {
    Properties properties{{"host", host_}, {"rank", std::to_string(remote_.rank)}};
    for (const auto& [name, value] : wire_.properties) properties.emplace_back(name, value);
    return properties;
  }

  const BufferType& buffer_type() const override { return *types_.front(); }
  std::vector<const BufferType*> buffer_types() const override {
    std::vector<const BufferType*> types;
    for (const auto& type : types_) types.push_back(type.get());
    return types;
  }
  const BufferType& weight_buffer_type(Op op, DType dtype, const Shape& shape) const override {
    const BufferType& twin = twin_->weight_buffer_type(op, dtype, shape);
    const auto found = std::ranges::find(types_, &twin, [](const auto& type) { return &type->twin(); });
    return found == types_.end() ? buffer_type() : **found;
  }
  bool can_use(const BufferType& type) const override { return &type.device() == this; }

  bool supports(const Graph& graph, NodeId id) const override {
    if (!graph[id].is_work()) return true;
    std::deque<Tensor> tensors;
    const auto part = for_twin(graph, id, tensors);
    return part && twin_->supports(*part, part->size() - 1);
  }
  bool supports_kv(DType dtype, KvSide side, int64_t dim) const override {
    return twin_->supports_kv(dtype, side, dim);
  }

  Result<std::unique_ptr<Buffer>> wrap_host(std::span<std::byte>) const override {
    return fail(ErrorCode::unsupported, "{} has no use for the host's memory", name_);
  }
  Result<std::unique_ptr<Backend>> create_backend(const BackendOptions& options) const override {
    return open_backend(*this, remote_, options);
  }
  Result<DevicePeaks> measure_peaks(const BackendOptions& options) const override {
    TESSERA_ASSIGN(
        const PeaksAnswer peaks,
        remote_.client->ask<PeaksAnswer>(remote_.rank, PeaksRequest{remote_.index, wire_threads(options.threads)}));
    return DevicePeaks{.int8_gmacs = peaks.int8_gmacs,
                       .f32_gmacs = peaks.f32_gmacs,
                       .int16_gmacs = peaks.int16_gmacs,
                       .read_gbps = peaks.read_gbps};
  }

 private:
  // A graph of one node, its operands and what they are views of, with tensors in the memory of the twin. Memory of
  // other devices stays as it is: it is as foreign to the twin as to this device.
  Result<Graph> for_twin(const Graph& graph, NodeId id, std::deque<Tensor>& tensors) const {
    std::map<NodeId, NodeId> ids;  // to those of the part, in the order of the graph
    for (NodeId source : graph[id].inputs())
      for (; source != kNoNode; source = graph[source].alias_of) ids.emplace(source, kNoNode);
    ids.emplace(id, kNoNode);
    GraphBuilder builder;
    for (auto& [old_id, new_id] : ids) {
      Node node = graph[old_id];
      const auto renamed = [&](NodeId other) {
        const auto found = ids.find(other);
        return found == ids.end() ? kNoNode : found->second;
      };
      for (size_t i = 0; i < node.n_sources; ++i) node.sources[i] = renamed(node.sources[i]);
      node.alias_of = renamed(node.alias_of);
      if (node.tensor != nullptr) {
        tensors.push_back(*node.tensor);
        if (const BufferType* type = tensors.back().buffer_type; type != nullptr && can_use(*type))
          tensors.back().buffer_type = &static_cast<const RemoteBufferType&>(*type).twin();
        node.tensor = &tensors.back();
      }
      new_id = builder.append(std::move(node));
    }
    return std::move(builder).finish();
  }

  RemoteDevice remote_;
  std::string name_, host_;
  WireDevice wire_;
  std::unique_ptr<Device> twin_;
  std::vector<std::unique_ptr<RemoteBufferType>> types_;
};

}  // namespace

Result<RemoteDevices> create_devices(std::shared_ptr<Client> client, const TwinMaker& make_twin) {
  RemoteDevices found;
  for (const Client::Worker& worker : client->workers()) {
    std::vector<std::string> cpus, others;
    for (size_t i = 0; i < worker.devices.size(); ++i) {
      const WireDevice& wire = worker.devices[i];
      std::string name = fmt::format("mpi:{}", worker.rank);
      if (worker.devices.size() > 1) name += fmt::format("/{}", wire.name);
      auto twin = make_twin(wire);
      if (!twin && twin.error().code() == ErrorCode::unsupported) {
        found.notes.push_back(fmt::format("{} ({}): {}", name, worker.host, twin.error().message()));
        continue;
      }
      if (!twin) return forward_error(twin, name);
      auto device = std::make_unique<MpiDevice>(RemoteDevice{client, worker.rank, static_cast<uint32_t>(i)}, name,
                                                worker.host, wire, std::move(*twin));
      TESSERA_TRY(device->open());
      found.devices.push_back(std::move(device));
      (wire.kind == DeviceKind::cpu ? cpus : others).push_back(std::move(name));
    }
    std::ranges::move(others.empty() ? cpus : others, std::back_inserter(found.preferred));
  }
  return found;
}

}  // namespace tessera::mpi
