# tessera_commit(TARGET)   provides the header commit.h to the sources of TARGET. It defines the string TESSERA_COMMIT:
# the commit of this build, "73aa7e8f1a2b" or "73aa7e8f1a2b, dirty" (tracked files differ from it), or "" if unknown.
#
# Every build runs this file as a script, which rewrites the header only if it changes. So a new commit recompiles one
# small source. With a compile definition, a new commit would recompile, and cache, all sources.
if(CMAKE_SCRIPT_MODE_FILE)
  # cmake -DSOURCE_DIR=DIR -DOUTPUT=FILE -P commit.cmake
  cmake_minimum_required(VERSION 3.25)
  set(commit "")
  find_program(git git)
  if(git AND EXISTS ${SOURCE_DIR}/.git)
    execute_process(COMMAND ${git} -C ${SOURCE_DIR} rev-parse --short=12 HEAD
      OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    # Without a lock, because other git commands may run in this tree.
    execute_process(COMMAND ${git} --no-optional-locks -C ${SOURCE_DIR} status --porcelain --untracked-files=no
      OUTPUT_VARIABLE changes ERROR_QUIET)
    if(commit AND changes)
      string(APPEND commit ", dirty")
    endif()
  elseif(EXISTS ${SOURCE_DIR}/cmake/commit.txt)
    file(STRINGS ${SOURCE_DIR}/cmake/commit.txt archived REGEX "^[0-9a-f]+$")  # written by "git archive"
    string(SUBSTRING "${archived}" 0 12 commit)
  endif()
  file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define TESSERA_COMMIT \"@commit@\"\n" @ONLY)
  return()
endif()

function(tessera_commit target)
  set(header ${CMAKE_CURRENT_BINARY_DIR}/generated/commit.h)
  add_custom_target(${target}_commit
    COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DOUTPUT=${header}
      -P ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
    BYPRODUCTS ${header}
    COMMENT "Reading the commit"
    VERBATIM)
  add_dependencies(${target} ${target}_commit)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
endfunction()
