#include "tessera/hub/curl_library.h"

#include <dlfcn.h>

namespace tessera::hub {

namespace {

constexpr const char* kCurlFiles[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

template <class Function>
bool bind(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  return function != nullptr;
}

Result<CurlLibrary> load() {
  void* handle = nullptr;  // never closed: the library may have threads
  for (const char* file : kCurlFiles)
    if (handle == nullptr) handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail(ErrorCode::unsupported, "downloads need libcurl 7.85 or newer (package libcurl4), which is not there");
  CurlLibrary curl;
  const bool is_complete =
      bind(handle, "curl_global_init", curl.global_init) && bind(handle, "curl_easy_init", curl.easy_init) &&
      bind(handle, "curl_easy_setopt", curl.easy_setopt) && bind(handle, "curl_easy_getinfo", curl.easy_getinfo) &&
      bind(handle, "curl_easy_strerror", curl.easy_strerror) && bind(handle, "curl_easy_cleanup", curl.easy_cleanup) &&
      bind(handle, "curl_slist_append", curl.slist_append) &&
      bind(handle, "curl_slist_free_all", curl.slist_free_all) && bind(handle, "curl_multi_init", curl.multi_init) &&
      bind(handle, "curl_multi_cleanup", curl.multi_cleanup) && bind(handle, "curl_multi_setopt", curl.multi_setopt) &&
      bind(handle, "curl_multi_add_handle", curl.multi_add_handle) &&
      bind(handle, "curl_multi_remove_handle", curl.multi_remove_handle) &&
      bind(handle, "curl_multi_perform", curl.multi_perform) && bind(handle, "curl_multi_poll", curl.multi_poll) &&
      bind(handle, "curl_multi_info_read", curl.multi_info_read) &&
      bind(handle, "curl_multi_strerror", curl.multi_strerror);
  if (!is_complete || curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return fail(ErrorCode::unsupported, "downloads need libcurl 7.85 or newer, and this machine's cannot be used");
  return curl;
}

}  // namespace

Result<const CurlLibrary*> CurlLibrary::open() {
  static const Result<CurlLibrary> library = load();
  if (!library) return std::unexpected(library.error());
  return &*library;
}

}  // namespace tessera::hub
