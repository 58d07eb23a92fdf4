# What keeps the build short. tools/README.md, "Build time", says where the time goes.

# compile_together(TARGET): compiles sources of the target in groups. Every group reads the headers of Eigen, fmt and
# CLI11 once, where every source alone would read them again, and makes the code of a template once.
# CMAKE_UNITY_BUILD_BATCH_SIZE says how many sources a group has, 8 unless it is set: few for who changes them, many for
# a short build.
function(compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ORTHORNN_UNITY})
  if(ORTHORNN_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC takes the sources of a group for headers. It warns where a type of a header has a member of a type of an
    # anonymous namespace, which would differ in each source.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# optimise_little(TARGET): for sources that call the library and look at what it returns.
function(optimise_little target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(ORTHORNN_SANITIZE AND NOT ORTHORNN_FUZZ)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# link_library_first(PROGRAM): of an inline function that several objects have, the linker keeps the first. With
# optimise_little, that has to be the one of the library.
function(link_library_first program)
  if(NOT BUILD_SHARED_LIBS)
    target_link_options(${program} PRIVATE
      LINKER:--whole-archive $<TARGET_FILE:orthornn> LINKER:--no-whole-archive)
    set_property(TARGET ${program} APPEND PROPERTY LINK_DEPENDS $<TARGET_FILE:orthornn>)
  endif()
endfunction()
