#include "tessera/gguf/magic.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tessera/gguf/printable.h"

namespace tessera {

namespace {

struct Foreign {
  std::string_view start;
  std::string_view advice;
};

constexpr std::string_view kOldGgml =
    "a GGML model file from before GGUF (2023): download the model as GGUF, or convert the original again";
constexpr std::string_view kPyTorch =
    "a PyTorch checkpoint: convert the model to GGUF first (convert_hf_to_gguf.py of llama.cpp)";
constexpr std::string_view kHtml =
    "an HTML page, not a model: the download saved a web page; fetch the file's own link (on Hugging Face: "
    "/resolve/, "
    "not /blob/)";

// The old magics were written as little-endian numbers, so their letters are reversed in the file.
constexpr std::array<Foreign, 14> kForeign = {{
    {"lmgg", kOldGgml},
    {"fmgg", kOldGgml},
    {"tjgg", kOldGgml},
    {"algg", "a GGLA file, an adapter from before GGUF (2023): convert the original adapter again"},
    {"GGML", kOldGgml},
    {"GGMF", kOldGgml},
    {"GGJT", kOldGgml},
    {"ggml", kOldGgml},
    {"ggjt", kOldGgml},
    {"ggla", "a GGLA file, an adapter from before GGUF (2023): convert the original adapter again"},
    {"PK\x03\x04", kPyTorch},
    {"\x80\x02", kPyTorch},
    {"version https://git-lfs",
     "a Git-LFS pointer, not the model itself: run `git lfs pull` in its repository, or download the file"},
    {"\x1f\x8b", "a gzip archive: unpack it first"},
}};

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool starts_with_html(std::string_view text) {
  const auto first = std::ranges::find_if_not(text, [](unsigned char c) { return std::isspace(c) != 0; });
  const std::string_view rest(first, text.end());
  const auto starts = [&](std::string_view tag) {
    return rest.size() >= tag.size() &&
           std::ranges::equal(rest.substr(0, tag.size()), tag, {}, [](unsigned char c) { return std::tolower(c); });
  };
  return starts("<!doctype html") || starts("<html") || starts("<head") || starts("<?xml");
}

// A safetensors file begins with the length of its JSON header, followed by the header.
bool is_safetensors(std::string_view text) {
  uint64_t n_header = 0;
  if (text.size() <= sizeof(n_header) || text[sizeof(n_header)] != '{') return false;
  std::memcpy(&n_header, text.data(), sizeof(n_header));
  return n_header <= text.size() - sizeof(n_header);
}

}  // namespace

Result<> check_gguf_magic(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes.first(std::min<size_t>(bytes.size(), 512)));
  if (text.starts_with(kGgufMagic)) return {};
  if (kGgufMagic.starts_with(text))
    return fail(ErrorCode::format, "offset 0: magic: truncated at byte {}", text.size());
  for (const Foreign& foreign : kForeign)
    if (text.starts_with(foreign.start)) return fail(ErrorCode::format, "offset 0: this is {}", foreign.advice);
  if (starts_with_html(text)) return fail(ErrorCode::format, "offset 0: this is {}", kHtml);
  if (is_safetensors(as_text(bytes)))
    return fail(ErrorCode::format,
                "offset 0: this is a safetensors file: convert the model to GGUF first "
                "(convert_hf_to_gguf.py of llama.cpp)");
  return fail(ErrorCode::format, "offset 0: magic, got {}, want 'GGUF': this is not a GGUF file",
              quote_name(text.substr(0, kGgufMagicBytes)));
}

}  // namespace tessera
