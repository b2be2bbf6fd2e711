# tessera_unity(OUT NAME SOURCES ...)   combines sources in translation units; sets OUT to the files to compile
#
# Most of the compile time is spent in headers, which a unit parses once for all of its sources. A unit includes its
# sources by their paths relative to the project's root, so that the compiler cache also works for other clones. This
# requires two rules, which the build checks:
#   - Names in unnamed namespaces are unique within a folder.
#   - A source includes all headers that it uses (the preset "debug" compiles each source separately).
option(TESSERA_UNITY "Compile several sources as one translation unit" ON)
set(TESSERA_UNITY_BYTES 200000 CACHE STRING "Source bytes after which a translation unit is full")

function(tessera_unity out name)
  if(NOT TESSERA_UNITY)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(units "")
  set(includes "")
  set(unit_bytes 0)
  foreach(source ${ARGN})
    file(SIZE ${source} bytes)
    math(EXPR sum "${unit_bytes} + ${bytes}")
    if(includes AND sum GREATER TESSERA_UNITY_BYTES)
      list(LENGTH units n_units)
      set(unit ${CMAKE_BINARY_DIR}/unity/${name}_${n_units}.cpp)
      file(CONFIGURE OUTPUT ${unit} CONTENT "${includes}" @ONLY)
      list(APPEND units ${unit})
      set(includes "")
      set(sum ${bytes})
    endif()
    set(unit_bytes ${sum})
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${source})
    string(APPEND includes "#include \"${path}\"\n")
  endforeach()
  list(LENGTH units n_units)
  set(unit ${CMAKE_BINARY_DIR}/unity/${name}_${n_units}.cpp)
  file(CONFIGURE OUTPUT ${unit} CONTENT "${includes}" @ONLY)
  set(${out} ${units} ${unit} PARENT_SCOPE)
endfunction()
