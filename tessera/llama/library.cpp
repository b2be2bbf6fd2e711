// llama.h: the library, and names of its enumerations.
#include <array>
#include <chrono>
#include <utility>

#include "tessera/base/cpu_info.h"
#include "tessera/gguf/split.h"
#include "tessera/llama/boundary.h"
#include "tessera/llama/registry.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

constexpr size_t kMaxDevices = 16;
constexpr size_t kMaxSequencesOfABatch = 256;
constexpr size_t kMaxTensorOverrides = 4096;

struct NumberName {
  int32_t number;
  const char* name;
};

// The two texts of a type: as the file states it, and guessed for a file that does not.
struct FileTypeName {
  int32_t number;
  const char* stated;
  const char* guessed;
};

#define TESSERA_FILE_TYPE(number, text) \
  { number, text, "(guessed) " text }
constexpr FileTypeName kFileTypeNames[] = {
    TESSERA_FILE_TYPE(0, "all F32"),
    TESSERA_FILE_TYPE(1, "F16"),
    TESSERA_FILE_TYPE(2, "Q4_0"),
    TESSERA_FILE_TYPE(3, "Q4_1"),
    TESSERA_FILE_TYPE(7, "Q8_0"),
    TESSERA_FILE_TYPE(8, "Q5_0"),
    TESSERA_FILE_TYPE(9, "Q5_1"),
    TESSERA_FILE_TYPE(10, "Q2_K - Medium"),
    TESSERA_FILE_TYPE(11, "Q3_K - Small"),
    TESSERA_FILE_TYPE(12, "Q3_K - Medium"),
    TESSERA_FILE_TYPE(13, "Q3_K - Large"),
    TESSERA_FILE_TYPE(14, "Q4_K - Small"),
    TESSERA_FILE_TYPE(15, "Q4_K - Medium"),
    TESSERA_FILE_TYPE(16, "Q5_K - Small"),
    TESSERA_FILE_TYPE(17, "Q5_K - Medium"),
    TESSERA_FILE_TYPE(18, "Q6_K"),
    TESSERA_FILE_TYPE(19, "IQ2_XXS - 2.0625 bpw"),
    TESSERA_FILE_TYPE(20, "IQ2_XS - 2.3125 bpw"),
    TESSERA_FILE_TYPE(21, "Q2_K - Small"),
    TESSERA_FILE_TYPE(22, "IQ3_XS - 3.3 bpw"),
    TESSERA_FILE_TYPE(23, "IQ3_XXS - 3.0625 bpw"),
    TESSERA_FILE_TYPE(24, "IQ1_S - 1.5625 bpw"),
    TESSERA_FILE_TYPE(25, "IQ4_NL - 4.5 bpw"),
    TESSERA_FILE_TYPE(26, "IQ3_S - 3.4375 bpw"),
    TESSERA_FILE_TYPE(27, "IQ3_S mix - 3.66 bpw"),
    TESSERA_FILE_TYPE(28, "IQ2_S - 2.5 bpw"),
    TESSERA_FILE_TYPE(29, "IQ2_M - 2.7 bpw"),
    TESSERA_FILE_TYPE(30, "IQ4_XS - 4.25 bpw"),
    TESSERA_FILE_TYPE(31, "IQ1_M - 1.75 bpw"),
    TESSERA_FILE_TYPE(32, "BF16"),
    TESSERA_FILE_TYPE(36, "TQ1_0 - 1.69 bpw ternary"),
    TESSERA_FILE_TYPE(37, "TQ2_0 - 2.06 bpw ternary"),
    TESSERA_FILE_TYPE(38, "MXFP4 MoE"),
    TESSERA_FILE_TYPE(39, "NVFP4"),
    TESSERA_FILE_TYPE(40, "Q1_0"),
    TESSERA_FILE_TYPE(41, "Q2_0"),
};
constexpr FileTypeName kUnknownFileType = TESSERA_FILE_TYPE(-1, "unknown, may not work");
#undef TESSERA_FILE_TYPE
constexpr int32_t kGuessedFileType = 1024;  // a bit of the number

constexpr NumberName kFlashAttentionNames[] = {{-1, "auto"}, {0, "disabled"}, {1, "enabled"}};
constexpr NumberName kLoadModeNames[] = {{-1, "auto"}, {0, "none"},       {1, "mmap"},
                                         {2, "mlock"}, {3, "mmap+mlock"}, {4, "dio"}};

constexpr std::array kMetaKeys = {
    "general.sampling.sequence", "general.sampling.top_k",           "general.sampling.top_p",
    "general.sampling.min_p",    "general.sampling.xtc_probability", "general.sampling.xtc_threshold",
    "general.sampling.temp",     "general.sampling.penalty_last_n",  "general.sampling.penalty_repeat",
    "general.sampling.mirostat", "general.sampling.mirostat_tau",    "general.sampling.mirostat_eta"};

