# "cpack" creates a .deb and a .tar.gz from a TESSERA_PORTABLE build. scripts/package.sh runs all steps. The .tar.gz
# contains the same program and files in one folder.
set(TESSERA_PACKAGE_CONTACT "The tessera authors <maintainers@tessera.example>" CACHE STRING
  "Maintainer of the packages: NAME <ADDRESS>")
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME tessera)
set(CPACK_PACKAGE_VENDOR "The tessera authors")
set(CPACK_PACKAGE_CONTACT ${TESSERA_PACKAGE_CONTACT})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "inference of large language models from GGUF files on CPUs")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/dist)
string(TOLOWER "tessera-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" CPACK_PACKAGE_FILE_NAME)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
# Packages are reproducible: times, order and owners of files are fixed.
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/package/set_times.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/package/sort_archive.cmake)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/package/generators.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Packages of programs that use libtessera.so.1 then depend on this one.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/package/triggers)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# These libraries are opened at run time if installed. Downloads need libcurl. The others are not recommended packages:
# Vulkan depends on a compiler of 100 MB, and the CPU's own kernels are faster than BLAS.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libcurl4")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libvulkan1, libopenblas0-pthread")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "\
One program that reads a model file as it is, picks AVX-512, AVX2 or plain
code at run time, and says what memory it needs before it takes it. It gives
the same bits whatever the batch, the number of threads or the state of its
cache.

It generates text, measures perplexity, quantizes, trains, and shows what is
in a file and where the time goes. A small model is part of the program.")

set(debian_dir ${CMAKE_BINARY_DIR}/debian)
string(TIMESTAMP debian_date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # uses SOURCE_DATE_EPOCH if set
file(CONFIGURE OUTPUT ${debian_dir}/changelog CONTENT "tessera (@PROJECT_VERSION@-1) unstable; urgency=medium

  * Version @PROJECT_VERSION@.

 -- @TESSERA_PACKAGE_CONTACT@  @debian_date@
" @ONLY)
find_program(GZIP gzip REQUIRED)
execute_process(COMMAND ${GZIP} -9nfk ${debian_dir}/changelog COMMAND_ERROR_IS_FATAL ANY)
install(FILES ${debian_dir}/changelog.gz DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME changelog.Debian.gz
  COMPONENT debian EXCLUDE_FROM_ALL)

include(CPack)
