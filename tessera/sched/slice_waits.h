// What each slice of a schedule waits for, found while slices are made one after another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/sched/schedule.h"

namespace tessera {

class SliceWaits {
 public:
  SliceWaits(const Graph& graph, std::span<const Device* const> devices);

  /// How many slices there are up to the last that wrote what lies in this storage; 0: none did.
  size_t n_up_to_writer(NodeId storage) const { return n_up_to_writer_[static_cast<size_t>(storage)]; }
  /// The slice that is being made copies what lies in this storage, in this memory: it waits for the slice that wrote
  /// it, for a tensor for all that may write there; and whoever may overwrite it will wait for the copy.
  void add_copy(Slice& slice, NodeId storage, const BufferType& memory);
  /// The slice is made: it runs nodes [begin, end) of the graph. Whether it may run beside the one before.
  bool add_slice(Slice& slice, NodeId begin, NodeId end);

 private:
  struct Made {
    size_t device;
    uint32_t number;  // among those of its device
  };

  const Graph& graph_;
  std::span<const Device* const> devices_;
  std::vector<size_t> n_up_to_writer_;  // by storage
  std::vector<Made> slices_;
  std::vector<uint32_t> n_slices_;  // by device
  std::vector<std::vector<uint32_t>>
      n_up_to_copier_;  // [to][from]: slices of `to` up to the last that copied from there
};

}  // namespace tessera
