#pragma once
// What the kernels of all forms of a delta product read and write.

#include "cuda/delta/delta_work.hpp"
#include "cuda/delta/token_sequence.cuh"

namespace orthornn::cuda {

/// The inputs in device memory; null where there are none.
template <class T>
struct DeltaPointers {
  const T *queries, *keys, *values, *removals;
  const DeltaNumber<T>*betas, *log_decays, *initial_states;
  DeltaNumber<T> scale;
  bool unit_keys;

  explicit DeltaPointers(const DeltaWork<T>& work)
      : queries(work.input.queries.data()),
        keys(work.input.keys.data()),
        values(work.input.values.data()),
        removals(data_or_null(work.input.removals)),
        betas(work.input.betas.data()),
        log_decays(data_or_null(work.input.log_decays)),
        initial_states(data_or_null(work.input.initial_states)),
        scale(static_cast<DeltaNumber<T>>(work.options.scale)),
        unit_keys(work.options.unit_keys) {}
};

/// What a backward reads and writes beside these; null where there is none.
template <class T>
struct DeltaGradientPointers {
  const T* d_outputs;
  const DeltaNumber<T>* d_final_states;
  T *d_queries, *d_keys, *d_values, *d_removals;
  DeltaNumber<T>*d_betas, *d_log_decays, *d_initial_states;

  explicit DeltaGradientPointers(const DeltaProductGradients<T>& gradients)
      : d_outputs(gradients.d_outputs.data()),
        d_final_states(data_or_null(gradients.d_final_states)),
        d_queries(gradients.d_queries.data()),
        d_keys(gradients.d_keys.data()),
        d_values(gradients.d_values.data()),
        d_removals(data_or_null(gradients.d_removals)),
        d_betas(gradients.d_betas.data()),
        d_log_decays(data_or_null(gradients.d_log_decays)),
        d_initial_states(data_or_null(gradients.d_initial_states)) {}
};

}  // namespace orthornn::cuda
