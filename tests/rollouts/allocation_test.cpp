// A program of its own: it replaces malloc by one that counts. The second forward and backward of a layer
// must not allocate, on any thread. Not for builds with sanitizers, which replace malloc themselves.

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <initializer_list>

#include "delta/delta_case.hpp"
#include "nn/translation_batch.hpp"
#include "orthornn/c_api.h"
#include "orthornn/core/convert.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/layers/layer_options.hpp"
#include "orthornn/nn/beam_search.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/optim/gradient_scale.hpp"
#include "orthornn/rollouts/applied_matrix.hpp"
#include "orthornn/tasks/adding_task.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/tasks/language_task.hpp"
#include "orthornn/tasks/recall_task.hpp"
#include "orthornn/tasks/sequences_task.hpp"
#include "orthornn/tasks/translation_task.hpp"
#include "orthornn/tasks/video_task.hpp"
#include "orthornn/tasks/words_task.hpp"
#include "orthornn/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/recurrence.hpp"
#include "support/sentence_pairs.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"
#include "support/transitions.hpp"
#include "tasks/sequences/stored_numbers.hpp"

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

#ifdef ORTHORNN_WITH_C_API

/// Allocations of a rollout through the C interface, forward and backward, after the first one.
long allocations_of_a_c_rollout(Index length) {
  const orthornn_rollout rollout{ORTHORNN_F32, ORTHORNN_TANH, 0, 0, length, 8, 64};
  const auto numbers = [](Index count) { return std::vector<float>(static_cast<std::size_t>(count)); };
  std::vector<float> q = numbers(64 * 64), d_q = q, inputs = numbers(length * 8 * 64), d_inputs = inputs,
                     h_0 = numbers(8 * 64), last = h_0, d_h_0 = h_0, outputs = inputs;
  std::int64_t bytes = 0;
  REQUIRE(orthornn_rollout_backward_workspace(nullptr, &rollout, &bytes) == ORTHORNN_OK);
  std::vector<char> workspace(static_cast<std::size_t>(bytes));
  long before = 0;
  for (int pass = 0; pass < 2; ++pass) {
    before = allocations;
    orthornn_rollout_forward(nullptr, &rollout, q.data(), nullptr, nullptr, inputs.data(), h_0.data(),
                             outputs.data(), last.data(), nullptr, workspace.data(), bytes);
    orthornn_rollout_backward(nullptr, &rollout, q.data(), nullptr, h_0.data(), outputs.data(), nullptr,
                              nullptr, last.data(), d_inputs.data(), d_h_0.data(), d_q.data(), nullptr,
                              workspace.data(), bytes);
  }
  return allocations - before;
}

TEST_CASE("what an operation of the C interface allocates does not grow with its data",
          "[allocation][c_api]") {
  const long few = allocations_of_a_c_rollout(2);
  CHECK(few < 40);
  CHECK(allocations_of_a_c_rollout(300) == few);
}

#endif

template <class T>
long allocations_of_a_step(Recurrence<T>& r) {
  const long before = allocations;
  r.forward();
  r.backward();
  return allocations - before;
}

TEST_CASE("the second pass of a delta product allocates nothing", "[allocation][delta]") {
  const DeltaForm form = GENERATE(DeltaForm::recurrent, DeltaForm::chunked);
  DeltaCase<float> c(TokenLayout::time_major(70, 3), {.factors = 2, .heads = 2, .key = 20, .value = 30},
                     {.form = form}, Decay::of_heads);
  const auto pass = [&] {
    c.evaluate();
    c.run();
  };
  pass();
  pass();  // memory that became too small is given back in the first
  const long before = allocations;
  pass();
  CHECK(allocations == before);
}

