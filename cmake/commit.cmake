# tessera_commit(TARGET)   gives the sources of TARGET the header commit.h with TESSERA_COMMIT, a string: the commit of
# this build, "73aa7e8f1a2b" or "73aa7e8f1a2b, dirty" (tracked files differ from it), or "" where nobody knows it.
#
# The same file is the script that every build runs: it writes the header, and only if it changes. So a new commit
# compiles one small source again; a compile definition would compile, and cache, everything again.
if(CMAKE_SCRIPT_MODE_FILE)
  # cmake -DSOURCE_DIR=DIR -DOUTPUT=FILE -P commit.cmake
  cmake_minimum_required(VERSION 3.25)
  set(commit "")
  find_program(git git)
  if(git AND EXISTS ${SOURCE_DIR}/.git)
    execute_process(COMMAND ${git} -C ${SOURCE_DIR} rev-parse --short=12 HEAD
      OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    # Without a lock: somebody may be at work in this tree.
    execute_process(COMMAND ${git} --no-optional-locks -C ${SOURCE_DIR} status --porcelain --untracked-files=no
      OUTPUT_VARIABLE changes ERROR_QUIET)
    if(commit AND changes)
      string(APPEND commit ", dirty")
    endif()
  elseif(EXISTS ${SOURCE_DIR}/cmake/commit.txt)
    file(STRINGS ${SOURCE_DIR}/cmake/commit.txt archived REGEX "^[0-9a-f]+$")  # "git archive" writes it there
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
