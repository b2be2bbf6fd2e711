# Read by cpack before each kind of package: which components it holds (install.cmake).
list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 build)
if(CPACK_GENERATOR STREQUAL "DEB")
  set(extra debian)
else()
  set(extra plain)
endif()
set(CPACK_INSTALL_CMAKE_PROJECTS "${build};tessera;tessera;/;${build};tessera;${extra};/")
