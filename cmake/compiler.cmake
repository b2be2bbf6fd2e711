# Compiler settings common to every target.
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# Warnings are errors with the compiler of CI. Newer compilers may have more warnings and must still build.
set(werror_default OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(werror_default ON)
endif()
# mold links a test program four times as fast as GNU ld. Released programs are linked by the compiler's default linker.
find_program(MOLD mold)
if(MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT TESSERA_PORTABLE)
  add_link_options(-fuse-ld=mold)
endif()

option(TESSERA_WERROR "Warnings are errors" ${werror_default})
set(TESSERA_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them")

add_compile_options(-Wall -Wextra -Wconversion)
if(TESSERA_WERROR)
  add_compile_options(-Werror)
endif()
# A product and a sum are contracted only where the source uses an FMA: results must not depend on the instruction set
# for which the compiler generates code.
add_compile_options(-ffp-contract=off -fno-math-errno)

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer")
if(TESSERA_SANITIZE)
  add_compile_options(-fsanitize=${TESSERA_SANITIZE} -fno-sanitize-recover=all)
  # Sanitizers store source locations in tables of addresses. In a position-independent program these need three million
  # relocations at each start.
  add_link_options(-fsanitize=${TESSERA_SANITIZE} -no-pie)
  add_compile_definitions(TESSERA_SANITIZED=1)
endif()
