// The adapters of a served model: the ids of its LoRA adapters for clients, the scales that requests get if they name
// none, and the adapters of a request's sequences. Used by all workers.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "tessera/engine/adapter_set.h"
#include "tessera/server/json/generation_fields.h"

namespace tessera::server {

class ServedAdapters {
 public:
  /// adapters: those of the model's sessions in their order, with the scales of the start.
  explicit ServedAdapters(std::vector<SessionAdapter> adapters);

  /// LoRA adapters have the ids 0 to n_loras() - 1, in the order of the flags. Control vectors have no ids.
  int32_t n_loras() const { return static_cast<int32_t>(loras_.size()); }
  const Adapter& lora(int32_t id) const { return *adapters_[loras_[static_cast<size_t>(id)]].adapter; }

  /// The server's scales by id.
  std::vector<float> scales() const;
  /// Sets them for requests from now on; absent ids get 0. The ids must exist and the scales be finite.
  void set_scales(std::span<const LoraScale> named);

  /// The adapters of a request, as Session::set_adapters() wants them: the named ones only, or without a list those of
  /// the server. Control vectors always apply.
  std::vector<AdapterScale> of_request(const std::optional<std::vector<LoraScale>>& named) const;

 private:
  const std::vector<SessionAdapter> adapters_;
  std::vector<size_t> loras_{};  // by id: index of the adapter
  mutable std::mutex mutex_{};
  std::vector<float> scales_{};  // by id
};

}  // namespace tessera::server
