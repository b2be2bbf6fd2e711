#include "tessera/engine/engine.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>

#include "tessera/base/hash.h"
#include "tessera/base/index.h"
#include "tessera/engine/expert_files.h"
#include "tessera/engine/fingerprint.h"
#include "tessera/engine/vocab_loader.h"
#include "tessera/engine/weight_loader.h"

namespace tessera {

namespace {

// Kernels read rows as floats. Tensors with a smaller alignment in the file are copied.
constexpr uintptr_t kInPlaceAlignment = 8;

}  // namespace

Result<std::shared_ptr<Engine>> Engine::open(const Registry& registry, const std::string& path,
                                             const EngineOptions& options) {
  TESSERA_ASSIGN(std::unique_ptr<ModelFiles> files, ModelFiles::open(path));
  return open(registry, std::move(files), options);
}

Result<std::shared_ptr<Engine>> Engine::open(const Registry& registry, std::unique_ptr<ModelFiles> files,
                                             const EngineOptions& options) {
  std::shared_ptr<Engine> engine(new Engine);
  engine->options_ = options;
  engine->registry_ = &registry;
  engine->files_ = std::move(files);
  TESSERA_ASSIGN(engine->model_, create_model(*engine->files_, options.rope));
  if (options.head == HeadUse::needed || (options.head == HeadUse::optional && engine->model_->may_add_head()))
    TESSERA_TRY(engine->model_->add_head());
  if (!engine->model_->info().follower) {
    engine->options_.target = nullptr;  // needs no states of it
  } else if (options.target == nullptr) {
    return fail(ErrorCode::unsupported, "{}: a draft model ({}), which runs beside the model for which it guesses only",
                engine->files_->name(), engine->model_->info().architecture);
  } else {
    TESSERA_TRY(engine->model_->follow(options.target->model()));
  }
  TESSERA_ASSIGN(engine->tokenizer_, load_tokenizer(*engine->files_, engine->model_->info().n_vocab));
  engine->warnings_ = engine->tokenizer_->warnings();
  TESSERA_TRY(engine->place(options.placement));
  return engine;
}

Result<> Engine::place(const PlacementOptions& options) {
  loaded_ = false;
  maps_.clear();
  streams_.reset();
  TESSERA_ASSIGN(placement_, ModelPlacement::create(*registry_, model_->info(), options));
  options_.placement = options;
  return plan_weights();
}

bool Engine::is_usable_in_place(const Weight& weight, const BufferType& type) const {
  const auto address = reinterpret_cast<uintptr_t>(files_->data(*weight.source).data());
  return options_.load == LoadMode::mmap && &type == &placement_->cpu().buffer_type() && type.is_host() &&
         address % kInPlaceAlignment == 0;
}

Result<> Engine::plan_weights() {
  in_place_.clear();
  copied_.clear();
  streamed_.clear();
  memory_ = {};
  for (Weight& weight : model_->weights().weights()) {
    weight.tensor.buffer = nullptr;
    weight.tensor.row_parts = nullptr;
    TESSERA_ASSIGN(weight.tensor.buffer_type, placement_->type_of(weight, options_.pack_weights));
    weight.row_parts = placement_->row_parts_of(weight, options_.pack_weights);
    if (!weight.row_parts.empty()) {
      weight.tensor.row_parts = &weight.row_parts;
      copied_.push_back(&weight);
      for (Tensor& part : weight.row_parts) memory_.add(part, *part.buffer_type);
      continue;
    }
    if (options_.placement.expert_cache && can_stream(weight)) {
      streamed_.push_back(&weight);
      continue;
    }
    const BufferType& type = *weight.tensor.buffer_type;
    if (is_usable_in_place(weight, type)) {
      in_place_.push_back(&weight);
      continue;
    }
    copied_.push_back(&weight);
    memory_.add(weight.tensor, type);
  }
  auto planned = memory_.plan();
  if (!planned) return forward_error(planned, files_->name());
  return plan_streams();
}

// Only experts that the CPU computes. A rule that names other memory for them goes first.
bool Engine::can_stream(const Weight& weight) const {
  const Device& cpu = placement_->cpu();
  const StreamedBufferType* type = cpu.streamed_buffer_type();
  const Tensor& tensor = weight.tensor;
  if (type == nullptr || weight.use != Op::mul_mat_experts) return false;
  const bool is_default = tensor.buffer_type == &cpu.weight_buffer_type(weight.use, tensor.dtype, tensor.shape()) ||
                          tensor.buffer_type == &cpu.buffer_type();
  return is_default && type->slot_bytes(tensor.dtype, tensor.shape()).has_value();
}

bool Engine::can_stream_experts() const {
  return !streamed_.empty() ||
         std::ranges::any_of(model_->weights().weights(), [&](const Weight& weight) { return can_stream(weight); });
}

Result<> Engine::plan_streams() {
  slots_.clear();
  stream_bytes_ = 0;
  if (streamed_.empty()) return {};
  const StreamedBufferType& type = *placement_->cpu().streamed_buffer_type();
  std::vector<const Tensor*> tensors;
  for (Weight* weight : streamed_) {
    weight->tensor.buffer_type = &type;
    weight->tensor.offset = tensors.size();
    tensors.push_back(&weight->tensor);
  }
  TESSERA_ASSIGN(slots_, divide_slots(type, tensors, *options_.placement.expert_cache));
  TESSERA_ASSIGN(stream_bytes_, type.cache_bytes(slots_));
  return {};
}

Result<> Engine::create_streams() {
  if (streamed_.empty()) return {};
  TESSERA_ASSIGN(auto source, ExpertFiles::open(*files_, {streamed_.begin(), streamed_.end()}, reads_directly()));
  TESSERA_ASSIGN(streams_, placement_->cpu().streamed_buffer_type()->create(slots_, std::move(source)));
  for (Weight* weight : streamed_) weight->tensor.buffer = streams_.get();
  return {};
}

// The page cache is faster than the disk if it can keep all experts. If it cannot, it keeps those that were read last
// and are in the cache of experts anyway.
bool Engine::reads_directly() const {
  if (options_.placement.expert_reads != ExpertReads::automatic)
    return options_.placement.expert_reads == ExpertReads::direct;
  uint64_t bytes = stream_bytes_;
  for (const Weight* weight : streamed_) bytes += weight->source->info.n_bytes;
  return bytes > placement_->cpu().memory().free_bytes;
}

std::optional<StreamCounts> Engine::stream_counts() const {
  if (streams_ == nullptr) return std::nullopt;
  return streams_->counts();
}

void Engine::add_streams(std::vector<MemoryPart>& parts, size_t bytes) const {
  if (bytes == 0) return;
  const StreamedBufferType& type = *placement_->cpu().streamed_buffer_type();
  parts.push_back({MemoryPart::Kind::weights, std::string(type.device().name()), std::string(type.name()), bytes});
}

void Engine::add_mapped(std::vector<MemoryPart>& parts, size_t bytes) const {
  if (bytes == 0) return;
  const Device& cpu = placement_->cpu();
  parts.push_back(
      {MemoryPart::Kind::weights, std::string(cpu.name()), std::string(cpu.buffer_type().name()) + "-mapped", bytes});
}

std::vector<MemoryPart> Engine::planned_memory() const {
  std::vector<MemoryPart> parts = memory_parts(MemoryPart::Kind::weights, memory_.planned());
  size_t mapped = 0;
  for (const Weight* weight : in_place_) mapped += weight->source->info.n_bytes;
  add_streams(parts, stream_bytes_);
  add_mapped(parts, mapped);
  return parts;
}

std::vector<MemoryPart> Engine::allocated_memory() const {
  std::vector<MemoryPart> parts = memory_parts(MemoryPart::Kind::weights, memory_.allocated());
  add_streams(parts, streams_ == nullptr ? 0 : streams_->size());
  size_t mapped = 0;
  for (const Weight* weight : in_place_)
    if (weight->tensor.buffer != nullptr) mapped += span_bytes(weight->tensor.dtype, weight->tensor.layout);
  add_mapped(parts, mapped);
  return parts;
}

Result<> Engine::map_in_place() {
  if (in_place_.empty()) return {};
  for (const auto& file : files_->files()) {
    // The pages are mapped read-only, and nothing writes to these buffers.
    const std::span<const std::byte> bytes = file->bytes();
    TESSERA_ASSIGN(auto buffer, placement_->cpu().wrap_host({const_cast<std::byte*>(bytes.data()), bytes.size()}));
    maps_.push_back(std::move(buffer));
  }
  for (Weight* weight : in_place_) {
    weight->tensor.buffer = maps_[weight->source->file].get();
    weight->tensor.offset = weight->source->info.file_offset;
  }
  return {};
}

void Engine::lock_all() {
  size_t failed = 0;
  const auto lock = [&](const std::byte* data, size_t bytes) {
    if (bytes != 0 && ::mlock(data, bytes) != 0) failed += bytes;
  };
  for (const auto& buffer : memory_.buffers())
    if (buffer->base() != nullptr) lock(buffer->base(), buffer->size());
  if (streams_ != nullptr) lock(streams_->base(), streams_->size());
  for (const Weight* weight : in_place_) lock(files_->data(*weight->source).data(), weight->source->info.n_bytes);
  if (failed != 0)
    warnings_.push_back(fmt::format(
        "cannot lock {} bytes of weights in memory (raise the limit: ulimit -l); they may be swapped out", failed));
}

Result<> Engine::load(const LoadProgress& progress) {
  if (loaded_) return {};
  maps_.clear();  // left by a failed attempt
  streams_.reset();
  TESSERA_TRY(memory_.allocate(BufferUsage::weights));
  TESSERA_TRY(map_in_place());
  const WeightLoader loader(*files_,
                            {.mode = options_.load, .check = options_.check_tensors, .threads = options_.threads});
  std::vector<const Weight*> only_checked(in_place_.begin(), in_place_.end());
  only_checked.insert(only_checked.end(), streamed_.begin(), streamed_.end());
  TESSERA_TRY(loader.load(copied_, only_checked, progress));
  TESSERA_TRY(create_streams());  // last, when the other weights no longer count as free memory
  TESSERA_TRY(require_files());
  if (options_.lock_memory) lock_all();
  loaded_ = true;
  return {};
}

Result<> Engine::require_files() const {
  for (const auto& file : files_->files())
    if (file->map() != nullptr && file->map()->is_lost())
      return fail(ErrorCode::io, "{}: the file changed while it was mapped", file->name());
  return {};
}

Result<> require_memory(const Engine& engine, const MemoryReport& report) {
  for (const Device* device : engine.devices()) {
    const uint64_t wanted = report.bytes_of(device->name()), free = device->memory().free_bytes;
    if (free == 0 || wanted <= free) continue;
    return fail(ErrorCode::out_of_memory,
                "{}: {} bytes needed, {} available on {} (a smaller context, option n_ctx, needs less)",
                engine.files().name(), wanted, free, device->name());
  }
  return {};
}

uint64_t Engine::fingerprint() const {
  Hash64 hash;
  add_fingerprint(hash, *files_);
  // K is stored rotated, so a saved state is valid only for the same rope settings. Options can change them.
  for (const nn::Rope& rope : model_->info().ropes) {
    const nn::RopeConfig& c = rope.config;
    const std::array<double, 9> settings = {static_cast<double>(c.scaling),
                                            c.freq_base,
                                            c.factor,
                                            static_cast<double>(c.original_context),
                                            c.attn_factor,
                                            c.yarn_ext,
                                            c.yarn_beta_fast,
                                            c.yarn_beta_slow,
                                            c.yarn_log_multiplier};
    hash.add(std::as_bytes(std::span(settings)));
  }
  return hash.value();
}

}  // namespace tessera
