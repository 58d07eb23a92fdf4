// Networks whose parameters are constructions of the theory, run as the models that they are.

#include "orthornn/nn/exact_network.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "orthornn/tasks/language_task.hpp"
#include "orthornn/tasks/words_task.hpp"
#include "orthornn/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// Right steps of `count` words of so many symbols.
Index right_steps(SequenceModel<float>& model, const GroupWords& words, Index length, Index count = 1) {
  Batch batch;
  Tensor<std::int32_t>& symbols = batch.integers(batch_names::symbols);
  symbols.reserve({length, count});
  RandomStream random(1, RandomPurpose::test);
  for (std::int32_t& s : symbols)
    s = static_cast<std::int32_t>(random.integer(static_cast<std::uint32_t>(words.elements.size())));
  const TensorView<const float> scores = model.forward(batch);
  Index right = 0;
  for (Index b = 0; b < count; ++b) {
    Index y = FiniteGroup::identity;
    for (Index t = 0; t < length; ++t) {
      y = words.group.product(words.elements[static_cast<std::size_t>(symbols(t, b))], y);
      const TensorView<const float> of_step = scores[t][b];
      right += std::max_element(of_step.begin(), of_step.end()) - of_step.begin() == y;
    }
  }
  return right;
}

GroupWords all_words(const std::string& name) {
  GroupWords words{FiniteGroup(name), {}};
  for (Index element = 0; element < words.group.order(); ++element) words.elements.push_back(element);
  return words;
}

}  // namespace

TEST_CASE("one layer", "[nn][exact]") {
  const std::string name = GENERATE("S3", "S4", "A5", "S5", "Z2", "Z5", "D6", "Z2xS3", "D100");
  CAPTURE(name);
  const GroupWords words = all_words(name);
  const ExactNetwork network(words, 1);
  SequenceModel<float> model({}, network.model_options(true), Undrawn{});
  network.write(model);
  CHECK(right_steps(model, words, 100'000) == 100'000);
  WARN(name << " factors " << network.cell().householder << " hidden " << network.cell().hidden_size);
}
TEST_CASE("three layers", "[nn][exact]") {
  const std::string name = GENERATE("S3", "S4", "A5", "S5", "Z2", "Z5", "D6", "Z2xS3");
  CAPTURE(name);
  const GroupWords words = all_words(name);
  const ExactNetwork network(words, 3);
  SequenceModel<float> model({}, network.model_options(true), Undrawn{});
  network.write(model);
  CHECK(right_steps(model, words, 10'000) == 10'000);
  WARN(name << " factors " << network.cell().householder << " hidden " << network.cell().hidden_size
            << " mlp " << network.mlp()->mlp_size);
}
