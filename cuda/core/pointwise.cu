// The kernels of all bodies of src/pointwise.

#include "cuda/core/for_each.cuh"
#include "cuda/core/for_each.hpp"
#include "cuda/core/for_each_entry.cuh"
#include "pointwise/batches.hpp"
#include "pointwise/dropout.hpp"
#include "pointwise/frames.hpp"
#include "pointwise/gated_mlp.hpp"
#include "pointwise/gru.hpp"
#include "pointwise/lstm.hpp"
#include "pointwise/matrices.hpp"
#include "pointwise/sequences.hpp"
#include "pointwise/stiefel.hpp"
#include "pointwise/video.hpp"

namespace orthornn::cuda {

template <class Body>
void for_each(Device device, Index count, const Body& body) {
  for_each(context(device), count, body);
}

template <class Body>
void for_each_entry(Device device, Index rows, Index columns, const Body& body) {
  for_each_entry(context(device), rows, columns, body);
}

using namespace pointwise;

#define ORTHORNN_FOR_EACH(...) template void for_each(Device, Index, const __VA_ARGS__&);
#define ORTHORNN_FOR_EACH_ENTRY(...) template void for_each_entry(Device, Index, Index, const __VA_ARGS__&);

ORTHORNN_FOR_EACH(SetValue<std::uint64_t>)
ORTHORNN_FOR_EACH(WordsBatch)
ORTHORNN_FOR_EACH(AddFrameMetrics)
ORTHORNN_FOR_EACH_ENTRY(CopyingBatch)
ORTHORNN_FOR_EACH_ENTRY(MnistBatch)
ORTHORNN_FOR_EACH_ENTRY(ClipBatch<SquareScene>)
ORTHORNN_FOR_EACH_ENTRY(ClipBatch<ImageScene>)
ORTHORNN_FOR_EACH_ENTRY(ClipBatch<StoredScene<std::uint8_t>>)
ORTHORNN_FOR_EACH_ENTRY(ClipBatch<StoredScene<float>>)
ORTHORNN_FOR_EACH_ENTRY(FrameRowErrors)
ORTHORNN_FOR_EACH_ENTRY(CopyLiveClasses)
ORTHORNN_FOR_EACH_ENTRY(DivideByRoots)
ORTHORNN_FOR_EACH_ENTRY(SkewOverRootSums)
ORTHORNN_FOR_EACH_ENTRY(RepeatLengths)
ORTHORNN_FOR_EACH_ENTRY(CopySteps<std::int32_t>)
ORTHORNN_FOR_EACH_ENTRY(GatherSequences<std::int32_t>)

#define ORTHORNN_INSTANTIATE(T)                     \
  ORTHORNN_FOR_EACH(AddPeepholeGradients<T>)        \
  ORTHORNN_FOR_EACH(AddTerms<T>)                    \
  ORTHORNN_FOR_EACH(AddToDiagonal<T>)               \
  ORTHORNN_FOR_EACH(AssignScaled<T>)                \
  ORTHORNN_FOR_EACH(CountSteps<T>)                  \
  ORTHORNN_FOR_EACH(Drop<T>)                        \
  ORTHORNN_FOR_EACH(FromDouble<T>)                  \
  ORTHORNN_FOR_EACH(LoadStiefel<T>)                 \
  ORTHORNN_FOR_EACH(Mix<T>)                         \
  ORTHORNN_FOR_EACH(ScaleByMeanSquare<T>)           \
  ORTHORNN_FOR_EACH(Sum<T>)                         \
  ORTHORNN_FOR_EACH(Tanh<T>)                        \
  ORTHORNN_FOR_EACH(TanhBackward<T>)                \
  ORTHORNN_FOR_EACH(ToDouble<T>)                    \
  ORTHORNN_FOR_EACH_ENTRY(AddMatrix<T>)             \
  ORTHORNN_FOR_EACH_ENTRY(AddNeighbours<T>)         \
  ORTHORNN_FOR_EACH_ENTRY(AddWhereEmpty<T>)         \
  ORTHORNN_FOR_EACH_ENTRY(AssignScaledMatrix<T>)    \
  ORTHORNN_FOR_EACH_ENTRY(CayleyCore<T>)            \
  ORTHORNN_FOR_EACH_ENTRY(CopyFeatures<T>)          \
  ORTHORNN_FOR_EACH_ENTRY(CopySteps<T>)             \
  ORTHORNN_FOR_EACH_ENTRY(CopyToRows<T>)            \
  ORTHORNN_FOR_EACH_ENTRY(GatedForward<T, Gru>)     \
  ORTHORNN_FOR_EACH_ENTRY(GatedBackward<T, Gru>)    \
  ORTHORNN_FOR_EACH_ENTRY(GatedForward<T, Lstm>)    \
  ORTHORNN_FOR_EACH_ENTRY(GatedBackward<T, Lstm>)   \
  ORTHORNN_FOR_EACH_ENTRY(GatherLast<T>)            \
  ORTHORNN_FOR_EACH_ENTRY(GatherNeighbours<T>)      \
  ORTHORNN_FOR_EACH_ENTRY(GatherSequences<T>)       \
  ORTHORNN_FOR_EACH_ENTRY(LoadHistory<T>)           \
  ORTHORNN_FOR_EACH_ENTRY(ReluStep<T>)              \
  ORTHORNN_FOR_EACH_ENTRY(ReluStepBackward<T>)      \
  ORTHORNN_FOR_EACH_ENTRY(SaveHistory<T>)           \
  ORTHORNN_FOR_EACH_ENTRY(ScatterLast<T>)           \
  ORTHORNN_FOR_EACH_ENTRY(SiluGate<T>)              \
  ORTHORNN_FOR_EACH_ENTRY(SiluGateBackward<T>)      \
  ORTHORNN_FOR_EACH_ENTRY(SkewGradient<T>)          \
  ORTHORNN_FOR_EACH_ENTRY(SymmetrizeStrictUpper<T>) \
  ORTHORNN_FOR_EACH_ENTRY(TimesSigns<T>)            \
  ORTHORNN_FOR_EACH_ENTRY(TransposeInPlace<T>)
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
