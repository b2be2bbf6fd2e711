// Shaders specialized for a format and a variant, compiled when a graph first needs them. They are cached in memory
// and, if the driver supports it, on disk.
#pragma once

#include <map>
#include <mutex>
#include <tuple>

#include "tessera/vulkan/context.h"
#include "tessera/vulkan/disk_cache.h"
#include "tessera/vulkan/kernels.h"

namespace tessera::vulkan {

class Pipelines {
 public:
  explicit Pipelines(const Context& context);
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;
  ~Pipelines();

  Result<> create();
  /// Returns a pipeline, compiling it if necessary. May be called from any thread. Errors: io, out_of_memory.
  Result<VkPipeline> find(Shader shader, uint32_t variant, DType format, DType format2);
  VkPipelineLayout layout() const { return layout_; }
  /// Writes pipelines compiled since the last call to disk, if there are any.
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
  uint64_t saved_hash_ = 0;  // of the data on disk
  bool is_new_ = false;      // a pipeline was compiled since the last save()
};

}  // namespace tessera::vulkan
