# Finds CUDA, unless ORTHORNN_CUDA forbids it, and says what became of it in ORTHORNN_CUDA_BACK_END: NONE, GPU or
# EMULATED.

set(oldest_cuda 12.4)
set(ORTHORNN_CUDA_BACK_END NONE)
if(ORTHORNN_CUDA STREQUAL "EMULATED")
  set(ORTHORNN_CUDA_BACK_END EMULATED)
elseif(NOT ORTHORNN_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  find_package(CUDAToolkit ${oldest_cuda} QUIET)
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      # Binaries for 8.0 and 9.0, and PTX that newer GPUs compile when they load it. Kernels over clusters have
      # code from 9.0 on alone.
      set(CMAKE_CUDA_ARCHITECTURES 80 90)
    endif()
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      # CMake 3.25 does not know how to say C++20 to this nvcc.
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(ORTHORNN_CUDA_BACK_END GPU)
  elseif(ORTHORNN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ORTHORNN_CUDA=ON was asked for, but no CUDA toolkit of version ${oldest_cuda} or newer was "
                        "found; put its nvcc on the PATH, or use ORTHORNN_CUDA=AUTO or OFF")
  endif()
endif()
message(STATUS "CUDA back end: ${ORTHORNN_CUDA_BACK_END}")

# The flags of the bodies in cuda/, and the libraries that they call.
if(NOT ORTHORNN_CUDA_BACK_END STREQUAL "NONE")
  add_library(orthornn_cuda_flags INTERFACE)
endif()
if(ORTHORNN_CUDA_BACK_END STREQUAL "EMULATED")
  add_subdirectory(${PROJECT_SOURCE_DIR}/tests/emulator ${PROJECT_BINARY_DIR}/emulator)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cuda/*.cu)
  emulate_cuda(${kernels})
  # The emulator has no instructions that move matrices of 16 bits or multiply tf32, no stores to other blocks,
  # and no barriers of a part of a block. Of cuSOLVER it has the LU decomposition alone.
  set(ORTHORNN_CUDA_LEFT_OUT "cuda/((delta/chunked_delta_product|rollouts/persistent/(grid|few_over_grid|few_sequences)_rollout|linalg/split_gemm|layers/((lstm|gru)_rollout|frame_(convolution|kernel_gradient)))\\.cu|linalg/decompositions\\.cpp)$")
  set(ORTHORNN_CUDA_LIBRARIES $<BUILD_INTERFACE:cuda_emulator>)
  target_link_libraries(orthornn_cuda_flags INTERFACE orthornn_flags)
elseif(ORTHORNN_CUDA_BACK_END STREQUAL "GPU")
  set(ORTHORNN_CUDA_LEFT_OUT "cuda/(delta/without_chunks|linalg/without_(decompositions|split_gemm)|rollouts/persistent/without_(grid|few_sequences)|layers/without_(gated_grid|frame_kernels))\\.cpp$")
  # The kernels of the chunked delta product compile for long: each kind of product and size of keys is a source of its
  # own. cmake/stages.cmake adds them to their stage.
  set(ORTHORNN_CUDA_GENERATED_delta)
  set(warpgroup_sources ${PROJECT_SOURCE_DIR}/cuda/linalg/split_gemm.cu)
  set(kinds bfloat16 tf32 fp32)
  set(products Bfloat16Product FloatProduct<false> FloatProduct<true>)
  foreach(kind product IN ZIP_LISTS kinds products)
    foreach(key 64 128 256)
      set(source ${PROJECT_BINARY_DIR}/cuda/delta/chunked_${kind}_${key}.cu)
      configure_file(${PROJECT_SOURCE_DIR}/cuda/delta/chunked_kernels.cu.in ${source} @ONLY)
      list(APPEND ORTHORNN_CUDA_GENERATED_delta ${source})
      if(kind STREQUAL "bfloat16")
        list(APPEND warpgroup_sources ${source})
      endif()
    endforeach()
  endforeach()
  # The instructions of warpgroups are those of compute capability 9.0a alone, so 9.0 does not have them. A GPU takes the
  # code that is nearest to it.
  if(CMAKE_CUDA_ARCHITECTURES MATCHES "(^|;)(90(-real|-virtual)?|native|all|all-major)(;|$)")
    set_source_files_properties(${warpgroup_sources} PROPERTIES COMPILE_OPTIONS "-gencode=arch=compute_90a,code=sm_90a")
  endif()
  # One CUDA runtime a process: a shared library shares it with the program that uses it.
  if(BUILD_SHARED_LIBS)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
    set(ORTHORNN_CUDA_LIBRARIES CUDA::cudart)
  else()
    set(ORTHORNN_CUDA_LIBRARIES CUDA::cudart_static)
  endif()
  list(APPEND ORTHORNN_CUDA_LIBRARIES CUDA::cublas CUDA::cusolver)
  set(warnings -Wall -Wextra -Wshadow)
  if(ORTHORNN_WERROR)
    list(APPEND warnings -Werror)
    target_compile_options(orthornn_cuda_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
  list(JOIN warnings "," host_warnings)
  target_compile_options(orthornn_cuda_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda --expt-relaxed-constexpr -Xcompiler=${host_warnings}>
    $<$<COMPILE_LANGUAGE:CXX>:${warnings}>)
endif()
if(TARGET orthornn_cuda_flags)
  target_link_libraries(orthornn_cuda_flags INTERFACE fmt::fmt ${ORTHORNN_CUDA_LIBRARIES})
endif()
