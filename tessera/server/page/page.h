// The files of the chat page, compressed with gzip and part of the program. The HTTP routes of the page serve them.
//
// The table is a constant. README.md beside this file describes how the files are made.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tessera::server {

struct PageFile {
  std::string_view path;          // "/index.html", as in a request
  std::string_view content_type;  // of the inflated file
  std::string_view gzip;          // the file, compressed
  std::string_view etag;          // a weak one with its quotes, the same for the compressed and the inflated file
  bool is_immutable;              // the path changes with the content, so that clients may keep the file for ever
  size_t n_inflated;              // bytes when inflated
};

/// All files, in no particular order.
std::span<const PageFile> page_files();

/// The file of a path; "/" is the index. Null: there is none.
const PageFile* find_page_file(std::string_view path);

/// The policy of the page (Content-Security-Policy): code, styles and connections of this server only, nothing inline.
inline constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "manifest-src 'self'; worker-src 'self'; base-uri 'none'; frame-ancestors 'none'";

}  // namespace tessera::server
