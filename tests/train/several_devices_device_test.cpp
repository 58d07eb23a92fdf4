// Trainings on streams of the caller, and on a second GPU.

#include <algorithm>
#include <optional>

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"
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

TEST_CASE("what follows a scope on the default stream of one GPU may come from the other",
          "[cuda][two-gpus]") {
  const auto first = gpu();
  if (!first) return;
  const auto second = second_gpu();
  if (!second) return;
  // Copies long enough to be overtaken.
  Tensor<float> ones(Shape{Index{1} << 22});
  std::fill(ones.begin(), ones.end(), 1.0F);
  const Tensor<float> a = ones.copy(*first);
  Tensor<float> b(ones.shape(), *first), c(ones.shape(), *second);
  {
    const StreamScope scope(*first, nullptr);
    copy<float>(a, b);
  }
  synchronize(*second);  // which is the current GPU now
  copy<float>(b, c);
  const Tensor<float> found = c.copy(Device::cpu());
  CHECK(std::ranges::equal(found, ones));
  if constexpr (has_cuda_bodies) {
    std::optional<Tensor<float>> given_back(c.copy(*second));
    {
      const StreamScope scope(*second, nullptr);
      copy<float>(c, *given_back);
    }
    synchronize(*first);
    const std::uint64_t changes = cuda::memory_changes(*second);
    given_back.reset();
    CHECK(cuda::memory_changes(*second) == changes + 1);
  }
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
