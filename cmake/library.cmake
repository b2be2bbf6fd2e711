# tessera_library(NAME DEPENDS ...)   static library of tessera/NAME/**/*.cpp without */kernels, quant/formats,
#                                     llama/layouts,
#                                     mpi/library and cli/main.cpp
# tessera_tests(NAME DEPENDS ...)     one fast and one slow executable of tests/NAME/*_test.cpp

# With sanitizers, optimization triples the compile time. It pays off only for libraries where tests spend their time.
set(TESSERA_HOT_LIBRARIES base tensor quant text sample cpu)

function(tessera_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  set(dir ${CMAKE_CURRENT_SOURCE_DIR}/tessera/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${dir}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/(cpu|sample)/kernels/|/quant/formats/|/llama/layouts/|/mpi/library/|/cli/main\\.cpp$")
  if(NOT sources)
    return()
  endif()
  tessera_unity(units ${name} ${sources})
  add_library(tessera_${name} STATIC ${units})
  add_library(tessera::${name} ALIAS tessera_${name})
  target_include_directories(tessera_${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  if(TESSERA_SANITIZE AND NOT name IN_LIST TESSERA_HOT_LIBRARIES)
    target_compile_options(tessera_${name} PRIVATE -O0)
  endif()
  # A folder without sources has no library. Lower levels are declared first, so all existing targets are known.
  foreach(depend ${ARG_DEPENDS})
    if(TARGET ${depend})
      target_link_libraries(tessera_${name} PUBLIC ${depend})
    endif()
  endforeach()
endfunction()

function(tessera_tests name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB fast CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*_test.cpp)
  set(slow ${fast})
  list(FILTER fast EXCLUDE REGEX "_slow_test\\.cpp$")
  list(FILTER slow INCLUDE REGEX "_slow_test\\.cpp$")
  if(TESSERA_SANITIZE)  # slow tests run in the release build only
    set(slow "")
  endif()
  foreach(speed fast slow)
    if(${speed})
      set(target test_${name}_${speed})
      tessera_unity(units ${target} ${${speed}})
      add_executable(${target} ${units})
      target_link_libraries(${target} PRIVATE ${ARG_DEPENDS} tessera_testing GTest::gtest GTest::gtest_main)
      add_test(NAME ${name}.${speed} COMMAND ${target} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
      set_tests_properties(${name}.${speed} PROPERTIES LABELS ${speed} TIMEOUT 3600)
      if(TARGET tessera AND name MATCHES "^(cli|server|capi)$")  # the tests that run the program
        add_dependencies(${target} tessera)
      endif()
    endif()
  endforeach()
endfunction()
