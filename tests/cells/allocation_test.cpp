// A program of its own: it replaces malloc by one that counts. The second forward and backward of a layer
// must not allocate, on any thread. Not for builds with sanitizers, which replace malloc themselves.

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "orthornn/tasks/adding_task.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/recurrence.hpp"
#include "support/transitions.hpp"

namespace {

std::atomic<long> allocations{0};

}  // namespace

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
#define ORTHORNN_COUNTS_ALLOCATIONS 1

// operator new of any alignment ends here too.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  ++allocations;
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}
#endif

namespace orthornn::testing {
namespace {

#ifdef ORTHORNN_COUNTS_ALLOCATIONS

TEST_CASE("allocations are counted", "[allocation]") {
  const long before = allocations;
  const Tensor<double> tensor({3, 4});
  void* volatile memory = std::malloc(8);
  std::free(memory);
  CHECK(allocations == before + 2);
}

template <class T>
long allocations_of_a_step(Recurrence<T>& r) {
  const long before = allocations;
  r.forward();
  r.backward();
  return allocations - before;
}

TEMPLATE_TEST_CASE("a training step after the first allocates nothing", "[allocation]", float, double) {
  const int threads_before = thread_count();
  const int threads = GENERATE(1, 2, 3, 4);
  set_thread_count(threads);
  for (const Activation activation : all_activations) {
    for (const NamedTransition& named : all_transitions(70, 50)) {
      // The baseline that is timed against goes through Eigen's expressions as a user would write them.
      if (named.name == "householder rank-one") continue;
      CAPTURE(named.name, name_of(activation), threads);
      Recurrence<TestType> r({.hidden_size = 70, .transition = named.options, .activation = activation}, 5, 6,
                             40);
      allocations_of_a_step(r);
      CHECK(allocations_of_a_step(r) == 0);
    }
  }
  set_thread_count(threads_before);
}

/// From batch to update: what the task, the readout, the loss, clipping and the optimizer do included.
TEST_CASE("nor does a step of a trainer", "[allocation]") {
  const int threads_before = thread_count();
  const int threads = GENERATE(1, 2, 3, 4);
  set_thread_count(threads);
  // 32 sequences occupy two threads, other parts of the step all of them.
  const CopyingTask copying({.delay = 5, .batch = 32});
  const AddingTask adding({.length = 6, .batch = 32});
  for (const Task* task : {static_cast<const Task*>(&copying), static_cast<const Task*>(&adding)}) {
    for (const OptimizerOptions& optimizer :
         {OptimizerOptions(Sgd{.momentum = 0.5}), OptimizerOptions(RmsProp{}), OptimizerOptions(AdamW{})}) {
      SequenceModel<float> model(Device::cpu(),
                                 {.input = task->input(),
                                  .cells = {OrthogonalCell{.hidden_size = 70}, Lstm{30}, Gru{50}},
                                  .readout = task->readout(),
                                  .loss = task->loss()});
      Trainer trainer(model, *task, {.optimizer = optimizer});
      trainer.step();
      const long before = allocations;
      for (int i = 0; i < 5; ++i) trainer.step();
      const long during = allocations - before;
      CAPTURE(task->name(), optimizer.index(), threads);
      CHECK(during == 0);
    }
  }
  set_thread_count(threads_before);
}

TEMPLATE_TEST_CASE("nor does one from symbols through a Stiefel matrix, nor one of a smaller batch",
                   "[allocation]", float, double) {
  const OrthogonalCell cell{.hidden_size = 70,
                            .transition = Cwy{.reflections = 20},
                            .activation = Activation::modrelu,
                            .input_matrix = InputMatrix::stiefel};
  Recurrence<TestType> r(cell, 5, 6, 40), smaller(cell, 5, 3, 17);
  r.use_symbols(1);
  allocations_of_a_step(r);
  CHECK(allocations_of_a_step(r) == 0);
  // Dense inputs gather nothing new but the product's blocks.
  r.forward(smaller.input(), smaller.h0);
  copy<TestType>(smaller.dh, r.d_outputs());
  r.backward(smaller.input(), smaller.dh_last, smaller.dx);
  const long before = allocations;
  r.layer.prepare();
  r.forward(smaller.input(), smaller.h0);
  copy<TestType>(smaller.dh, r.d_outputs());
  r.backward(smaller.input(), smaller.dh_last, smaller.dx);
  CHECK(allocations == before);
}

#endif

}  // namespace
}  // namespace orthornn::testing
