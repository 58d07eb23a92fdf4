#pragma once

/// Types of elements, for the libraries.

enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_64F = 1 };
using cudaDataType = cudaDataType_t;
