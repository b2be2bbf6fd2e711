# cmake -DOUTPUT=FILE -DCOMMAND=PROGRAM;ARG... -DGZIP=GZIP [-DEMULATOR=...] -P page.cmake
# Writes the output of a command to a file. A .gz file is packed reproducibly.
cmake_minimum_required(VERSION 3.25)
set(plain ${OUTPUT})
if(OUTPUT MATCHES "\\.gz$")
  string(REGEX REPLACE "\\.gz$" "" plain ${OUTPUT})
endif()
get_filename_component(folder ${OUTPUT} DIRECTORY)
file(MAKE_DIRECTORY ${folder})
execute_process(COMMAND ${EMULATOR} ${COMMAND} OUTPUT_FILE ${plain} COMMAND_ERROR_IS_FATAL ANY)
if(NOT plain STREQUAL OUTPUT)
  execute_process(COMMAND ${GZIP} -9nf ${plain} COMMAND_ERROR_IS_FATAL ANY)
endif()
