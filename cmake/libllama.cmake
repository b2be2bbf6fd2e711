# libllama.so: the functions of llama.h over the engine, one small library for each layout of its structs.
#
# All code but the conversion of structs is in libtessera.so, which exports it as tessera_NAME under a version node
# without a promise. The names come from tessera/llama/api.h and aliases.def. A layout's library has them as jumps.
set(llama_dir ${PROJECT_SOURCE_DIR}/tessera/llama)
set(llama_layouts v0_5 v2026_08 v2026_05)
set(llama_folder_v0_5 0.5)
set(llama_folder_v2026_08 2026-08)
set(llama_folder_v2026_05 2026-05)
set(llama_links_v2026_08 libllama.so.0)
set(llama_links_v2026_05 libllama.so.0)
set(llama_exports_v2026_08 llama_*)
set(llama_exports_v2026_05 llama_*)
# Names that are no jumps in a layout, because its functions have other parameters.
set(llama_own_v2026_05 llama_sampler_init_penalties llama_sampler_init_dry)
set(llama_links_v0_5 libllama.so.0 libllama.v0.5.0.so)
set(llama_sources_v0_5 ${llama_dir}/layouts/addon_symbols.cpp)
# C++ names of addon_symbols.cpp, whose parameters are types of the standard library.
set(llama_exports_v0_5 llama_* _Z12llm_arch_allv _Z13llm_arch_name8llm_arch _Z18llm_arch_is_hybridRK8llm_arch
  _Z21llm_arch_is_recurrentRK8llm_arch _Z20llm_arch_from_string* _Z20llama_grammar_acceptP13llama_grammarj
  _Z23llama_grammar_free_impl* _Z23llama_grammar_init_impl* _Z24llama_grammar_get_stacks* _Z22unicode_cpts_from_utf8*
  _ZNK11llama_model16memory_breakdownEv _ZNK13llama_context16memory_breakdownEv)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${llama_dir}/api.h ${llama_dir}/aliases.def)

# llama_private_names: the exports of libtessera.so.
set(llama_private_names "")
set(llama_stub_rows "")
file(STRINGS ${llama_dir}/api.h llama_declarations REGEX "^TESSERA_LLAMA_API ")
foreach(declaration ${llama_declarations})
  string(REGEX MATCH "tessera_llama_[a-z0-9_]+" name "${declaration}")
  list(APPEND llama_private_names ${name})
  if(NOT name MATCHES "^tessera_llama_layout_")
    string(REGEX REPLACE "^tessera_" "" stub ${name})
    string(APPEND llama_stub_rows "TESSERA_LLAMA_STUB(${stub}, ${name})\n")
  endif()
endforeach()
file(STRINGS ${llama_dir}/aliases.def llama_aliases REGEX "^TESSERA_LLAMA_ALIAS")
foreach(alias ${llama_aliases})
  string(REGEX REPLACE "^.*\\(([a-z0-9_]+), ([a-z0-9_]+)\\)$" "TESSERA_LLAMA_STUB(\\1, tessera_\\2)\n" row "${alias}")
  string(APPEND llama_stub_rows "${row}")
endforeach()

# tessera_llama_LAYOUT: the objects of a layout's library.
foreach(layout ${llama_layouts})
  set(rows "${llama_stub_rows}")
  foreach(name ${llama_own_${layout}})
    string(REPLACE "TESSERA_LLAMA_STUB(${name}, tessera_${name})\n" "" rows "${rows}")
  endforeach()
  set(stubs ${CMAKE_BINARY_DIR}/generated/llama_stubs_${layout}.S)
  file(CONFIGURE OUTPUT ${stubs} CONTENT "#include \"tessera/llama/layouts/stubs.inc\"\n@rows@" @ONLY)
  add_library(tessera_llama_${layout} OBJECT ${llama_dir}/layouts/${layout}.cpp ${llama_sources_${layout}} ${stubs})
  target_include_directories(tessera_llama_${layout} PRIVATE ${PROJECT_SOURCE_DIR})
endforeach()

# The path to libtessera.so, from a layout's folder and from one within it (libggml.cmake), is the same in the build and
# where it is installed.
set(llama_rpath "$ORIGIN/../../..:$ORIGIN/../../../..")

# tessera_llama_libraries(): the shared libraries, beside libtessera.so, and what is installed of them.
function(tessera_llama_libraries)
  foreach(layout ${llama_layouts})
    string(JOIN ";\n    " names ${llama_exports_${layout}})
    set(exports ${CMAKE_BINARY_DIR}/generated/llama_${layout}.map)
    file(CONFIGURE OUTPUT ${exports} CONTENT "{\n  global:\n    @names@;\n  local:\n    *;\n};\n" @ONLY)
    set(target tessera_libllama_${layout})
    set(folder tessera/llama/${llama_folder_${layout}})
    add_library(${target} SHARED $<TARGET_OBJECTS:tessera_llama_${layout}>)
    target_link_libraries(${target} PRIVATE tessera_c)
    target_link_options(${target} PRIVATE LINKER:--version-script=${exports} LINKER:--no-undefined
      LINKER:-z,relro,-z,now,-z,noexecstack)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME llama NO_SONAME OFF LINK_DEPENDS ${exports}
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/${folder} BUILD_WITH_INSTALL_RPATH ON
      INSTALL_RPATH "${llama_rpath}")
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${folder} COMPONENT tessera)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/lib/${folder})
    foreach(link ${llama_links_${layout}})
      file(CREATE_LINK libllama.so ${CMAKE_BINARY_DIR}/lib/${folder}/${link} SYMBOLIC)
      install(FILES ${CMAKE_BINARY_DIR}/lib/${folder}/${link} DESTINATION ${CMAKE_INSTALL_LIBDIR}/${folder}
        COMPONENT tessera)
    endforeach()
  endforeach()
endfunction()
