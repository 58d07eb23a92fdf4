// Parameters of one model that another one begins with.

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

ModelOptions small(Index symbols, Index hidden, Index outputs) {
  return {OneHot{symbols}, {OrthogonalCell{.hidden_size = hidden}}, EveryStep{outputs}};
}

TensorView<const float> value(const Model<float>& model, const char* name) {
  return model.parameters().value(model.parameters().find(name));
}

}  // namespace

TEST_CASE("parameters of the same name and shape are taken from a file", "[train]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  const SequenceModel<float> source(Device::cpu(), small(3, 6, 2), 1);
  save_model(file, source);
  SequenceModel<float> model(Device::cpu(), small(5, 6, 2), 2);
  Tensor<float> weights(Shape{6, 5});
  copy<float>(value(model, "cell/input_weights"), weights);
  const TakenParameters found = take_parameters(file, model);
  CHECK(found.taken.size() + found.untaken.size() == model.parameters().list().size());
  CHECK(std::ranges::find(found.taken, "cell/reflection_vectors") != found.taken.end());
  REQUIRE(found.untaken.size() == 1);
  CHECK(found.untaken[0].name == "cell/input_weights");
  CHECK(found.untaken[0].shape == Shape{6, 5});
  CHECK(found.untaken[0].shape_in_file == Shape{6, 3});
  for (const char* name : {"cell/reflection_vectors", "readout/weight"})
    CHECK(equal(value(model, name), value(source, name)));
  CHECK(equal(value(model, "cell/input_weights"), weights));
}

TEST_CASE("a model of another kind gives what fits, and one that gives nothing is refused", "[train]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  const SequenceModel<float> source(Device::cpu(), {OneHot{3}, {Lstm{6}}, EveryStep{2}}, 1);
  save_model(file, source);
  SequenceModel<float> model(Device::cpu(), small(3, 6, 2), 2);
  const TakenParameters found = take_parameters(file, model);
  CHECK(found.taken == std::vector<std::string>{"readout/weight", "readout/bias"});
  CHECK(found.untaken[0].name == "cell/reflection_vectors");
  CHECK_FALSE(found.untaken[0].shape_in_file.has_value());

  SequenceModel<float> other(Device::cpu(), small(3, 7, 4), 2);
  const Tensor<float> before = other.parameters().values().copy();
  CHECK_THROWS_WITH(take_parameters(file, other),
                    contains("model.h5") && contains("none of its parameters") && contains("[7, 7]"));
  CHECK(equal(other.parameters().values(), before));
  CHECK_THROWS_AS(take_parameters(folder.path() / "absent.h5", other), FileError);
}

TEST_CASE("parameters that a model cannot have leave it as it was", "[train]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  SequenceModel<float> source(Device::cpu(), small(3, 4, 2), 1), model(Device::cpu(), small(3, 4, 2), 2);
  const Tensor<float> before = model.parameters().values().copy();
  ParameterSet<float>& parameters = source.parameters();
  const TensorView<float> vectors = parameters.value(parameters.find("cell/reflection_vectors"));
  std::fill(vectors[2].begin(), vectors[2].end(), 0.0F);
  save_model(file, source);
  CHECK_THROWS_WITH(take_parameters(file, model), contains("reflection vector 2 is zero"));
  CHECK(equal(model.parameters().values(), before));

  Hdf5Writer writer;
  writer.attribute("/", "format", "orthornn-model");
  writer.attribute("/", "format_version", 2);
  writer.attribute("/", "library_version", "0");
  writer.attribute("/", "task", "");
  writer.attribute("/", "config", "{\"model\":" + to_json(source.options()) + "}");
  Tensor<float> bias(Shape{2});
  bias(1) = std::numeric_limits<float>::quiet_NaN();
  writer.dataset("parameters/readout/bias", bias);
  writer.commit(file);
  CHECK_THROWS_WITH(take_parameters(file, model), contains("readout/bias") && contains("not finite"));
  CHECK(equal(model.parameters().values(), before));
}
