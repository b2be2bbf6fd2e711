# Files and destinations of "cmake --install" (listed in docs/install.md), and the packages (package.cmake).
#
# Components: `tessera` is part of every installation. `plain` is part of the .tar.gz and of builds by users. `debian`
# contains files with Debian-specific destinations and is part of the .deb only.
include(GNUInstallDirs)
if(TARGET tessera_capi AND NOT TESSERA_SANITIZE)
  include(shared_library)
  tessera_llama_libraries()
  tessera_ggml_library()
endif()

install(TARGETS tessera RUNTIME COMPONENT tessera)
if(TARGET tessera_open_mpi)
  install(TARGETS tessera_open_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tessera COMPONENT tessera)
endif()
# A link of this name is "tessera serve".
file(CREATE_LINK tessera ${CMAKE_BINARY_DIR}/tessera-serve SYMBOLIC)
install(FILES ${CMAKE_BINARY_DIR}/tessera-serve DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tessera)
install(FILES ${PROJECT_SOURCE_DIR}/include/tessera/backend_plugin.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera COMPONENT tessera)
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tessera)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tessera)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/package/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tessera)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT plain)

# The built program writes man pages and completions, so it must be able to run on the build machine.
if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
  find_program(GZIP gzip REQUIRED)
  set(commands_def ${PROJECT_SOURCE_DIR}/tessera/cli/commands.def)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${commands_def})
  file(STRINGS ${commands_def} rows REGEX "^TESSERA_COMMAND")
  set(pages "")

  # generated_page(FILE DESTINATION COMPONENT ARG...): writes the output of "tessera ARG..." to a file, packed if .gz.
  function(generated_page file destination component)
    set(page ${CMAKE_BINARY_DIR}/pages/${file})
    add_custom_command(OUTPUT ${page}
      COMMAND ${CMAKE_COMMAND} -DOUTPUT=${page} -DGZIP=${GZIP} "-DCOMMAND=$<TARGET_FILE:tessera>;${ARGN}"
        "-DEMULATOR=${CMAKE_CROSSCOMPILING_EMULATOR}" -P ${PROJECT_SOURCE_DIR}/cmake/page.cmake
      DEPENDS tessera ${PROJECT_SOURCE_DIR}/cmake/page.cmake
      COMMENT "Writing ${file}"
      VERBATIM)
    install(FILES ${page} DESTINATION ${destination} COMPONENT ${component})
    set(pages ${pages} ${page} PARENT_SCOPE)
  endfunction()

  generated_page(tessera.1.gz ${CMAKE_INSTALL_MANDIR}/man1 tessera man)
  foreach(row ${rows})
    string(REGEX MATCH "^TESSERA_COMMAND(_AS\\([a-z_]+, \"|\\()([a-z-]+)" matched "${row}")
    generated_page(tessera-${CMAKE_MATCH_2}.1.gz ${CMAKE_INSTALL_MANDIR}/man1 tessera man ${CMAKE_MATCH_2})
  endforeach()
  generated_page(tessera ${CMAKE_INSTALL_DATADIR}/bash-completion/completions tessera completion bash)
  generated_page(tessera.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d tessera completion fish)
  generated_page(_tessera ${CMAKE_INSTALL_DATADIR}/zsh/site-functions plain completion zsh)
  install(FILES ${CMAKE_BINARY_DIR}/pages/_tessera DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
    COMPONENT debian EXCLUDE_FROM_ALL)
  add_custom_target(tessera_pages ALL DEPENDS ${pages})
else()
  message(STATUS "No man pages and completions: this machine cannot run the program that writes them")
endif()

# Builds with sanitizers would test the same files again.
if(TESSERA_BUILD_TESTS AND TARGET tessera_pages AND NOT TESSERA_SANITIZE)
  add_test(NAME install.files COMMAND ${PROJECT_SOURCE_DIR}/tests/install/install_test.sh ${CMAKE_BINARY_DIR})
  add_test(NAME install.portable COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_portable.sh $<TARGET_FILE:tessera>)
  set_tests_properties(install.files install.portable PROPERTIES LABELS fast TIMEOUT 300)
  if(TARGET tessera_c)
    add_test(NAME install.library COMMAND ${PROJECT_SOURCE_DIR}/tests/install/library_test.sh ${CMAKE_BINARY_DIR})
    add_test(NAME install.abi COMMAND ${PROJECT_SOURCE_DIR}/tests/install/abi_test.sh)
    add_test(NAME install.ggml COMMAND ${PROJECT_SOURCE_DIR}/tests/install/ggml_test.sh ${CMAKE_BINARY_DIR})
    add_test(NAME install.llama_program
      COMMAND ${PROJECT_SOURCE_DIR}/tests/install/llama_program_test.sh ${CMAKE_BINARY_DIR})
    set_tests_properties(install.library install.abi install.ggml install.llama_program PROPERTIES LABELS fast
      TIMEOUT 600)
  endif()
  if(NOT TESSERA_PORTABLE)  # the program needs fmt and libstdc++, and the check must name one of them
    set_tests_properties(install.portable PROPERTIES PASS_REGULAR_EXPRESSION "error: .*tessera: needs lib")
  endif()
endif()

include(package)
