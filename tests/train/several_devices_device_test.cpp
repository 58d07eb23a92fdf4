// Trainings on streams of the caller, and on a second GPU.

#include "orthornn/core/stream_scope.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/same_bits.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

const CopyingTask delayed_copying({.delay = 4, .batch = 6});

struct TwoLayerTraining {
  SequenceModel<float> model;
  Trainer trainer;

  explicit TwoLayerTraining(Device device)
      : model(device,
              model_for(delayed_copying.data(), {OrthogonalCell{.hidden_size = 12}, Lstm{.hidden_size = 8}})),
        trainer(model, delayed_copying, {.optimizer = Adam{.lr = 1e-2}}) {}

  Tensor<float> parameters() const { return model.parameters().values().copy(Device::cpu()); }
};

}  // namespace

TEST_CASE("a training on a caller's stream gives the same bits", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  TwoLayerTraining plain(*device), elsewhere(*device);
  for (int step = 0; step < 6; ++step) {
    plain.trainer.step();
    // Both are recorded in these steps, on the default stream (null) and on the device's own.
    const StreamScope scope(*device, step % 3 == 1 ? stream_of(*device) : nullptr);
    elsewhere.trainer.step();
  }
  CHECK(same_bits(plain.parameters(), elsewhere.parameters()));
}

TEST_CASE("a tensor goes from one GPU to another and back", "[cuda][two-gpus]") {
  const auto first = gpu();
  if (!first) return;
  const auto second = second_gpu();
  if (!second) return;
  CHECK(to_string(*second) == "cuda:1");
  CHECK(Device::parse("cuda:1") == *second);
  Tensor<float> host(Shape{1000, 1000});
  for (Index i = 0; i < host.size(); ++i) host.data()[i] = static_cast<float>(i);
  const Tensor<float> here = host.copy(*first);
  Tensor<float> there = here.copy(*second);
  CHECK(there.device() == *second);
  // Nothing waits for the host in between.
  Tensor<float> back(host.shape(), *first);
  copy<float>(there, back);
  there.resize(host.shape());
  CHECK(same_bits(back.copy(Device::cpu()), host));
  CHECK(there.copy(Device::cpu())(999, 999) == 0);
}

TEST_CASE("two GPUs train side by side as each alone", "[cuda][two-gpus]") {
  const auto first = gpu();
  if (!first) return;
  const auto second = second_gpu();
  if (!second) return;
  // The same bits are promised for the same kind of GPU.
  if (properties_of(*first).name != properties_of(*second).name) {
    std::printf("skipped: the two GPUs are of different kinds\n");
    return;
  }
  TwoLayerTraining alone(*first);
  for (int step = 0; step < 6; ++step) alone.trainer.step();
  TwoLayerTraining here(*first), there(*second);
  for (int step = 0; step < 6; ++step) {
    here.trainer.step();
    there.trainer.step();
  }
  CHECK(same_bits(here.parameters(), alone.parameters()));
  CHECK(same_bits(there.parameters(), alone.parameters()));
  CHECK(there.model.parameters().values().device() == *second);
}
