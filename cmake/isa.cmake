# tessera_isa_sources(TARGET DIR [SOURCES ...] [DERIVED ...] [OPTIONS ...]): compiles every DIR/*.cpp and the sources
# once per instruction set into TARGET.
#
# Each copy sees TESSERA_ISA_NAMESPACE (scalar, avx2, avxvnni, avx512, amx) and puts all that it defines into that
# namespace; isa/sets.cpp picks one at run time. Such a source includes no header that has inline code outside that
# namespace: the linker keeps one copy of a shared inline function, and it could be the AVX-512 one.
#
# A set that is derived from another one (TESSERA_ISA_BASE_<set>) adds a few instructions to it. It has its own copy of
# the sources of DERIVED only, and shares all other code of its base.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set(isas_default scalar avx2 avxvnni avx512 amx)
else()
  set(isas_default scalar)
endif()
set(TESSERA_ISAS "${isas_default}" CACHE STRING "Instruction sets that kernels are compiled for; scalar is one of them")
# Kernels with sanitizers need most of the time of a build and of its tests, so presets may reduce them.
set(TESSERA_PLAIN_ISAS "" CACHE STRING "Instruction sets whose kernels are compiled without sanitizers")
set(TESSERA_KERNEL_SANITIZE "${TESSERA_SANITIZE}" CACHE STRING "Sanitizers of the other kernels")
set(TESSERA_ISA_FLAGS_scalar "")
set(TESSERA_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2 -mpopcnt)
set(TESSERA_ISA_FLAGS_avxvnni ${TESSERA_ISA_FLAGS_avx2} -mavxvnni)
set(TESSERA_ISA_BASE_avxvnni avx2)
set(TESSERA_ISA_FLAGS_avx512 -mavx2 -mfma -mf16c -mbmi -mbmi2 -mpopcnt -mavx512f -mavx512bw -mavx512dq
  -mavx512vl -mavx512vnni -mprefer-vector-width=512
  # GCC 12 warns of the deliberately undefined operands inside its own intrinsics (GCC bug 105593).
  -Wno-uninitialized -Wno-maybe-uninitialized)

# The tile unit's instructions are written in assembly. amxmodel has them in software, for tests on other processors.
foreach(isa amx amxmodel)
  set(TESSERA_ISA_FLAGS_${isa} ${TESSERA_ISA_FLAGS_avx512} -DTESSERA_ISA_TILES=1)
  set(TESSERA_ISA_BASE_${isa} avx512)
endforeach()

# tessera_isa_sets(TARGET): its sources may read isa/sets.def.
function(tessera_isa_sets target)
  foreach(isa ${TESSERA_ISAS})
    target_compile_definitions(${target} PRIVATE TESSERA_HAVE_${isa}=1)
  endforeach()
endfunction()

function(tessera_isa_sources target dir)
  cmake_parse_arguments(ARG "" "" "SOURCES;DERIVED;OPTIONS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cpp)
  foreach(isa ${TESSERA_ISAS})
    set(base ${TESSERA_ISA_BASE_${isa}})
    if(base)
      set(isa_sources ${ARG_DERIVED})
    else()
      set(isa_sources ${sources} ${ARG_SOURCES})
    endif()
    if(NOT isa_sources)
      continue()
    endif()
    add_library(${target}_${isa} OBJECT ${isa_sources})
    target_include_directories(${target}_${isa} PRIVATE ${PROJECT_SOURCE_DIR})
    target_compile_definitions(${target}_${isa} PRIVATE TESSERA_ISA_NAMESPACE=${isa} TESSERA_ISA_${isa}=1)
    if(base)
      target_compile_definitions(${target}_${isa} PRIVATE TESSERA_ISA_BASE=${base} TESSERA_ISA_${base}=1)
    endif()
    target_compile_options(${target}_${isa} PRIVATE ${TESSERA_ISA_FLAGS_${isa}} ${ARG_OPTIONS})
    if(CMAKE_BUILD_TYPE STREQUAL "Release")
      target_compile_options(${target}_${isa} PRIVATE -O3)
    endif()
    if(TESSERA_SANITIZE)
      target_compile_options(${target}_${isa} PRIVATE -O2 -fno-sanitize=all)
      if(NOT isa IN_LIST TESSERA_PLAIN_ISAS)
        target_compile_options(${target}_${isa} PRIVATE -fsanitize=${TESSERA_KERNEL_SANITIZE})
      endif()
    endif()
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${isa}>)
  endforeach()
  tessera_isa_sets(${target})
endfunction()
