// Names of devices: "cuda:0" here is "CUDA0" in ggml.
#pragma once

#include <string>
#include <string_view>

namespace tessera::llama {

/// "CUDA0" for "cuda:0", "CPU" for "cpu"; other names stay as they are.
std::string ggml_device_name(std::string_view name);
/// "CUDA" for "cuda:0".
std::string ggml_backend_name(std::string_view name);
/// "cuda:0" for "CUDA0". Names that ggml has and this registry has not are in lower case.
std::string device_name_of_ggml(std::string_view name);

}  // namespace tessera::llama
