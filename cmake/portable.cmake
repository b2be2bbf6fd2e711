# TESSERA_PORTABLE: programs that need glibc and no other library. libstdc++, libgcc and fmt are linked in; BLAS, Vulkan
# and plugins are opened at run time, as always. The packages are built so (scripts/package.sh).
#
# The objects are those of a plain release build: only the link differs, so that the compiler cache serves both.
# tessera_fmt stands for fmt: the system's shared library, or the same code in a static one.
option(TESSERA_PORTABLE "Link libstdc++, libgcc and fmt into the programs" OFF)

if(NOT TESSERA_PORTABLE)
  set(tessera_fmt fmt::fmt)
  return()
endif()
add_link_options("$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-static-libstdc++;-static-libgcc>")
if(fmt_VERSION VERSION_GREATER_EQUAL 10)  # fmt.cpp names the templates of fmt 9, which Debian 12 and Ubuntu 24.04 have
  set(tessera_fmt fmt::fmt-header-only)
  return()
endif()
add_library(tessera_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)
target_include_directories(tessera_fmt SYSTEM PUBLIC $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_definitions(tessera_fmt PUBLIC $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
set(tessera_fmt tessera_fmt)