TEMPLATE_TEST_CASE("a training step after the first allocates nothing", "[allocation]", float, double) {
  const int threads_before = thread_count();
  const int threads = GENERATE(1, 2, 3, 4);
  set_thread_count(threads);
  for (const Activation activation : all_activations) {
    for (const NamedTransition& named : all_transitions(70, 50)) {
      // The baseline that is timed against goes through Eigen's expressions as a user would write them.
      if (named.name == "householder rank-one") continue;
      // Eigen's eigenvectors take a vector each time.
      if (named.name == "own") continue;
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
  const VideoTask video({.frames = 4, .batch = 32});
  for (const Task* task : {static_cast<const Task*>(&copying), static_cast<const Task*>(&adding),
                           static_cast<const Task*>(&video)}) {
    for (const OptimizerOptions& optimizer :
         {OptimizerOptions(Sgd{.momentum = 0.5}), OptimizerOptions(RmsProp{}), OptimizerOptions(AdamW{}),
          OptimizerOptions(Rgd{.momentum = 0.5}),
          OptimizerOptions(RgdAdam{.retraction = StiefelSgd::Retraction::cayley})}) {
      OrthogonalCell cell{.hidden_size = 70};
      if (optimizer.index() > 3) cell.transition = OrthogonalMatrix{};
      SequenceModel<float> model(Device::cpu(), model_for(task->data(), {cell, Lstm{30}, Gru{50}}));
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

TEST_CASE("nor does a pass through layers made of others", "[allocation]") {
  const int threads_before = thread_count();
  const int threads = GENERATE(1, 2, 3, 4);
  set_thread_count(threads);
  // Of 4 steps the delta product goes through one after another, of 20 in chunks.
  const Index length = GENERATE(4, 20);
  constexpr Index size = 20, batch = 33;
  ParameterSet<float> parameters;
  const auto layer = make_layer<float>(
      parameters, "layer",
      Bidirectional{{Residual{{RmsNorm{}, Lstm{size}, Dropout{.rate = 0.2}}},
                     ConvNeru{.hidden_size = 2, .height = 5, .width = 4},
                     ConvLstm{.hidden_size = 1, .height = 5, .width = 4, .peepholes = true},
                     OrthogonalConv{.channels = 1, .height = 5, .width = 4}, OrthogonalLinear{.outputs = 30},
                     OrthogonalLinear{.outputs = 12},
                     DeltaProductCell{.hidden_size = 7, .state_decay = true, .convolution = 3}, GatedMlp{},
                     Gru{9}}},
      size);
  parameters.allocate(Device::cpu());
  layer->initialize(1);
  const Tensor<float> x({length, batch, size});
  Tensor<float> d_x(x.shape()), d_y({length, batch, layer->output_size()});
  Tensor<std::uint64_t> noise(Shape{1});
  Tensor<std::int32_t> lengths(Shape{batch});
  std::fill(lengths.begin(), lengths.end(), 3);
  std::vector<Tensor<float>> states;
  for (Index i = 0; i < layer->state_count(); ++i) states.emplace_back(layer->state_shape(i, batch));
  const std::vector<TensorView<float>> views(states.begin(), states.end());
  const std::vector<TensorView<const float>> read_only(views.begin(), views.end());
  Saved saved(Device::cpu()), scratch(Device::cpu());
  const auto pass = [&] {
    const long before = allocations;
    layer->prepare();
    const SequenceInput<float> input{.vectors = x, .lengths = lengths, .noise = noise};
    layer->forward(input, read_only, views, saved);
    layer->backward(input,
                    {.d_output = d_y,
                     .d_last = read_only,
                     .d_input = d_x,
                     .d_start = views,
                     .parameters = Gradients::add},
                    saved, scratch);
    return allocations - before;
  };
  pass();
  CAPTURE(threads);
  CHECK(pass() == 0);
  set_thread_count(threads_before);
}

TEST_CASE("nor does a step of an encoder-decoder", "[allocation]") {
  const int threads_before = thread_count();
  const int threads = GENERATE(1, 3);
  set_thread_count(threads);
  const OrthogonalCell cell{.hidden_size = 40};
  const EncoderDecoderOptions options{.source_symbols = 9,
                                      .target_symbols = 8,
                                      .embedding_size = 20,
                                      .encoder = {cell},
                                      .decoder = {cell},
                                      .tied = true,
                                      .dropout = 0.1,
                                      .label_smoothing = 0.1};
  // The softmax in parts of 20 rows.
  EncoderDecoder<float> model(Device::cpu(), options, 1, 160);
  const Batch batch = translation_batch(options, 6, 5, 33, true);
  const auto step = [&] {
    const long before = allocations;
    model.prepare();
    model.loss_and_gradient_of_prepared(batch);
    model.loss_of_prepared(batch);
    return allocations - before;
  };
  step();
  step();  // an arena that grew in its first round keeps its memory from the second on
  CAPTURE(threads);
  CHECK(step() == 0);
  set_thread_count(threads_before);
}

TEST_CASE("nor does filling a batch of translation, once the batches of an epoch were seen", "[allocation]") {
  const TemporaryFolder folder;
  const TranslationTask task({.data = write_text(folder / "pairs.txt", number_pairs(400)), .batch = 16});
  const auto steps = static_cast<std::uint64_t>(*task.batches_per_epoch());
  REQUIRE(steps > 10);
  Batch batch;
  const auto passes = [&](std::uint64_t first_epoch) {
    const long before = allocations;
    for (std::uint64_t step = first_epoch * steps; step < (first_epoch + 2) * steps; ++step)
      task.training_batch(step, batch);
    for (Index number = 0; number < task.evaluation_batches(HeldOut::validation); ++number)
      task.evaluation_batch(HeldOut::validation, number, batch);
    return allocations - before;
  };
  // Two epochs each: the longest of their batches have one shape.
  passes(0);
  CHECK(passes(2) == 0);
}

TEST_CASE("nor does filling a batch of words, of a language, of recall or of video", "[allocation]") {
  const WordsTask words({.length = 20, .training_samples = 100, .batch = 16});
  const LanguageTask parity({.batch = 16});
  const RecallTask recall({.batch = 16});
  const VideoTask video({.batch = 16});
  for (const Task* task : {static_cast<const Task*>(&words), static_cast<const Task*>(&parity),
                           static_cast<const Task*>(&recall), static_cast<const Task*>(&video)}) {
    CAPTURE(task->name());
    Batch batch;
    task->training_batch(0, batch);
    const long before = allocations;
    for (std::uint64_t step = 1; step < 20; ++step) task->training_batch(step, batch);
    CHECK(allocations == before);
  }
  // A stack of parts is as deep as the deepest sentence so far.
  const LanguageTask brackets({.language = Language::modular_brackets, .batch = 1000});
  Batch batch;
  const auto fill = [&] {
    const long before = allocations;
    for (std::uint64_t step = 0; step < 3; ++step) brackets.training_batch(step, batch);
    return allocations - before;
  };
  fill();
  CHECK(fill() == 0);
}

TEST_CASE("nor does a batch of sequences in a file, by the threads that go ahead", "[allocation]") {
  const TemporaryFolder folder;
  Tensor<float> inputs({100, 7, 3});
  for (Index i = 0; i < inputs.size(); ++i) inputs.data()[i] = static_cast<float>(i % 11);
  Hdf5Writer writer;
  writer.dataset("inputs", inputs);
  writer.commit(folder / "own.h5");
  most_bytes_in_memory = 1000;
  const SequencesTask task({.data = folder / "own.h5", .goal = Goal::forecast, .batch = 8});
  Batch batch;
  // When batch 2 is there, each of the three batches was filled once, and each thread has filled one.
  std::uint64_t step = 0;
  for (; step < 3; ++step) task.training_batch(step, batch);
  task.evaluation_batch(HeldOut::test, 0, batch);
  const long before = allocations;
  for (; step < 50; ++step) task.training_batch(step, batch);
  task.evaluation_batch(HeldOut::validation, 0, batch);
  CHECK(allocations == before);
  most_bytes_in_memory = Index{1} << 28;
}

TEST_CASE("a beam search allocates for a step what it allocated for the step before", "[allocation]") {
  const OrthogonalCell cell{.hidden_size = 6};
  const EncoderDecoderOptions options{
      .source_symbols = 9, .target_symbols = 8, .embedding_size = 4, .encoder = {cell}, .decoder = {cell}};
  EncoderDecoder<float> model(Device::cpu(), options, 1);
  // It never ends by itself.
  model.parameters().value(model.parameters().find("output/bias"))(3) = -1e4F;
  Batch batch;
  batch.integers(batch_names::source).resize({40, 1});
  const auto of_steps = [&](Index steps) {
    const long before = allocations;
    beam_search(model, batch, {.begin = 2, .end = 3}, {.beam = 5, .most_symbols = steps});
    return allocations - before;
  };
  of_steps(100);
  // Hypotheses that are copied at each step, a row of attention weights at a time, would allocate twice five
  // times 100 x 101 / 2 rows. Answers have a row for each symbol: 5 x 100.
  const long of_first = of_steps(50), of_both = of_steps(100);
  CHECK(of_both < 3 * of_first);
}

/// The functions that include/orthornn/README.md names and no step of a trainer calls.
TEST_CASE("nor do functions on tensors that are large enough", "[allocation]") {
  const int threads_before = thread_count();
  set_thread_count(GENERATE(1, 3));
  const Index count = 1 << 16;
  Tensor<float> wide = normal_tensor<float>({count}, 1), second({count});
  Tensor<bfloat16> narrow({count});
  Tensor<double> loss({2}), scale({2});
  Recurrence<float> r({.hidden_size = 70}, 5, 6, 40);
  r.layer.prepare();
  AppliedMatrix<float> applied;
  Saved saved(Device::cpu());
  const auto all = [&] {
    convert(wide, narrow);
    convert(narrow, second);
    copy<float>(wide, second);
    second.resize({count / 2});
    second.reserve({2, count / 2});
    second.reserve({count});
    gradient_scale<float>(wide, loss, 1.0, scale);
    applied.of(r.layer.transition());
    saved.push<float>({count});
    saved.push<double>({3, 4});
    saved.pop(2);
  };
  all();
  all();  // an arena that grew in its first round keeps its memory from the second on
  const long before = allocations;
  all();
  const long during = allocations - before;
  CHECK(during == 0);
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
