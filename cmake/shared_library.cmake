# libtessera.so: the C interface (include/tessera/tessera.h) for other programs, and what they find it by.
#
# The version is that of the interface, not of the program: tessera.h has it. Only a new major version changes the
# SONAME. The library exports the functions of tessera.h and tessera_experimental.h, and nothing else.
set(header ${PROJECT_SOURCE_DIR}/include/tessera/tessera.h)
foreach(part MAJOR MINOR PATCH)
  file(STRINGS ${header} line REGEX "^#define TESSERA_VERSION_${part} ")
  string(REGEX REPLACE "^.* " "" interface_${part} "${line}")
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
set(interface_version ${interface_MAJOR}.${interface_MINOR}.${interface_PATCH})

# Functions without a promise have a header and a version node of their own.
set(experimental_header ${PROJECT_SOURCE_DIR}/include/tessera/tessera_experimental.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${experimental_header})
# The node without a header is for the libraries of llama.h that come with this one (libllama.cmake).
set(private_names ${llama_private_names})
include(exports)
set(exports ${CMAKE_BINARY_DIR}/generated/exports.map)
tessera_exports(${header} ${exports} EXPERIMENTAL=${experimental_header})
add_library(tessera_c SHARED $<TARGET_OBJECTS:tessera_capi> $<TARGET_OBJECTS:tessera_llama>)
target_link_libraries(tessera_c PRIVATE $<TARGET_PROPERTY:tessera_capi,LINK_LIBRARIES>
  $<TARGET_PROPERTY:tessera_llama,LINK_LIBRARIES>)
target_link_options(tessera_c PRIVATE LINKER:--version-script=${exports} LINKER:--no-undefined
  LINKER:-z,relro,-z,now,-z,noexecstack)
set_target_properties(tessera_c PROPERTIES OUTPUT_NAME tessera VERSION ${interface_version} SOVERSION ${interface_MAJOR}
  LINK_DEPENDS ${exports} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
target_include_directories(tessera_c INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# ---- installation
include(CMakePackageConfigHelpers)
install(TARGETS tessera_c EXPORT tessera_targets LIBRARY COMPONENT tessera)
set_target_properties(tessera_c PROPERTIES EXPORT_NAME tessera)
install(FILES ${header} ${experimental_header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera COMPONENT tessera)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(EXPORT tessera_targets NAMESPACE tessera:: DESTINATION ${package_dir} COMPONENT tessera
  FILE tessera-config.cmake)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tessera-config-version.cmake VERSION ${interface_version}
  COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tessera-config-version.cmake DESTINATION ${package_dir} COMPONENT tessera)
# The prefix is found from the place of the file, so that an installation can be moved.
file(RELATIVE_PATH prefix_from_pkgconfig /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/tessera.pc.in ${CMAKE_BINARY_DIR}/tessera.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tessera.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT tessera)

# ---- man pages, section 3, of the header's comments
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  set(library_pages_dir ${CMAKE_BINARY_DIR}/pages/man3)
  set(library_pages ${PROJECT_SOURCE_DIR}/scripts/library_pages.py)
  add_custom_command(OUTPUT ${library_pages_dir}/libtessera.3.gz
    COMMAND ${Python3_EXECUTABLE} -B ${library_pages} ${header} ${library_pages_dir}
    DEPENDS ${header} ${library_pages} ${PROJECT_SOURCE_DIR}/scripts/library_header.py
    COMMENT "Writing the man pages of the library"
    VERBATIM)
  add_custom_target(tessera_library_pages ALL DEPENDS ${library_pages_dir}/libtessera.3.gz)
  install(DIRECTORY ${library_pages_dir}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 COMPONENT tessera)
else()
  message(STATUS "No man pages of the library: no Python")
endif()
