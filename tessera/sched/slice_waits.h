// The slices that each slice of a schedule waits for, found while the slices are made in their order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/sched/schedule.h"

namespace tessera {

class SliceWaits {
 public:
  SliceWaits(const Graph& graph, std::span<const Device* const> devices);

  /// The number of slices up to the last one that wrote this storage; 0: none did.
  size_t n_up_to_writer(NodeId storage) const { return n_up_to_writer_[to_size(storage)]; }
  /// The slice that is being made copies a storage in this memory. It waits for the slice that wrote the storage, or,
  /// if that is a tensor, for all slices that may write it. Later slices that may overwrite it wait for the copy.
  void add_copy(Slice& slice, NodeId storage, const BufferType& memory);
  /// Completes the slice, which runs nodes [begin, end) of the graph. Returns whether it can overlap with the slice
  /// before it.
  bool add_slice(Slice& slice, NodeId begin, NodeId end);

 private:
  struct Made {
    size_t device;
    uint32_t number;  // among the slices of its device
  };

  const Graph& graph_;
  std::span<const Device* const> devices_;
  std::vector<size_t> n_up_to_writer_;  // by storage
  std::vector<Made> slices_;
  std::vector<uint32_t> n_slices_;  // by device
  std::vector<std::vector<uint32_t>>
      n_up_to_copier_;  // [to][from]: slices of `to` up to the last that copied from `from`
};

}  // namespace tessera
