# Read by cpack before it creates each kind of package: selects the package's components (install.cmake).
list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 build)
if(CPACK_GENERATOR STREQUAL "DEB")
  set(extra debian)
else()
  set(extra plain)
endif()
set(CPACK_INSTALL_CMAKE_PROJECTS "${build};tessera;tessera;/;${build};tessera;${extra};/")
