#include "tessera/backend/plugin_library.h"

#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "tessera/base/checked.h"
#include "tessera/base/file.h"

namespace tessera {

namespace {

constexpr size_t kMaxNameBytes = 32;

// Checks that all segments are within the file. The system's loader checks the header itself, but a segment beyond the
// end of the file crashes the process.
Result<> require_whole_library(const File& file) {
  ElfW(Ehdr) header{};
  if (file.size() < sizeof header) return fail(ErrorCode::format, "no shared library: {} bytes", file.size());
  TESSERA_TRY(file.read_at(0, std::as_writable_bytes(std::span(&header, 1))));
  constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != kClass ||
      header.e_type != ET_DYN || header.e_phentsize != sizeof(ElfW(Phdr)))
    return fail(ErrorCode::format, "no shared library of this kind of machine");
  std::vector<ElfW(Phdr)> segments(header.e_phnum);
  const auto end = checked_add<uint64_t>(header.e_phoff, segments.size() * sizeof(ElfW(Phdr)));
  if (!end || *end > file.size()) return fail(ErrorCode::format, "the file ends within its table of segments");
  TESSERA_TRY(file.read_at(header.e_phoff, std::as_writable_bytes(std::span(segments))));
  for (const ElfW(Phdr) & segment : segments) {
    const auto segment_end = checked_add<uint64_t>(segment.p_offset, segment.p_filesz);
    if (segment.p_type == PT_LOAD && (!segment_end || *segment_end > file.size()))
      return fail(ErrorCode::format, "a segment ends at byte {}, the file at {}",
                  segment_end.value_or(segment.p_offset), file.size());
  }
  return {};
}

// A plugin's exception starts in the plugin's copy of libgcc and passes through the program's copy on its way to
// guarded(). In a portable program (TESSERA_PORTABLE) these copies differ. The program's copy aborts unless its tables
// are initialized, which happens on any use.
void prepare_unwinder() {
  static_cast<void>(::_Unwind_Backtrace([](_Unwind_Context*, void*) { return _URC_END_OF_STACK; }, nullptr));
}

// Returns the loader's error message without the path at its beginning.
std::string loader_reason(const std::string& path) {
  const char* text = ::dlerror();
  std::string reason = printable_text(text == nullptr ? "the system gives no reason" : text);
  if (reason.starts_with(path + ": ")) reason.erase(0, path.size() + 2);
  return reason;
}

bool is_identifier(std::string_view text) {
  return text.size() <= kMaxNameBytes &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

ErrorCode error_code_of(int32_t code) {
  switch (code) {
    case TESSERA_PLUGIN_INVALID_ARGUMENT:
      return ErrorCode::invalid_argument;
    case TESSERA_PLUGIN_UNSUPPORTED:
      return ErrorCode::unsupported;
    case TESSERA_PLUGIN_OUT_OF_MEMORY:
      return ErrorCode::out_of_memory;
    case TESSERA_PLUGIN_LIMIT:
      return ErrorCode::limit;
    case TESSERA_PLUGIN_CANCELLED:
      return ErrorCode::cancelled;
    case TESSERA_PLUGIN_IO:
      return ErrorCode::io;
    default:
      return ErrorCode::internal;
  }
}

}  // namespace

std::string printable_text(const char* text, size_t max_bytes) {
  if (text == nullptr) return "";
  std::string copy(text, ::strnlen(text, max_bytes));
  for (char& c : copy)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return copy;
}

Result<> plugin_error(int32_t code, std::string_view who, const char* text) {
  if (code == kPluginThrew)
    return fail(ErrorCode::internal, "{}: failed with code {}, or threw an exception", who, code);
  const std::string reason = printable_text(text);
  if (reason.empty()) return fail(error_code_of(code), "{}: failed with code {}", who, code);
  return fail(error_code_of(code), "{}: {}", who, reason);
}

Result<std::shared_ptr<PluginLibrary>> PluginLibrary::open(const std::string& path) {
  std::shared_ptr<PluginLibrary> library(new PluginLibrary(path));
  TESSERA_TRY(library->load());
  return library;
}

PluginLibrary::~PluginLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

Result<> PluginLibrary::load() {
  {
    TESSERA_ASSIGN(const File file, File::open(path_));
    TESSERA_TRY(require_whole_library(file));
  }
  prepare_unwinder();
  // RTLD_NOW reports missing symbols here. RTLD_LOCAL keeps the plugin's symbols private.
  handle_ = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) return fail(ErrorCode::format, "{}", loader_reason(path_));
  void* symbol = ::dlsym(handle_, TESSERA_PLUGIN_SYMBOL);
  if (symbol == nullptr) return fail(ErrorCode::format, "no plugin: it has no symbol {}", TESSERA_PLUGIN_SYMBOL);
  const auto entry = reinterpret_cast<tessera_plugin_entry>(symbol);
  TESSERA_TRY(read_table(guarded<const tessera_plugin*>(nullptr, [&] { return entry(); })));
  TESSERA_TRY(read_identity());
  score_ = guarded(int32_t{0}, [&] { return table_.score(); });
  return {};
}

