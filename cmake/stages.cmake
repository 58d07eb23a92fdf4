# The stages of the library, in their order. A stage sees its own headers and those of the stages before it, and no
# others: an include of a later stage does not compile. A stage may have the folders include/orthornn/STAGE, src/STAGE
# and cuda/STAGE; that of tasks is tasks, without src. To add a stage, put its name here. The headers of src/pointwise,
# which are for the CPU and for kernels, belong to all stages.
set(ORTHORNN_STAGES scalar core io text linalg delta products orthogonal tasks rollouts layers nn optim train)

# What a stage sees are links in the build tree: STAGE/shared has the public headers and those of cuda, STAGE/src those
# of src. The include folders of a source of src are both, and of a source of cuda only the first.
set(stage_links ${PROJECT_BINARY_DIR}/stages)

function(link_existing from to)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${from})
    cmake_path(GET to PARENT_PATH parent)
    file(MAKE_DIRECTORY ${parent})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${from} ${to} SYMBOLIC)
  endif()
endfunction()

# include_all_headers(LIST STAGE ROOT FOLDER...): adds to the list a source that includes the headers of each FOLDER, as
# they are found from its ROOT. So the compiler also sees a header that no source of its stage includes.
function(include_all_headers list_name stage)
  set(includes)
  while(ARGN)
    list(POP_FRONT ARGN root folder)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/${root} ${folder}/*.hpp)
    foreach(header IN LISTS headers)
      string(APPEND includes "#include \"${header}\"\n")
    endforeach()
  endwhile()
  set(source ${PROJECT_BINARY_DIR}/all_headers/${stage}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "${includes}" @ONLY)
  list(APPEND ${list_name} ${source})
  set(${list_name} ${${list_name}} PARENT_SCOPE)
endfunction()

# add_stage_objects(LIBRARY TARGET FLAGS SOURCES INCLUDE_FOLDER...): compiles the sources as a part of the library.
function(add_stage_objects library target flags sources)
  if(sources)
    add_library(${target} OBJECT ${sources})
    target_include_directories(${target} PRIVATE ${ARGN})
    target_link_libraries(${target} PRIVATE ${flags})
    target_sources(${library} PRIVATE $<TARGET_OBJECTS:${target}>)
  endif()
endfunction()

# add_stages(LIBRARY HOST_FLAGS CUDA_FLAGS): compiles every stage into the library. The flags are targets to link;
# without CUDA_FLAGS the bodies in cuda are left out. With them the target LIBRARY_cuda compiles these bodies alone.
function(add_stages library host_flags cuda_flags)
  # A new folder needs its links too.
  file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true
       ${PROJECT_SOURCE_DIR}/include/orthornn/* ${PROJECT_SOURCE_DIR}/src/* ${PROJECT_SOURCE_DIR}/cuda/*)
  file(REMOVE_RECURSE ${stage_links})  # links of a former order of the stages
  set(seen_stages)
  if(cuda_flags)
    add_custom_target(${library}_cuda)
  endif()
  foreach(stage IN LISTS ORTHORNN_STAGES)
    list(APPEND seen_stages ${stage})
    set(shared ${stage_links}/${stage}/shared)
    set(host ${stage_links}/${stage}/src)
    link_existing(include/orthornn/version.hpp ${shared}/orthornn/version.hpp)
    link_existing(src/pointwise ${shared}/pointwise)
    foreach(seen IN LISTS seen_stages)
      link_existing(include/orthornn/${seen} ${shared}/orthornn/${seen})
      link_existing(cuda/${seen} ${shared}/cuda/${seen})
      link_existing(src/${seen} ${host}/${seen})
    endforeach()
    set(root src)
    set(folder src/${stage})
    if(stage STREQUAL "tasks")
      set(root .)
      set(folder tasks)
      link_existing(tasks ${host}/tasks)
    endif()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp)
    include_all_headers(sources ${stage} include include/orthornn/${stage} ${root} ${folder})
    add_stage_objects(${library} ${library}_${stage} ${host_flags} "${sources}" ${host} ${shared})
    if(sources)
      compile_together(${library}_${stage})
    endif()
    if(cuda_flags)
      file(GLOB_RECURSE sources CONFIGURE_DEPENDS cuda/${stage}/*.cu cuda/${stage}/*.cpp)
      list(FILTER sources EXCLUDE REGEX ${ORTHORNN_CUDA_LEFT_OUT})
      list(APPEND sources ${ORTHORNN_CUDA_GENERATED_${stage}})
      add_stage_objects(${library} ${library}_cuda_${stage} ${cuda_flags} "${sources}" ${shared})
      if(sources)
        add_dependencies(${library}_cuda ${library}_cuda_${stage})
      endif()
    endif()
  endforeach()
endfunction()
