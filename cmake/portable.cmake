# TESSERA_PORTABLE builds programs that need no shared library but glibc. libstdc++, libgcc, fmt, utf8proc and OpenSSL
# are linked statically. libcurl, BLAS, Vulkan and plugins are opened at run time, as in all builds. Packages use this
# option (scripts/package.sh).
#
# The objects equal those of an ordinary release build and only the link differs, so both share the compiler cache.
# tessera_fmt is fmt: the system's shared library, or the same code as a static library. tessera_utf8proc is utf8proc:
# the system's library, shared or static. So is tessera_openssl.
option(TESSERA_PORTABLE "Link libstdc++, libgcc, fmt, utf8proc and OpenSSL into the programs" OFF)

find_path(utf8proc_include utf8proc.h REQUIRED)
find_path(curl_include curl/curl.h REQUIRED)  # the headers: the library is opened at run time
if(TESSERA_PORTABLE)
  set(OPENSSL_USE_STATIC_LIBS ON)
endif()
find_package(OpenSSL 3 REQUIRED)
set(tessera_openssl OpenSSL::SSL OpenSSL::Crypto)
if(NOT TESSERA_PORTABLE)
  find_library(tessera_utf8proc utf8proc REQUIRED)
  set(tessera_fmt fmt::fmt)
  return()
endif()
find_library(tessera_static_utf8proc libutf8proc.a REQUIRED)
set(tessera_utf8proc ${tessera_static_utf8proc})
add_link_options("$<$<IN_LIST:$<TARGET_PROPERTY:TYPE>,EXECUTABLE;SHARED_LIBRARY>:-static-libstdc++;-static-libgcc>")
if(fmt_VERSION VERSION_GREATER_EQUAL 10)  # fmt.cpp instantiates the templates of fmt 9 (Debian 12 and Ubuntu 24.04)
  set(tessera_fmt fmt::fmt-header-only)
  return()
endif()
add_library(tessera_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)
target_include_directories(tessera_fmt SYSTEM PUBLIC $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_definitions(tessera_fmt PUBLIC $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
set(tessera_fmt tessera_fmt)