Result<> PluginLibrary::read_table(const tessera_plugin* raw) {
  if (raw == nullptr) return fail(ErrorCode::format, "{}() gives no table", TESSERA_PLUGIN_SYMBOL);
  if (raw->major != TESSERA_PLUGIN_MAJOR)
    return fail(ErrorCode::mismatch, "built for version {}.{} of the interface, this program has {}.{}", raw->major,
                raw->minor, TESSERA_PLUGIN_MAJOR, TESSERA_PLUGIN_MINOR);
  if (raw->size < sizeof(tessera_plugin))
    return fail(ErrorCode::format, "its table has {} bytes, that of version {}.0 has {}", raw->size,
                TESSERA_PLUGIN_MAJOR, sizeof(tessera_plugin));
  table_ = *raw;
#define TESSERA_WANT_FUNCTION(member) \
  if (table_.member == nullptr) return fail(ErrorCode::format, "its table has no {}()", #member)
  TESSERA_WANT_FUNCTION(score);
  TESSERA_WANT_FUNCTION(device_count);
  TESSERA_WANT_FUNCTION(device_open);
  TESSERA_WANT_FUNCTION(device_close);
  TESSERA_WANT_FUNCTION(device_info);
  TESSERA_WANT_FUNCTION(device_memory);
  TESSERA_WANT_FUNCTION(buffer_alloc);
  TESSERA_WANT_FUNCTION(buffer_free);
  TESSERA_WANT_FUNCTION(buffer_base);
  TESSERA_WANT_FUNCTION(buffer_set);
  TESSERA_WANT_FUNCTION(buffer_get);
  TESSERA_WANT_FUNCTION(buffer_clear);
  TESSERA_WANT_FUNCTION(supports);
  TESSERA_WANT_FUNCTION(backend_open);
  TESSERA_WANT_FUNCTION(backend_close);
  TESSERA_WANT_FUNCTION(work_bytes);
  TESSERA_WANT_FUNCTION(compile);
  TESSERA_WANT_FUNCTION(plan_free);
  TESSERA_WANT_FUNCTION(run);
#undef TESSERA_WANT_FUNCTION
  return {};
}

Result<> PluginLibrary::read_identity() {
  if (table_.name == nullptr || table_.variant == nullptr || table_.version == nullptr)
    return fail(ErrorCode::format, "its table has no name, variant or version");
  name_ = printable_text(table_.name, kMaxNameBytes + 1);
  variant_ = printable_text(table_.variant, kMaxNameBytes + 1);
  version_ = printable_text(table_.version, kMaxNameBytes);
  if (name_.empty() || !is_identifier(name_) || !is_identifier(variant_))
    return fail(ErrorCode::format, "name '{}', variant '{}': want at most {} of a-z, 0-9 and _", name_, variant_,
                kMaxNameBytes);
  // If the file's name contains the plugin's name and variant, they must match the table.
  const std::string stem = std::filesystem::path(path_).stem();
  constexpr std::string_view kPrefix = "libtessera-backend-";
  if (!stem.starts_with(kPrefix)) return {};
  const std::string told = variant_.empty() ? name_ : name_ + "-" + variant_;
  if (stem.substr(kPrefix.size()) != told)
    return fail(ErrorCode::mismatch, "calls itself {}, want {} as the file's name says", told,
                stem.substr(kPrefix.size()));
  return {};
}

}  // namespace tessera
