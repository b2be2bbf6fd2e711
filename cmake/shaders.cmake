# tessera_shaders(TARGET DIR)   compiles every DIR/*.comp to SPIR-V and makes it part of TARGET as C++ arrays:
# vulkan_shaders.inc, which a source of TARGET includes, defines kSpirv_<name> for each.
function(tessera_shaders target dir)
  file(GLOB shaders CONFIGURE_DEPENDS ${dir}/*.comp)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/shaders)
  file(MAKE_DIRECTORY ${out})
  set(arrays "")
  set(compiled "")
  foreach(shader ${shaders})
    get_filename_component(name ${shader} NAME_WE)
    add_custom_command(
      OUTPUT ${out}/${name}.inc
      COMMAND ${Vulkan_GLSLC_EXECUTABLE} --target-env=vulkan1.2 -O -Werror -mfmt=c -MD -MF ${out}/${name}.d
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
