# Run by cpack after it has packed: packs a .tar.gz again with its files sorted and owned by root. cpack writes them in
# the order of the file system, with the owner of the build. In a .deb it sorts them itself.
foreach(package ${CPACK_PACKAGE_FILES})
  if(package MATCHES "\\.tar\\.gz$")
    get_filename_component(top ${CPACK_TEMPORARY_INSTALL_DIRECTORY} NAME)
    execute_process(
      COMMAND tar -C ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/.. --sort=name --owner=root:0 --group=root:0 -c ${top}
      COMMAND gzip -9n
      OUTPUT_FILE ${package} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()
