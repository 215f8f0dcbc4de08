# What is installed: both libraries, the public headers, the program, and what pkg-config and CMake need to find them.
include(CMakePackageConfigHelpers)

set(DCPAR_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/dcpar)

# The static library brings nothing with it: whoever links it links what it was built with, the very same libraries (a
# program that finds another MPI than the library was compiled for links, and fails when it runs).
set(DCPAR_STATIC_NEEDS ${CMAKE_THREAD_LIBS_INIT} m)
if(DCPAR_HAVE_MPI)
    list(APPEND DCPAR_STATIC_NEEDS ${MPI_C_LIBRARIES})
endif()
if(DCPAR_HAVE_ONEDNN)
    list(APPEND DCPAR_STATIC_NEEDS ${DNNL_LIBRARY} ${OpenMP_C_FLAGS})
endif()

set_target_properties(dcpar_shared PROPERTIES EXPORT_NAME dcpar)
set_target_properties(dcpar_static PROPERTIES EXPORT_NAME static)
target_link_libraries(dcpar_static INTERFACE "$<INSTALL_INTERFACE:${DCPAR_STATIC_NEEDS};${JANSSON_LINK_LIBRARIES}>")
install(TARGETS dcpar_shared dcpar_static EXPORT dcparTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS dcpar_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES include/dcpar.h include/dcpar_run.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# ---------------------------------------------------------------------------------------------- CMake
install(EXPORT dcparTargets NAMESPACE dcpar:: DESTINATION ${DCPAR_CMAKE_DIR})
configure_package_config_file(cmake/dcparConfig.cmake.in ${PROJECT_BINARY_DIR}/dcparConfig.cmake
                              INSTALL_DESTINATION ${DCPAR_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dcparConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dcparConfig.cmake ${PROJECT_BINARY_DIR}/dcparConfigVersion.cmake
        DESTINATION ${DCPAR_CMAKE_DIR})

# ---------------------------------------------------------------------------------------------- pkg-config
set(PC_LIBS_PRIVATE "")
foreach(library ${DCPAR_STATIC_NEEDS})
    if(NOT IS_ABSOLUTE ${library} AND NOT library MATCHES "^-")
        string(PREPEND library "-l")
    endif()
    string(APPEND PC_LIBS_PRIVATE " ${library}")
endforeach()
foreach(folder LIBDIR INCLUDEDIR)
    set(PC_${folder} ${CMAKE_INSTALL_${folder}})
    if(NOT IS_ABSOLUTE ${PC_${folder}})
        string(PREPEND PC_${folder} "\${prefix}/")
    endif()
endforeach()
set(PC_PREFIX "@CMAKE_INSTALL_PREFIX@") # filled in when installing: `cmake --install --prefix` may change it
configure_file(cmake/dcpar.pc.in ${PROJECT_BINARY_DIR}/dcpar.pc.in @ONLY)
install(CODE "configure_file(\"${PROJECT_BINARY_DIR}/dcpar.pc.in\" \"${PROJECT_BINARY_DIR}/dcpar.pc\" @ONLY)")
install(FILES ${PROJECT_BINARY_DIR}/dcpar.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
