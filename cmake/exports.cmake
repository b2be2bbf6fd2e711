# cmake -DHEADER=tessera.h -DOUTPUT=FILE -P exports.cmake
# Writes the version script of the library: the functions of the header, and nothing else, are exported. "Since 1.1." in
# the comment of a function, on the first line or a later one, puts it into the node TESSERA_1.1, which has all earlier
# nodes before it. Functions without it are of the first version. So a program that needs a newer library than the
# installed one is refused when it starts.
cmake_minimum_required(VERSION 3.25)

# tessera_exports(HEADER OUTPUT)
function(tessera_exports header output)
  file(READ ${header} text)
  string(REGEX REPLACE "[][;\\]" " " text "${text}")  # these characters have a meaning in lists
  # Comments that begin a line, later lines of theirs with a version, and functions, in the order of the file.
  string(REGEX MATCHALL "\n(/\\*[^\n]*| \\*[^\n]*Since [0-9]+\\.[0-9]+\\.|TESSERA_API [^(]*\\()" parts "${text}")
  set(since 1.0)
  set(versions "")
  foreach(part ${parts})
    if(part MATCHES "TESSERA_API .*(tessera_[a-z0-9_]+)\\($")
      list(APPEND versions ${since})
      string(APPEND functions_${since} "    ${CMAKE_MATCH_1};\n")
    elseif(part MATCHES "Since ([0-9]+\\.[0-9]+)\\.")
      set(since ${CMAKE_MATCH_1})
    else()
      set(since 1.0)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES versions)
  list(SORT versions COMPARE NATURAL)
  set(script "")
  set(before "")
  foreach(version ${versions})
    string(APPEND script "TESSERA_${version} {\n  global:\n${functions_${version}}")
    if(before STREQUAL "")
      string(APPEND script "  local:\n    *;\n")
    endif()
    string(APPEND script "}${before};\n")
    set(before " TESSERA_${version}")
  endforeach()
  file(CONFIGURE OUTPUT ${output} CONTENT "${script}" @ONLY)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  tessera_exports(${HEADER} ${OUTPUT})
endif()
