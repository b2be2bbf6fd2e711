# tessera_shader_ops(FILE)      writes the numbers of the elementwise operations of graph/ops.def as GLSL constants.
# tessera_shaders(TARGET DIR)   compiles every DIR/*.comp to SPIR-V and adds it to TARGET as C++ arrays. The generated
# file vulkan_shaders.inc, included by a source of TARGET, defines kSpirv_<name> for each.
function(tessera_shader_ops file)
  set(ops ${PROJECT_SOURCE_DIR}/tessera/graph/ops.def)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ops})
  file(STRINGS ${ops} rows REGEX "^TESSERA_ELEMENTWISE\\(")
  set(numbers "")
  set(binary "")
  set(i 0)
  foreach(row ${rows})
    string(REGEX REPLACE "^TESSERA_ELEMENTWISE\\(([a-z0-9_]+), ([0-9]+),.*" "\\1;\\2" fields "${row}")
    list(GET fields 0 name)
    list(GET fields 1 n_operands)
    string(APPEND numbers "const uint kElementwise_${name} = ${i}u;\n")
    if(n_operands EQUAL 2)
      list(APPEND binary "op == kElementwise_${name}")
    endif()
    math(EXPR i "${i} + 1")
  endforeach()
  list(JOIN binary " ||\n         " binary)
  file(CONFIGURE OUTPUT ${file} CONTENT "${numbers}bool is_binary(uint op) {\n  return ${binary};\n}\n" @ONLY)
endfunction()

function(tessera_shaders target dir)
  file(GLOB shaders CONFIGURE_DEPENDS ${dir}/*.comp)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/shaders)
  file(MAKE_DIRECTORY ${out})
  tessera_shader_ops(${out}/ops.glsl)
  tessera_shader_formats(${out})
  set(arrays "")
  set(compiled "")
  foreach(shader ${shaders})
    get_filename_component(name ${shader} NAME_WE)
    add_custom_command(
      OUTPUT ${out}/${name}.inc
      COMMAND ${Vulkan_GLSLC_EXECUTABLE} --target-env=vulkan1.2 -O -Werror -mfmt=c -I ${out} -I ${dir} -MD -MF ${out}/${name}.d
        -o ${out}/${name}.inc ${shader}
      DEPENDS ${shader}
      DEPFILE ${out}/${name}.d
      VERBATIM)
    list(APPEND compiled ${out}/${name}.inc)
    string(APPEND arrays "constexpr uint32_t kSpirv_${name}[] =\n#include \"${name}.inc\"\n;\n")
  endforeach()
  file(CONFIGURE OUTPUT ${out}/vulkan_shaders.inc CONTENT "${arrays}" @ONLY)
  add_custom_target(${target}_shaders DEPENDS ${compiled})
  add_dependencies(${target} ${target}_shaders)
  target_include_directories(${target} PRIVATE ${out})
endfunction()
