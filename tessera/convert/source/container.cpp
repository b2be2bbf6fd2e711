#include "tessera/convert/source/container.h"

#include <algorithm>
#include <array>

#include "tessera/convert/source/ggml_file.h"
#include "tessera/convert/source/llama2c_file.h"
#include "tessera/convert/source/safetensors.h"
#include "tessera/convert/source/torch_file.h"

namespace tessera::convert {

// Files of llama2.c may begin with any numbers, so the others are first.
Result<Container> container_of(const File& file) {
  std::array<std::byte, kLlama2cHeadBytes> first{};
  const std::span<std::byte> begin(first.data(), std::min<size_t>(first.size(), file.size()));
  TESSERA_TRY(file.read_at(0, begin));
  const std::string_view text(reinterpret_cast<const char*>(first.data()), begin.size());
  if (torch_form(begin) != TorchForm::none) return Container::torch;
  if (is_safetensors(text, file.size())) return Container::safetensors;
  if (is_ggml_file(begin)) return Container::ggml;
  return is_llama2c_file(begin, file.size()) ? Container::llama2c : Container::none;
}

}  // namespace tessera::convert
