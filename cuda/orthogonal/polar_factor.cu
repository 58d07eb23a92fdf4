#include "cuda/core/for_each.cuh"
#include "cuda/orthogonal/polar_factor.hpp"
#include "pointwise/stiefel.hpp"

namespace orthornn::cuda {

void check_independent(TensorView<const double> eigenvalues) {
  Context& gpu = context(eigenvalues.device());
  FaultWord* faults = gpu.faults();
  for_each(gpu, 1, [values = eigenvalues.data(), count = eigenvalues.size(), faults] __device__(Index) {
    if (!pointwise::are_of_independent_columns(values, count))
      report_fault(faults, Fault::dependent_columns, 0);
  });
}

}  // namespace orthornn::cuda
