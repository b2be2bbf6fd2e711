# libggml.so: the functions of ggml that consumers of libllama call, for programs without the genuine ggml.
#
# The code is in libtessera.so, as that of libllama (libllama.cmake). One library has all names; the others are links to
# it. They are in LAYOUT/ggml, with a layout's libllama: LD_LIBRARY_PATH comes before the place beside a program, so in
# LAYOUT they would replace the genuine ggml of a package, whose other libraries need more than these functions.
set(ggml_dir ${llama_dir}/ggml)
set(ggml_links libggml.so libggml.so.0 libggml-base.so libggml-base.so.0 libggml-cpu.so libggml-cpu.so.0)
set(ggml_links_v0_5 libggml.v0.5.0.so)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ggml_dir}/api.h ${ggml_dir}/refused.def)

set(ggml_stub_rows "")
file(STRINGS ${ggml_dir}/api.h ggml_declarations REGEX "^TESSERA_LLAMA_API ")
file(STRINGS ${ggml_dir}/refused.def ggml_refused REGEX "^TESSERA_GGML_REFUSED\\(")
foreach(row ${ggml_declarations} ${ggml_refused})
  string(REGEX MATCH "(tessera_|REFUSED\\()(gg[a-z0-9_]+)" matched "${row}")
  list(APPEND llama_private_names tessera_${CMAKE_MATCH_2})
  string(APPEND ggml_stub_rows "TESSERA_LLAMA_STUB(${CMAKE_MATCH_2}, tessera_${CMAKE_MATCH_2})\n")
endforeach()
set(ggml_stubs ${CMAKE_BINARY_DIR}/generated/ggml_stubs.S)
file(CONFIGURE OUTPUT ${ggml_stubs} CONTENT "#include \"tessera/llama/layouts/stubs.inc\"\n@ggml_stub_rows@" @ONLY)

# tessera_ggml_library(): the shared library beside those of libllama's layouts, and what is installed of it.
function(tessera_ggml_library)
  set(exports ${CMAKE_BINARY_DIR}/generated/ggml.map)
  file(CONFIGURE OUTPUT ${exports} CONTENT "{\n  global:\n    ggml_*;\n    gguf_*;\n  local:\n    *;\n};\n" @ONLY)
  set(folder tessera/llama/ggml)
  add_library(tessera_libggml SHARED ${ggml_stubs})
  target_include_directories(tessera_libggml PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(tessera_libggml PRIVATE tessera_c)
  target_link_options(tessera_libggml PRIVATE LINKER:--version-script=${exports} LINKER:--no-undefined
    LINKER:-z,relro,-z,now,-z,noexecstack)
  set_target_properties(tessera_libggml PROPERTIES OUTPUT_NAME ggml NO_SONAME OFF LINKER_LANGUAGE CXX
    LINK_DEPENDS ${exports} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/${folder} BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "${llama_rpath}")
  install(TARGETS tessera_libggml LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${folder} COMPONENT tessera)
  foreach(layout ${llama_layouts})
    set(folder tessera/llama/${llama_folder_${layout}}/ggml)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/lib/${folder})
    foreach(link ${ggml_links} ${ggml_links_${layout}})
      file(CREATE_LINK ../../ggml/libggml.so ${CMAKE_BINARY_DIR}/lib/${folder}/${link} SYMBOLIC)
    endforeach()
    foreach(link libllama.so ${llama_links_${layout}})
      file(CREATE_LINK ../libllama.so ${CMAKE_BINARY_DIR}/lib/${folder}/${link} SYMBOLIC)
    endforeach()
    install(DIRECTORY ${CMAKE_BINARY_DIR}/lib/${folder}/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/${folder}
      COMPONENT tessera)
  endforeach()
endfunction()
