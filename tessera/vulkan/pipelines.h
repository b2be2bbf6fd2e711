// Shaders specialized for a format and a variant, made when a graph first needs them and kept: in memory, and as far as
// the driver allows on disk for the next time.
#pragma once

#include <map>
#include <mutex>
#include <tuple>

#include "tessera/vulkan/context.h"
#include "tessera/vulkan/disk_cache.h"
#include "tessera/vulkan/step.h"

namespace tessera::vulkan {

class Pipelines {
 public:
  explicit Pipelines(const Context& context);
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;
  ~Pipelines();

  Result<> create();
  /// Any thread. Errors: io, out_of_memory.
  Result<VkPipeline> find(Shader shader, uint32_t variant, DType format, DType format2);
  VkPipelineLayout layout() const { return layout_; }
  /// Writes what the driver has compiled since the last time, if anything.
  void save();

 private:
  using Key = std::tuple<Shader, uint32_t, DType, DType>;
  Result<VkPipeline> make(const Key& key) const;

  const Context& context_;
  DiskCache disk_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::mutex mutex_;
  std::map<Key, VkPipeline> pipelines_;
  uint64_t saved_hash_ = 0;  // of what is on disk
  bool is_new_ = false;      // whether a pipeline has been made since
};

}  // namespace tessera::vulkan
