// The table of the page's files, made from files.def. page.S holds their bytes.
#include "tessera/server/page/page.h"

#include <algorithm>
#include <iterator>

#define TESSERA_PAGE_FILE(number, path, file, type, etag, is_immutable, n_bytes) \
  extern const char tessera_page_file_##number##_begin[];                        \
  extern const char tessera_page_file_##number##_end[];
extern "C" {
#include "tessera/server/page/built/files.def"
}
#undef TESSERA_PAGE_FILE

namespace tessera::server {
namespace {

std::string_view bytes(const char* begin, const char* end) { return {begin, static_cast<size_t>(end - begin)}; }

}  // namespace

std::span<const PageFile> page_files() {
#define TESSERA_PAGE_FILE(number, path, file, type, etag, is_immutable, n_bytes)                            \
  PageFile{path, type,         bytes(tessera_page_file_##number##_begin, tessera_page_file_##number##_end), \
           etag, is_immutable, n_bytes},
  static const PageFile kFiles[] = {
#include "tessera/server/page/built/files.def"
  };
#undef TESSERA_PAGE_FILE
  return kFiles;
}

const PageFile* find_page_file(std::string_view path) {
  if (path == "/") path = "/index.html";
  const std::span<const PageFile> files = page_files();
  const auto found = std::ranges::find(files, path, &PageFile::path);
  return found == files.end() ? nullptr : &*found;
}

}  // namespace tessera::server
