# tessera_cuda_kernels(TARGET DIR)   compiles every DIR/*.cu with nvcc and embeds the results in TARGET, whose sources
# then see TESSERA_HAVE_CUDA_KERNELS. Nothing of the CUDA toolkit is linked: the driver is opened at run time.
#
# Each file becomes machine code for compute capability 8.0 and 9.0, and code of 9.0 that drivers translate for later
# devices. --fmad=false: a kernel's rounding is what its source says, in every version of it.
function(tessera_cuda_kernels target dir)
  file(GLOB kernels CONFIGURE_DEPENDS ${dir}/*.cu)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/cuda)
  file(MAKE_DIRECTORY ${out})
  set(images "")
  set(code "")
  set(table "")
  set(n 0)
  foreach(kernel ${kernels})
    get_filename_component(name ${kernel} NAME_WE)
    add_custom_command(
      OUTPUT ${out}/${name}.fatbin
      COMMAND ${TESSERA_NVCC} -std=c++20 -O3 --fmad=false -Werror all-warnings -I ${PROJECT_SOURCE_DIR}
        -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90a,code=sm_90a -gencode=arch=compute_90,code=compute_90
        -MD -MF ${out}/${name}.d -fatbin -o ${out}/${name}.fatbin ${kernel}
      DEPENDS ${kernel}
      DEPFILE ${out}/${name}.d
      VERBATIM)
    list(APPEND images ${out}/${name}.fatbin)
    string(APPEND code ".balign 16\ntessera_cuda_begin_${n}: .incbin \"${name}.fatbin\"\ntessera_cuda_end_${n}:\n")
    string(APPEND table ".quad tessera_cuda_begin_${n}, tessera_cuda_end_${n}\n")
    math(EXPR n "${n} + 1")
  endforeach()
  file(CONFIGURE OUTPUT ${out}/images.S @ONLY CONTENT ".section .rodata
${code}.section .data.rel.ro, \"aw\"
.balign 16
.global tessera_cuda_images, tessera_cuda_n_images
tessera_cuda_images:
${table}tessera_cuda_n_images: .quad ${n}
.section .note.GNU-stack, \"\", @progbits
")
  target_sources(${target} PRIVATE ${out}/images.S)
  set_source_files_properties(${out}/images.S PROPERTIES OBJECT_DEPENDS "${images}" COMPILE_OPTIONS "-Wa,-I${out}")
  target_compile_definitions(${target} PRIVATE TESSERA_HAVE_CUDA_KERNELS=1)
endfunction()