const char* find_name(const char* function, std::span<const NumberName> names, int32_t number) {
  return guarded<const char*>(function, "unknown", [&]() -> Result<const char*> {
    for (const NumberName& one : names)
      if (one.number == number) return one.name;
    return fail(ErrorCode::invalid_argument, "no value has the number {}", number);
  });
}

}  // namespace

const char* tessera_llama_ftype_name(int32_t ftype) {
  const bool is_guessed = ftype < 0 || (ftype & kGuessedFileType) != 0;
  for (const FileTypeName& one : kFileTypeNames)
    if (ftype >= 0 && one.number == (ftype & ~kGuessedFileType)) return is_guessed ? one.guessed : one.stated;
  return is_guessed ? kUnknownFileType.guessed : kUnknownFileType.stated;
}

const char* tessera_llama_flash_attn_type_name(int32_t flash_attn_type) {
  return find_name("llama_flash_attn_type_name", kFlashAttentionNames, flash_attn_type);
}

const char* tessera_llama_load_mode_name(int32_t load_mode) {
  return find_name("llama_load_mode_name", kLoadModeNames, load_mode);
}

int32_t tessera_llama_load_mode_from_str(const char* str) {
  return guarded<int32_t>("llama_load_mode_from_str", -1, [&]() -> Result<int32_t> {
    TESSERA_ASSIGN(const std::string_view text, read_text(str, "str"));
    for (const NumberName& one : kLoadModeNames)
      if (text == one.name) return one.number;
    return fail(ErrorCode::invalid_argument, "unknown load mode '{}'", text);
  });
}

const char* tessera_llama_model_meta_key_str(int32_t key) {
  const bool is_known = key >= 0 && std::cmp_less(key, kMetaKeys.size());
  return is_known ? kMetaKeys[static_cast<size_t>(key)] : nullptr;
}

const char* tessera_llama_version() { return "0.5.0-tessera"; }

void tessera_llama_backend_init() {}
void tessera_llama_backend_free() {}

void tessera_llama_numa_init(int32_t numa) {
  if (numa != 0) log_line(LogLevel::warning, "llama_numa_init", "ignored: threads and memory are not bound to nodes");
}

int64_t tessera_llama_time_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

size_t tessera_llama_max_devices() { return kMaxDevices; }
size_t tessera_llama_max_parallel_sequences() { return kMaxSequencesOfABatch; }
size_t tessera_llama_max_tensor_buft_overrides() { return kMaxTensorOverrides; }
bool tessera_llama_supports_mmap() { return true; }
bool tessera_llama_supports_mlock() { return true; }
bool tessera_llama_supports_rpc() { return false; }

bool tessera_llama_supports_gpu_offload() {
  return guarded("llama_supports_gpu_offload", false, []() -> Result<bool> {
    TESSERA_ASSIGN(const auto registry, shared_registry());
    return !registry->gpus().empty();
  });
}

const char* tessera_llama_print_system_info() {
  return guarded<const char*>("llama_print_system_info", "", []() -> Result<const char*> {
    static const std::string text = "tessera: " + to_string(cpu_features());
    return text.c_str();
  });
}

int32_t tessera_llama_split_path(char* split_path, size_t maxlen, const char* path_prefix, int32_t split_no,
                                 int32_t split_count) {
  return guarded<int32_t>("llama_split_path", 0, [&]() -> Result<int32_t> {
    TESSERA_ASSIGN(const std::string_view prefix, read_text(path_prefix, "path_prefix"));
    if (split_no < 0 || split_count < 0)
      return fail(ErrorCode::invalid_argument, "part {} of {}", split_no, split_count);
    const std::string path =
        tessera::split_path(prefix, static_cast<uint32_t>(split_no), static_cast<uint32_t>(split_count));
    const int32_t length = write_text(path, split_path, maxlen);
    return std::cmp_less(length, maxlen) ? length : 0;
  });
}

int32_t tessera_llama_split_prefix(char* split_prefix, size_t maxlen, const char* split_path, int32_t split_no,
                                   int32_t split_count) {
  return guarded<int32_t>("llama_split_prefix", 0, [&]() -> Result<int32_t> {
    TESSERA_ASSIGN(const std::string_view path, read_text(split_path, "split_path"));
    const auto name = parse_split_path(path);
    if (!name || !std::cmp_equal(name->no, split_no) || !std::cmp_equal(name->count, split_count)) return 0;
    return write_text(name->prefix, split_prefix, maxlen);
  });
}
